"""guards_2: one compile for every number of rows, 1 included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, Values
from autograder.exercises.guards.served import always_compiled, compiles_at_most, each_call, not_outside
from autograder.judging import beside, called, eager_operations, exact, first_call, graphs_hold, same_numbers

WIDTH = 5


def row_wise(kind: str, scale: float) -> Callable[[torch.Tensor], Any]:
    """A function of x [rows, 5] that treats each row for itself; no two draws have the same numbers."""

    def squashed(x: torch.Tensor) -> Any:
        return (x * scale).tanh().sum(-1)

    def normed(x: torch.Tensor) -> Any:
        return x / (scale + x.norm(dim=-1, keepdim=True))

    def shared(x: torch.Tensor) -> Any:
        return (x * scale).softmax(-1)

    return {"squashed": squashed, "normed": normed, "shared": shared}[kind]


def ask(draw: Draw) -> Values:
    """A row-wise function, and inputs of 1 to 64 rows: a square one first, and one with a single row."""
    sizes = sorted({draw.size(WIDTH + 1, 60) for _ in range(7)} | {1, 64}, key=lambda _: draw.size(0, 10**6))
    return {
        "kind": draw.choice(("squashed", "normed", "shared")),
        "scale": draw.number(0.5, 2.0),
        "inputs": [draw.tensor(size, WIDTH) for size in (WIDTH, *sizes)],
    }


def probe(answer: Answer, asked: Values) -> Values:
    """All calls in one run, and what two more calls, of 1 row and of 64, run outside compiled code."""
    ends = [x for x in asked["inputs"] if len(x) in (1, 64)]
    with beside(ends[0]):  # whoever pads makes zeros
        serve = called("one_for_all(fn)", answer.one_for_all, row_wise(asked["kind"], asked["scale"]))
        found = each_call("serve(x)", serve, [(x,) for x in asked["inputs"]])
        return {**found, "outside": [name for x in ends for name in eager_operations(serve, x)]}


def judge(asked: Values, found: Values) -> str:
    """Numbers as in float64, one compile, and nothing but copying outside it."""
    fn, inputs = row_wise(asked["kind"], asked["scale"]), asked["inputs"]
    for x, got in zip(inputs, found["results"], strict=True):
        same_numbers(f"serve(x) with {len(x)} rows", got, fn(exact(x)), torch.float32)
    always_compiled(found["run"], "serve(x)", len(inputs))
    compiles_at_most(found["run"], "serve(x)", 1, len(inputs))
    with beside(inputs[0]):  # as the answer's graphs were made: x * 2 is another operation there
        own = first_call("fn(x)", torch.compile(fn, backend="eager"), inputs[0])
    graphs_hold("serve(x)", found["run"], own)
    not_outside("serve(x)", found["outside"], fn, inputs[0])
    return f"{len(inputs)} sizes, 1 compile"


_START = "import torch\nfrom torch._dynamo import mark_dynamic\n"

EXERCISE = Exercise(
    name="guards_2",
    lesson="04_guards",
    points=2,
    asks_for=("one_for_all",),
    check=Check(ask, probe, judge),
    hints=(
        "Observe a few calls of your serve(x), of 5, 1 and 9 rows, and draw timeline(run). Which one compiled again?",
        "An open size serves from 2 on. A single row needs an entry of its own, unless it never reaches the compiled "
        "function as a single row.",
        "In serve(x), if there is one row, take that row twice, torch.cat([x, x]). Mark dimension 0 of what you have, "
        "mark_dynamic(…, 0), call the compiled function on it, and return the first len(x) rows of the result.",
    ),
    known_mistakes=(
        KnownMistake(
            _START + "def one_for_all(fn):\n    return torch.compile(fn, backend='aot_eager')\n", "one is wanted"
        ),
        KnownMistake(
            _START + "def one_for_all(fn):\n    return torch.compile(fn, backend='aot_eager', dynamic=True)\n",
            "compiled 3 times",
        ),
        KnownMistake(  # right but for the square, whose sizes share a symbol
            _START
            + """
