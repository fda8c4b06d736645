"""guards_1: how many compiles will a sequence of calls cost? Dynamo's cache, in a few lines of your own."""

from __future__ import annotations

from typing import Any

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.judging import called
from compilescope import observe
from compilescope.text import count

UNITS = {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "km": 1e3}
DTYPES = {"float32": torch.float32, "float64": torch.float64}

CallAsked = list[Any]
"""``[rows, dtype, unit]``."""


def in_meters(x: torch.Tensor, unit: str) -> torch.Tensor:
    """Cumulative sums of x [rows, 3], which is in `unit`."""
    return x.cumsum(0) * UNITS[unit]


def ask(draw: Draw) -> Values:
    """Eight sequences of calls, each ``[rows, dtype, unit]``; which kinds there are never changes."""
    a, b, c, d = sorted({draw.size(3, 9), 10 + draw.size(0, 9), 20 + draw.size(0, 9), 30 + draw.size(0, 9)})
    a, b, c, d = sorted((a, b, c, d), key=lambda _: draw.size(0, 10**6))
    short, long = "float32", "float64"
    one, two, three = sorted(UNITS, key=lambda _: draw.size(0, 10**6))[:3]
    sequences = [
        [[a, short, one]] * draw.size(2, 5),
        [[n, short, one] for n in (a, b, c, 2, d, a)],
        [[n, short, one] for n in (a, 1, b, c)],
        [[n, short, one] for n in (1, a, b, 0, 1, c)],
        [[a, kind, one] for kind in (short, long, short, long)],
        [[a, short, unit] for unit in (one, two, one, three, two)],
        [[a, short, one], [b, long, one], [c, short, one], [d, long, one]],
        [[a, short, one], [a, short, two], [b, short, two], [c, short, one], [1, long, one], [d, long, one]],
    ]
    return {"sequences": sorted(sequences, key=lambda _: draw.size(0, 10**6))}


def probe(answer: Answer, asked: Values) -> Values:
    """What the answer says of each sequence, and what it compiled to find out."""
    said: list[Any] = []
    with observe() as run:
        for calls in asked["sequences"]:
            number = called("compiles(calls)", answer.compiles, [tuple(call) for call in calls])
            said.append(number if isinstance(number, int) else str(number)[:40])
    return {"said": said, "compiled": len(run.compiles)}


def compiling_calls(calls: list[CallAsked]) -> list[int]:
    """The numbers of the calls that compile, from 1 on, found by making them."""
    graphs: list[Any] = []

    def backend(gm: Any, example_inputs: Any) -> Any:
        graphs.append(gm)
        return gm.forward

    torch.compiler.reset()
    torch.compiler.set_stance("default")
    compiled = torch.compile(in_meters, backend=backend)
    found = []
    for number, (rows, dtype, unit) in enumerate(calls, 1):
        before = len(graphs)
        compiled(torch.ones(rows, 3, dtype=DTYPES[dtype]), unit)
        if len(graphs) > before:
            found.append(number)
    torch.compiler.reset()
    return found


def judge(asked: Values, found: Values) -> str:
    """Every number is that of a real run, and nothing was run to get it."""
    for calls, said in zip(asked["sequences"], found["said"], strict=True):
        truth = compiling_calls(calls)
        if not truth:
            raise NotYet("torch.compile", "compiles nothing here", "a default torch is wanted", "Restart the kernel.")
        if said != len(truth):
            shown = ", ".join(f"{rows} {dtype} {unit}" for rows, dtype, unit in calls)
            raise NotYet(
                f"compiles([{shown}])",
                f"says {said}",
                f"it is {len(truth)}",
                f"Look at call{'s' * (len(truth) > 1)} {', '.join(map(str, truth))}: they compile.",
            )
    if found["compiled"]:
        times = count(found["compiled"], "time")
        raise NotYet("compiles(calls)", f"compiled {times}", "it should predict", "Look at the rules in section 4.1.")
    return "8 of 8 sequences"


_RULES = """
def compiles(calls):
    entries, sizes = set(), set()
    for size, dtype, unit in calls:
        own, any_size = (size, dtype, unit), ("2 or more", dtype, unit)
        if own in entries or (size > 1 and any_size in entries):
            continue
        sizes.add(size)
        entries.add(any_size if size > 1 and len(sizes) > 1 else own)
    return len(entries)
"""

EXERCISE = Exercise(
    name="guards_1",
    lesson="04_guards",
    points=3,
    asks_for=("compiles",),
    check=Check(ask, probe, judge),
    hints=(
        "Keep a set of entries, and go through the calls: which entry would accept this one?",
        "A dtype and a string need an entry each. A size is fixed in its entry until another size has been compiled; "
        "from then on an entry takes every size from 2 on. Sizes 0 and 1 always need their own.",
        "For each call: if (size, dtype, unit) is in entries, or size > 1 and the open entry is, it is a hit. "
        "Else note the size, and add the open entry if two sizes were noted and size > 1, else (size, dtype, unit).",
    ),
    known_mistakes=(
        KnownMistake("def compiles(calls):\n    return len(set(calls))\n", "says"),  # each size an entry of its own
        KnownMistake("def compiles(calls):\n    return len({call[1:] for call in calls})\n", "says"),
        KnownMistake("def compiles(calls):\n    return len(calls)\n", "they compile"),
        KnownMistake("def compiles(calls):\n    return 2\n", "says 2"),
        KnownMistake(_RULES.replace("size > 1 and ", ""), "says"),  # 0 and 1 are sizes like others
        KnownMistake(_RULES.replace(" and len(sizes) > 1", ""), "says"),  # open from the first compile on
        KnownMistake(_RULES.replace("return len(entries)", "print(len(entries))"), "says None"),
        KnownMistake(  # measured, not predicted
            """
import torch

SCALE = {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "km": 1e3}

def compiles(calls):
    graphs = []
    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward
    torch.compiler.reset()
    fast = torch.compile(lambda x, unit: x.cumsum(0) * SCALE[unit], backend=backend)
    for rows, dtype, unit in calls:
        fast(torch.ones(rows, 3, dtype=getattr(torch, dtype)), unit)
    return len(graphs)
""",
            "it should predict",
        ),
        KnownMistake(
            "import torch\ntorch.compiler.set_stance('force_eager')\ndef compiles(calls):\n    return 0\n", "says 0"
        ),
    ),
    alternatives=(
        """
class Entry:
    def __init__(self, size, dtype, unit, any_size):
        self.size, self.rest, self.any_size = size, (dtype, unit), any_size

    def accepts(self, size, *rest):
        return self.rest == rest and (size >= 2 if self.any_size else size == self.size)

def compiles(calls):
    cache = []
    for size, *rest in calls:
        if not any(entry.accepts(size, *rest) for entry in cache):
            changed = any(entry.size != size for entry in cache)
            cache.append(Entry(size, *rest, any_size=changed and size >= 2))
    return len(cache)
""",
        """
def compiles(calls, entries=(), last=None, changed=False):
    if not calls:
        return 0
    (size, *rest), *others = calls
    if (size, rest) in entries or (size > 1 and ("any", rest) in entries):
        return compiles(others, entries, last, changed)
    changed = changed or (last is not None and last != size)
    entry = ("any", rest) if changed and size > 1 else (size, rest)
    return 1 + compiles(others, (*entries, entry), size, changed)
""",
    ),
)
