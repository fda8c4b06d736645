"""breaks_4: keep the log line and lose the break."""

from __future__ import annotations

import contextlib
import io
import re

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.breaks.seen import by_aot_eager, calls_of, no_break
from autograder.judging import called, eager_operations, graphs_made, same_numbers
from compilescope import observe

LABEL = "denoise(x)"
_NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")
_READING = {"aten::item", "aten::_local_scalar_dense", "aten::detach", "aten::to", "aten::is_nonzero"}
"""What Python does to write a number down; everything else belongs into the graph."""


def reference(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What denoise returns, and the loss that it prints."""
    y = (2 * x).tanh()
    loss = (y - x).square().mean()
    return y - loss * y.sign(), loss


def ask(draw: Draw) -> Values:
    """Two inputs of the same shape, so that the second call compiles nothing."""
    shape = draw.size(4, 9), draw.size(3, 8)
    return {"calls": [draw.tensor(*shape), draw.tensor(*shape) * draw.number(2.0, 3.0)]}


def probe(answer: Answer, asked: Values) -> Values:
    """What each call returned, printed and compiled; and what the last one ran outside its graph."""
    denoise = called("make_denoise()", answer.make_denoise)
    torch.compiler.reset()
    calls = []
    for x in asked["calls"]:
        if not callable(denoise):
            called(LABEL, denoise)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            run = observe(denoise, x)
        calls.append({"run": run, "result": run.result, "printed": printed.getvalue()})
    with contextlib.redirect_stdout(io.StringIO()):
        outside = eager_operations(denoise, asked["calls"][-1])
    return {"calls": calls, "outside": list(outside)}


def judge(asked: Values, found: Values) -> None:
    """Each call prints its loss once; one graph without a break holds the rest."""
    for number, (x, one) in enumerate(zip(asked["calls"], found["calls"], strict=True), 1):
        want, loss = reference(x.double())
        label = f"Call {number} of {LABEL}"
        same_numbers(label, one["result"], want, x.dtype)
        _printed(label, one["printed"], float(loss))
    run = found["calls"][0]["run"]
    graphs_made(run, LABEL, 1)
    by_aot_eager(run, LABEL)
    no_break(run, LABEL)
    outside = [name for name in found["outside"] if name not in _READING]
    if outside or not any("tanh" in target for target in calls_of(run)):
        where = f"ran {outside[0] if outside else 'tanh'} outside its graph", "only the printing stays in Python"
        raise NotYet(LABEL, *where, "Look at which function you compile.")


def _printed(label: str, text: str, loss: float) -> None:
    lines = [line for line in text.splitlines() if "loss" in line]
    wanted = f"one line with loss {loss:.4f} is wanted"
    if len(lines) != 1:
        said = "printed no line with loss" if not lines else f"printed {len(lines)} lines with loss"
        raise NotYet(label, said, wanted, "Look at when your print runs: on each call, or while Dynamo traces?")
    numbers = [float(number) for number in _NUMBER.findall(lines[0])]
    if not any(abs(number - loss) <= 1e-3 * max(1.0, abs(loss)) for number in numbers):
        raise NotYet(label, f"printed {lines[0][:40]!r}", wanted, "Look at which value reaches print.")


_START = "import torch\n"
_CORE = """
def core(x):
    y = torch.tanh(2 * x)
    loss = (y - x).square().mean()
    return y - loss * y.sign(), loss
"""
_TALK = """
    def denoise(x):
        out, loss = fast(x)
        print(f"loss {loss:.4f}")
        return out
    return denoise
"""

EXERCISE = Exercise(
    name="breaks_4",
    lesson="03_graph_breaks",
    points=2,
    asks_for=("make_denoise",),
    check=Check(ask, probe, judge),
    hints=(
        "Two things happen in one function: it computes, and it talks. Only the first one has to be compiled.",
        "A compiled function may return more than one value. What it returns, plain Python can print.",
        "Compile core(x), which returns result and loss. Then def denoise(x): call it, print the loss, "
        "return the result.",
    ),
    known_mistakes=(
        KnownMistake(
            _START
            + """
def make_denoise():
    @torch.compile(backend="aot_eager")
    def denoise(x):
        y = torch.tanh(2 * x)
        loss = (y - x).square().mean()
        print(f"loss {loss:.4f}")
        return y - loss * y.sign()
    return denoise
""",
            "made 2 graphs",
        ),
        KnownMistake(  # the line is gone
            _START
            + _CORE
            + "\ndef make_denoise():\n    fast = torch.compile(core, backend='aot_eager')\n"
            + "    return lambda x: fast(x)[0]\n",
            "printed no line",
        ),
        KnownMistake(  # said in eager mode only
            _START
            + """
def make_denoise():
    @torch.compile(backend="aot_eager")
    def denoise(x):
        y = torch.tanh(2 * x)
        loss = (y - x).square().mean()
        if not torch.compiler.is_compiling():
            print(f"loss {loss:.4f}")
        return y - loss * y.sign()
    return denoise
""",
            "printed no line",
        ),
        KnownMistake(  # at the end: one graph, but still a way back to Python
            _START
            + """
def make_denoise():
    @torch.compile(backend="aot_eager")
    def denoise(x):
        y = torch.tanh(2 * x)
        loss = (y - x).square().mean()
        out = y - loss * y.sign()
        print(f"loss {loss:.4f}")
        return out
    return denoise
""",
            "no break is wanted",
        ),
        KnownMistake(  # nothing is compiled
            _START
            + _CORE
            + """
def make_denoise():
    torch.compile(core, backend="aot_eager")
    def denoise(x):
        out, loss = core(x)
        print(f"loss {loss:.4f}")
        return out
    return denoise
""",
            "made 0 graphs",
        ),
        KnownMistake(  # computed a second time, in eager, for the line
            _START
            + _CORE
            + """
def make_denoise():
    fast = torch.compile(core, backend="aot_eager")
    def denoise(x):
        print(f"loss {core(x)[1]:.4f}")
        return fast(x)[0]
    return denoise
""",
            "outside its graph",
        ),
        KnownMistake(  # the loss of the first call for ever
            _START
            + _CORE
            + """
def make_denoise():
    fast = torch.compile(core, backend="aot_eager")
    said = []
    def denoise(x):
        out, loss = fast(x)
        said.append(loss)
        print(f"loss {said[0]:.4f}")
        return out
    return denoise
""",
            "printed 'loss",
        ),
        KnownMistake(
            _START
            + _CORE
            + """
def make_denoise():
    fast = torch.compile(core, backend="eager")
"""
            + _TALK,
            'compiled nothing of it; backend="aot_eager" is wanted',
        ),
        KnownMistake(  # every failure hidden
            _START
            + _CORE
            + """
def make_denoise():
    def denoise(x):
        try:
            out, loss = torch.compile(lambda x: undefined(x), backend="aot_eager", fullgraph=True)(x)
        except Exception:
            out, loss = core(x)
        print(f"loss {loss:.4f}")
        return out
    return denoise
""",
            "0 graphs",
        ),
        KnownMistake(  # torch patched, counters forged
            _START
            + _CORE
            + """
import torch._dynamo

def make_denoise():
    torch._dynamo.utils.counters["stats"]["unique_graphs"] = 1
    kept, torch.compile = torch.compile, lambda fn, **options: fn
    fast = torch.compile(core, backend="aot_eager")
    torch.compile = kept
"""
            + _TALK,
            "made 0 graphs",
        ),
        KnownMistake(
            _START
            + _CORE
            + """
import torch._dynamo

def make_denoise():
    fast = torch._dynamo.config.patch(disable=True)(torch.compile(core, backend="aot_eager"))
"""
            + _TALK,
            "made 0 graphs",
        ),
        KnownMistake(  # compiling is switched off
            _START
            + _CORE
            + """
def make_denoise():
    fast = torch.compile(core, backend="aot_eager")
    torch.compiler.set_stance("force_eager")
"""
            + _TALK,
            "made 0 graphs",
        ),
    ),
    alternatives=(
        _START
        + _CORE
        + """
def make_denoise():
    fast = torch.compile(core, backend="aot_eager", fullgraph=True)
    def denoise(x):
        out, loss = fast(x)
        print("loss", round(loss.item(), 4))
        return out
    return denoise
""",
        _START
        + """
import torch._dynamo

def make_denoise():
    @torch.compile(backend="aot_eager")
    def denoise(x):
        y = torch.tanh(2 * x)
        loss = (y - x).square().mean()
        print("loss", loss)
        return y - loss * y.sign()

    return torch._dynamo.config.patch(reorderable_logging_functions={print})(denoise)
""",
        _START
        + """
class Denoiser(torch.nn.Module):
    def forward(self, x):
        y = torch.tanh(2 * x)
        self.loss = (y - x).square().mean()
        return y - self.loss * y.sign()

def make_denoise():
    model = Denoiser()
    model.compile(backend="aot_eager")
    def denoise(x):
        out = model(x)
        print(f"loss {model.loss:.4f}")
        return out
    return denoise
""",
    ),
)