def one_for_all(fn):
    fast = torch.compile(fn, backend="aot_eager", dynamic=True)
    return lambda x: fast(torch.cat([x, x]))[:1] if len(x) == 1 else fast(x)
""",
            "compiled 2 times",
        ),
        KnownMistake(
            _START + "def one_for_all(fn):\n    return torch.compile(fn, backend='aot_eager', dynamic=False)\n",
            "size mismatch",
        ),
        KnownMistake(  # the single row runs eager
            _START
            + """
def one_for_all(fn):
    fast = torch.compile(fn, backend="aot_eager", dynamic=True)
    return lambda x: fn(x) if len(x) == 1 else fast(x)
""",
            "all of them are wanted",
        ),
        KnownMistake(  # the stance hides the recompiles
            _START
            + """
def one_for_all(fn):
    fast = torch.compile(fn, backend="aot_eager")
    def serve(x):
        out = fast(x)
        torch.compiler.set_stance("eager_on_recompile")
        return out
    return serve
""",
            "plain Python",
        ),
        KnownMistake(  # all rows of the padding come back
            _START
            + """
def one_for_all(fn):
    fast = torch.compile(fn, backend="aot_eager")
    return lambda x: fast(torch.nn.functional.pad(x, (0, 0, 0, 64 - len(x))))
""",
            "returned shape",
        ),
        KnownMistake(
            _START + "def one_for_all(fn):\n    return torch.compile(fn, backend='eager', dynamic=True)\n",
            "compiled nothing of it",
        ),
        KnownMistake(_START + "def one_for_all(fn):\n    return fn\n", "0 of"),
        KnownMistake(  # the work hides in a custom operator
            _START
            + """
def one_for_all(fn):
    @torch.library.custom_op("mine::hidden", mutates_args=())
    def hidden(x: torch.Tensor) -> torch.Tensor:
        return fn(x).clone()
    hidden.register_fake(lambda x: torch.empty_like(fn(x)))
    fast = torch.compile(lambda x: hidden(x), backend="aot_eager", dynamic=True)
    return lambda x: fast(torch.cat([x, x]))[: len(x)]
""",
            "hides its work",
        ),
        KnownMistake(  # the work hides in a thread, beside a graph for show
            _START
            + """
from concurrent.futures import ThreadPoolExecutor
def one_for_all(fn):
    show = torch.compile(lambda x: x.sin(), backend="aot_eager")
    worker = ThreadPoolExecutor(1)
    def serve(x):
        show(torch.ones(3))
        return worker.submit(fn, x).result()
    return serve
""",
            "in none of its graphs",
        ),
        KnownMistake(  # a compiled call for show
            _START
            + """
def one_for_all(fn):
    fast = torch.compile(fn, backend="aot_eager")
    def serve(x):
        fast(torch.zeros(2, x.shape[1]))
        return fn(x)
    return serve
""",
            "outside its graph",
        ),
        KnownMistake(
            _START + "def one_for_all(fn):\n    return fn(torch.ones(3, 5))\n",
            "a function is wanted",
        ),
    ),
    alternatives=(
        _START
        + """
def one_for_all(fn):
    fast = torch.compile(fn, backend="aot_eager", fullgraph=True)

    def serve(x):
        rows = len(x)
        padded = torch.zeros(64, x.shape[1])
        padded[:rows] = x
        return fast(padded)[:rows]
    return serve
""",
        _START
        + """
def one_for_all(fn):
    fast = torch.compile(fn, backend="aot_eager")

    def serve(x):
        two = torch.cat([x, x[:1]])
        mark_dynamic(two, 0)
        return fast(two)[:-1]
    return serve
""",
        _START
        + """
from torch._dynamo.decorators import mark_unbacked

def one_for_all(fn):
    fast = torch.compile(fn, backend="aot_eager")

    def serve(x):
        mark_unbacked(x, 0)
        return fast(x)
    return serve
""",
    ),
)
