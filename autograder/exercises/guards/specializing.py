"""guards_3: find the line that fixes a size, and write it so that the size stays open."""

from __future__ import annotations

from typing import Any

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.guards.served import always_compiled, compiles, each_call
from autograder.judge import namespace_of
from autograder.judging import beside, called, eager_operations, exact, none_outside, same_numbers
from compilescope.facts import Run

WIDTH = 8

SPECIALIZING = (
    "y = y * 2 if len(x) == {n} else y",
    "y = y.view({n}, -1)",
    "y = y + torch.linspace(0, 1, {n}, device=x.device)[:, None]",
    "y = torch.stack([y[i] * i for i in range(x.shape[0])])",
    "y = y * {{{n}: 2.0}}.get(x.shape[0], 1.0)",
)
"""Lines that fix the number of rows of x, for x [n, 8]."""

HARMLESS = (
    "y = y * x.shape[0]",
    "y = y.view(x.shape[0], -1)",
    "y = y + torch.arange(len(x), device=x.device)[:, None] / 8",
    "y = y.narrow(0, 0, x.shape[0])",
    "y = y - y.mean(0)",
    "y = y * 2 if x.shape[1] == 8 else y",
)
"""Lines that use the number of rows and leave it open, or do not use it."""


def pooled(x: torch.Tensor) -> Any:
    """What the lesson's function computes: x [tokens, width] → [width], later tokens weigh more."""
    weights = torch.arange(1, len(x) + 1, dtype=x.dtype) / len(x)
    return (weights[:, None] * x).mean(0)


def ask(draw: Draw) -> Values:
    """The source of a function in which one line fixes the number of rows, and inputs for `mended`."""
    rows = draw.size(WIDTH + 1, 24)
    guilty = draw.choice(SPECIALIZING).format(n=rows)
    lines = sorted(HARMLESS, key=lambda _: draw.size(0, 10**6))[: draw.size(2, 4)]
    lines.insert(draw.size(0, len(lines)), guilty)
    source = "def fn(x):\n    y = x.sin()\n" + "".join(f"    {line}\n" for line in lines) + "    return y.sum(0)\n"
    # never as many rows as columns: with dynamic=True both would get one symbol, and a guard that they are equal
    sizes = sorted({draw.size(WIDTH + 1, 40) for _ in range(6)}, key=lambda _: draw.size(0, 10**6))
    return {
        "source": source,
        "guilty": guilty,
        "x": draw.tensor(rows, WIDTH),
        "inputs": [draw.tensor(size, WIDTH) for size in sizes],
    }


def probe(answer: Answer, asked: Values) -> Values:
    """The line that `which_line` names, and the calls of `mended`, compiled here."""
    fn = namespace_of(asked["source"], "drawn function")["fn"]
    torch.compiler.reset()
    said = called("which_line(fn, x)", answer.which_line, fn, asked["x"])
    if not callable(answer.mended):
        called("mended(x)", answer.mended)
    compiled = torch.compile(answer.mended, backend="aot_eager", dynamic=True)
    with beside(asked["x"]):  # weights of the tokens are made
        found = each_call("mended(x)", compiled, [(x,) for x in asked["inputs"]])
        outside = list(eager_operations(compiled, asked["inputs"][0]))
    return {**found, "outside": outside, "said": said if isinstance(said, str | int) else str(said)[:40]}


def judge(asked: Values, found: Values) -> str:
    """The guilty line; numbers as in float64; one compile for all lengths."""
    inputs, run = asked["inputs"], found["run"]
    for x, got in zip(inputs, found["results"], strict=True):
        same_numbers(f"mended(x) with {len(x)} tokens", got, pooled(exact(x)), torch.float32)
    always_compiled(run, "mended(x)", len(inputs))
    none_outside("mended(x)", found["outside"])
    if compiles(run) > 1:
        raise NotYet("mended(x)", f"compiled {compiles(run)} times", "one is wanted", _fixed_by(run))
    said = str(found["said"]).strip()
    if said != asked["guilty"]:
        lines = [line.strip() for line in asked["source"].splitlines()]
        what = f'says "{" ".join(said.split()[:9])}"' if said in lines else f"returned {' '.join(said.split()[:5])}"
        raise NotYet(
            "which_line(fn, x)",
            what,
            f'it is "{asked["guilty"]}"',
            "Look at the symbols of the compile: specialized_by.",
        )
    return "the line is found, and one compile serves every length"


def _fixed_by(run: Run) -> str:
    for one in run.compiles:
        for symbol in one.symbols:
            if symbol.specialized_by is not None:
                return f"Its size was fixed at: {' '.join(symbol.specialized_by.code.split()[:14])}"
    return "Look at guard_tree(run)."


