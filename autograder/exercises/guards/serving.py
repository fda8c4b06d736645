"""guards_7: a server that compiles while it warms up, and never again."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import nn

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.guards.served import always_compiled, not_outside, observed, refusal, unbroken
from autograder.judging import beside, called, eager_operations, exact, first_call, graphs_hold, same_numbers
from compilescope import observe
from compilescope.text import count


class Classifier(nn.Module):
    """x [rows, width] → [rows, classes], with dropout while it trains."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.width = width
        self.up, self.drop, self.down = nn.Linear(width, 16), nn.Dropout(0.5), nn.Linear(16, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of each row."""
        out: torch.Tensor = self.down(self.drop(self.up(x).relu()))
        return out


def _model(asked: Values) -> Classifier:
    """On the CPU, with the same weights whoever builds it."""
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.manual_seed(asked["seed"])
        return Classifier(asked["width"], asked["classes"])


def ask(draw: Draw) -> Values:
    """A model from a seed, and requests of 1 to `largest` rows, some with gradients on."""
    # wider than any request has rows: with dynamic=True equal sizes get one symbol, and a guard that they are equal
    width, largest = draw.size(41, 50), draw.size(12, 40)
    sizes = [1, largest, *(draw.size(2, largest - 1) for _ in range(6))]
    sizes.sort(key=lambda _: draw.size(0, 10**6))
    return {
        "seed": draw.size(0, 10**6),
        "width": width,
        "classes": draw.size(2, 5),
        "largest": largest,
        "requests": [draw.tensor(size, width) for size in sizes],
        "grad": [number % 2 == 0 for number in range(len(sizes))],
    }


def probe(answer: Answer, asked: Values) -> Values:
    """All requests in one run, after the answer has had its time to warm up."""
    torch.compiler.reset()
    device = beside(asked["requests"][0])
    model = _model(asked).to(device)
    with device:  # a warm-up makes its inputs
        return _served(answer, asked, model)


def _served(answer: Answer, asked: Values, model: Classifier) -> Values:
    label = "make_server(model, largest)"
    with observe() as warm:
        serve = called(label, answer.make_server, model, asked["largest"])
    if not callable(serve):
        called(label, serve)

    def request(x: torch.Tensor, grad: bool) -> Any:
        with torch.enable_grad() if grad else torch.no_grad():
            return serve(x)

    found: Values = {"warm": warm}
    found |= observed("serve(x)", request, zip(asked["requests"], asked["grad"], strict=True))
    with contextlib.suppress(RuntimeError):  # the stance may refuse what was not warmed up
        found["outside"] = list(eager_operations(serve, asked["requests"][0]))
    return found


def judge(asked: Values, found: Values) -> str:
    """Numbers as in float64 and without dropout; every request a hit."""
    requests, run = asked["requests"], found["run"]
    model = _model(asked).eval().to(requests[0].device)
    twin = _model(asked).eval().double()
    for x, got in zip(requests, found["results"], strict=True):
        same_numbers(f"serve(x) with {len(x)} rows", got, twin(exact(x)), torch.float32)
    missed = [call for call in run.calls if call.compile_ids]
    if missed:
        look = f"The guard: {refusal(run, 0)}."
        raise NotYet(
            "serve(x)", f"compiled in {len(missed)} of {count(len(requests), 'request')}", "none is wanted", look
        )
    unbroken(found["warm"], "serve(x)")
    always_compiled(run, "serve(x)", len(requests))
    with beside(requests[0]):  # as the answer's graphs were made
        own = first_call("model(x)", torch.compile(model, backend="eager"), requests[0])
    graphs_hold("serve(x)", found["warm"], own)
    not_outside("serve(x)", found.get("outside", []), model, requests[0])
    return f"{len(requests)} requests, 0 compiles"


def _answer(before: str, warm: str, around: str = "@torch.no_grad()") -> str:
    return f"""import torch

def make_server(model, largest):
    {before}

    {around}
    def serve(x):
        return fast(x)

    {warm}
    return serve
"""


_FAST = 'model.eval(); fast = torch.compile(model, backend="aot_eager", dynamic=True)'
_WARM = "for size in (1, 2, largest): serve(torch.zeros(size, model.width))"

EXERCISE = Exercise(
    name="guards_7",
    lesson="04_guards",
    points=3,
    asks_for=("make_server",),
    check=Check(ask, probe, judge),
    hints=(
        "Send a few requests inside torch.compiler.set_stance('fail_on_recompile'): the error names the guard.",
        "List what a request may bring: 1 row, more rows, gradients on or off. Either serve decides it, as no_grad "
        "does, or the warm-up has met it.",
        "model.eval(); compile it with dynamic=True; put @torch.no_grad() on serve(x); then call it with "
        "zeros of 1, of 2 and of `largest` rows before you return it.",
    ),
    known_mistakes=(
        KnownMistake(_answer(_FAST, "pass"), "compiled in"),  # cold
        KnownMistake(_answer(_FAST, "serve(torch.zeros(largest, model.width))"), "compiled in 1 of 8"),  # a single row
        KnownMistake(_answer(_FAST.replace("model.eval(); ", ""), _WARM), "float64 result"),  # dropout
        KnownMistake(_answer(_FAST, _WARM.replace("serve(", "fast(")), "grad_mode"),  # warm in another mode
        KnownMistake(_answer(_FAST, _WARM, "# gradients as they come"), "grad_mode"),
        KnownMistake(_answer(_FAST.replace("dynamic=True", "dynamic=False"), _WARM), "compiled in"),
        KnownMistake(_answer("model.eval(); fast = model", _WARM), "0 of 8 calls"),
        KnownMistake(_answer(_FAST, "torch.compiler.set_stance('force_eager')"), "ran as plain Python"),
        KnownMistake(
            _answer(_FAST, "serve(torch.zeros(3, model.width)); torch.compiler.set_stance('eager_on_recompile')"),
            "ran as plain Python",
        ),
        KnownMistake(
            _answer(_FAST, _WARM).replace("return serve", "return serve(torch.zeros(1, model.width))"), "a function"
        ),
        KnownMistake(
            _answer(_FAST.replace('"aot_eager"', '"eager"'), _WARM).replace("return fast(x)", "return fast(x) * 2"),
            "float64",
        ),
    ),
    alternatives=(
        _answer(_FAST, _WARM + "\n    torch.compiler.set_stance('fail_on_recompile')"),
        """import torch
from torch._dynamo import mark_dynamic

def make_server(model, largest):
    fast = torch.compile(model.eval(), backend="aot_eager")
    example = torch.zeros(largest, model.width)
    mark_dynamic(example, 0)
    for mode in (True, False):
        with torch.set_grad_enabled(mode):
            fast(example)
            fast(torch.zeros(1, model.width))
    return fast
""",
        """import torch
import torch.nn.functional as F

def make_server(model, largest):
    model.eval()
    model.compile(backend="aot_eager", fullgraph=True)

    def serve(x):
        with torch.inference_mode():
            return model(F.pad(x, (0, 0, 0, largest - len(x))))[: len(x)].clone()

    serve(torch.zeros(1, model.width))
    return serve
""",
    ),
)
