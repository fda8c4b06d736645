"""Whether two programs are the same to a check: equal facts on many draws; and what a person has proved in writing.

A mutant that passes is compared with the right answer that it was made from, on `DRAWS` draws. Where all that both
report is equal, it is the same program in other words. Where something differs that the exercise leaves open, somebody
may say so in `OPEN`, naming the values that may differ and why; everything else is still compared, on each draw.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

import torch

from autograder.exercises.modes.memory import WITHIN
from compilescope.facts import Run

DRAWS = 4
"""Further draws on which a mutant that passed must pass again, with facts as the right answer's."""


@dataclass(frozen=True)
class Open:
    """What an exercise leaves open: values of its probe's report that may differ between right answers, and why.

    `names` are patterns of names such as ``result.*``. Numbers may differ by the share `within`; without it anything
    may differ there.
    """

    names: tuple[str, ...]
    why: str
    within: float | None = None

    def allows(self, name: str, one: Any, other: Any) -> bool:
        """Whether this value may differ so much."""
        if not any(fnmatch(name, pattern) for pattern in self.names):
            return False
        if self.within is None:
            return True
        numbers = isinstance(one, (int, float)) and isinstance(other, (int, float))
        return numbers and abs(one - other) <= self.within * max(abs(one), abs(other))


OPEN: Mapping[str, tuple[Open, ...]] = {
    "basic_1": (
        Open(("run",), "Symbolic sizes are as good as fixed ones; numbers and the number of graphs are judged."),
    ),
    "dist_1": (Open(("runs.*",), "Symbolic sizes are as good as fixed ones; weights, breaks and graphs are judged."),),
    "basic_6": (
        Open(("runs.*",), "Symbolic sizes are as good as fixed ones; a loss may hold its graph. Steps are judged."),
    ),
    "breaks_4": (Open(("calls.*.printed",), "In which words it is printed; that the loss is among them is judged."),),
    "dist_3": (
        Open(("steps.*",), "Whether the backward gathers again; what each block gathers in the forward is judged."),
        Open(("runs.*",), "With which backend that compiles; graphs, breaks, keys and weights are judged."),
    ),
    "dist_4": (Open(("results.*.raised",), "With which exception it refuses a state that lacks a weight."),),
    "guards_5": (Open(("runs.*",), "Whether the update goes weight by weight or over all of them at once."),),
    "guards_7": (Open(("warm",), "With which sizes it warms up; every request must hit what that compiled."),),
    "guards_2": (Open(("run",), "With which backend that compiles; numbers, compiles and operations are judged."),),
    "regional_6": (Open(("found.*.run",), "With which backend that compiles; operations and calls are judged."),),
    "capstone_5": (Open(("models.*.run",), "With which backend that compiles; numbers and keys are judged."),),
    "breaks_7": (
        Open(("*.run",), "With which comparison it picks is its own choice: where they differ, both rows are x."),
    ),
    "guards_8": (Open(("run",), "Symbolic sizes are as good as fixed ones; numbers and compiles are judged."),),
    "guards_4": (
        Open(("to_meters.run",), "The first new factor makes a plain float dynamic: two compiles, which are allowed."),
    ),
    "modes_5": (Open(("predicted.*",), "As far off as its statement allows: the allocator rounds up.", within=WITHIN),),
    "modes_6": (Open(("all.1",), "The number of calls is a bound; rounding up is not asked.", within=0.01),),
    "modes_7": (
        Open(("calls.*",), "How many samples are enough is the learner's choice."),
        Open(("result.*",), "The device slows down: when it is measured moves all modes; ratios are judged.", 0.3),
    ),
}
"""Exercise to what it leaves open."""


_MISSING = object()


def differing(one: Any, other: Any, left_open: tuple[Open, ...] = (), name: str = "") -> Iterator[str]:
    """Names of the values in which two reports differ, such as ``cases.1.seconds``, but for what is left open.

    Numbers are compared up to rounding, runs by their graphs, breaks, recompiles and outcomes.
    """
    if any(each.allows(name, one, other) for each in left_open):
        return
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            inner = f"{name}.{key}".lstrip(".")
            yield from differing(one.get(key, _MISSING), other.get(key, _MISSING), left_open, inner)
    elif isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            yield f"{name} (how many)"
        for number, (mine, its) in enumerate(zip(one, other, strict=False)):
            yield from differing(mine, its, left_open, f"{name}.{number}")
    elif not _same(one, other):
        yield name


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Run) and isinstance(other, Run):
        return bool(facts_of(one) == facts_of(other))
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return False
        return bool(torch.allclose(one.double(), other.double(), rtol=1e-4, atol=1e-6, equal_nan=True))
    if {type(one), type(other)} <= {int, float}:
        return one == other or math.isclose(one, other, rel_tol=1e-6) or (math.isnan(one) and math.isnan(other))
    return bool(type(one) is type(other) and one == other)


def facts_of(run: Run) -> Any:
    """What two runs of the same program share, whatever else happens on the machine."""
    graphs = [(g.stage, [(n.target, n.dtype, n.shape) for n in g.calls()]) for c in run.compiles for g in c.graphs]
    return graphs, len(run.breaks), len(run.recompiles), [one.outcome for one in run.calls]


def change_between(old: str, new: str) -> str:
    """The first lines in which two programs differ: ``x + rate -> x - rate``."""
    before, after = ([line.strip() for line in text.splitlines()] for text in (old, new))
    for kind, i, j, k, n in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind != "equal":
            return f"`{' ; '.join(before[i:j])[:120]}` -> `{' ; '.join(after[k:n])[:120]}`"
    return "nothing"