_START = "import torch\nfrom torch._dynamo import maybe_mark_dynamic\nfrom compilescope import observe\n"
_WHICH = """
def which_line(fn, x):
    maybe_mark_dynamic(x, 0)
    run = observe(torch.compile(fn, backend="aot_eager"), x)
    return next(one.specialized_by.code for one in run.compiles[0].symbols if one.specialized_by)
"""
_MENDED = """
def mended(x):
    weights = torch.arange(1, len(x) + 1, device=x.device) / len(x)
    return (weights[:, None] * x).sum(0) / len(x)
"""

EXERCISE = Exercise(
    name="guards_3",
    lesson="04_guards",
    points=3,
    asks_for=("which_line", "mended"),
    check=Check(ask, probe, judge),
    hints=(
        "Mark the dimension with maybe_mark_dynamic, observe a first call, and look at run.compiles[0].symbols.",
        "A loop over range(len(x)) is unrolled, and its length compiled in. An operation on the whole tensor is not.",
        "which_line: next(s.specialized_by.code for s in … if s.specialized_by). mended: multiply x by "
        "(torch.arange(1, …) / …)[:, None] and take the mean(0).",
    ),
    known_mistakes=(
        KnownMistake(  # as it was
            _START
            + _WHICH
            + """
def mended(x):
    return sum((i + 1) / len(x) * x[i] for i in range(len(x))) / len(x)
""",
            "Its size was fixed at",
        ),
        KnownMistake(_START + _WHICH + _MENDED.replace(" / len(x)", ""), "float64 result"),
        KnownMistake(  # linspace wants its number of steps as a number
            _START
            + _WHICH
            + """
def mended(x):
    weights = torch.linspace(1 / len(x), 1, len(x), device=x.device)
    return (weights[:, None] * x).mean(0)
""",
            "torch.linspace",
        ),
        KnownMistake(  # an eager mean
            _START
            + _WHICH
            + """
@torch.compiler.disable
def plain(x):
    weights = torch.arange(1, len(x) + 1, device=x.device) / len(x)
    return (weights[:, None] * x).sum(0) / len(x)

def mended(x):
    return plain(x)
""",
            "broke its graph",
        ),
        KnownMistake(  # the last line, where an error would have shown
            _START
            + """
import inspect
def which_line(fn, x):
    return inspect.getsource(fn).splitlines()[-1].strip()
"""
            + _MENDED,
            'says "return y.sum(0)"',
        ),
        KnownMistake(  # the line number, for the first line
            _START + "\ndef which_line(fn, x):\n    return 1\n" + _MENDED,
            "returned 1",
        ),
        KnownMistake(  # the guard's line instead of the symbol's
            _START
            + """
def which_line(fn, x):
    run = observe(torch.compile(fn, backend="aot_eager"), x)
    return next((guard.source.code for guard in run.compiles[0].guards if guard.source), "")
"""
            + _MENDED,
            "it is",
        ),
        KnownMistake(_START + "\ndef which_line(fn, x):\n    return 'y = x.sin()'\n" + _MENDED, 'says "y = x.sin()"'),
    ),
    alternatives=(
        _START
        + """
def which_line(fn, x):
    run = observe(torch.compile(fn, backend="aot_eager", dynamic=True), x)
    for compiled in run.compiles:
        for symbol in compiled.symbols:
            if symbol.subject.endswith("size()[0]") and symbol.specialized_to is not None:
                return symbol.specialized_by.code

def mended(x):
    return (x.new_ones(len(x)).cumsum(0) @ x) / len(x) ** 2
""",
        _START  # its weights name no device, as in the cells of the lesson
        + """
import inspect

def which_line(fn, x):
    # leave one line out after the other, until one compile serves two sizes
    lines = inspect.getsource(fn).splitlines()
    for number in range(2, len(lines) - 1):
        scope = {"torch": torch}
        exec("\\n".join(lines[:number] + lines[number + 1:]), scope)
        torch.compiler.reset()
        fast = torch.compile(scope["fn"], backend="aot_eager", dynamic=True)
        run = observe(fast, x)
        rows = [one for one in run.compiles[0].symbols if one.subject.endswith("size()[0]")]
        if all(one.specialized_to is None for one in rows):
            return lines[number].strip()

def mended(x):
    weights = torch.arange(1, x.size(0) + 1, device=x.device) / x.size(0)
    return torch.einsum("t,tw->w", weights, x) / len(x)
""",
    ),
)
