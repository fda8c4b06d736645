"""Whether two programs are the same to a check: equal facts on many draws; and what a person has proved in writing.

A mutant that passes is compared with the right answer that it was made from, on `DRAWS` draws. Where all that both
report is equal, it is the same program in other words. Where something differs that the exercise leaves open, somebody
may say so in `OPEN`, naming the values that may differ and why; everything else is still compared, on each draw.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from compilescope.facts import Run

DRAWS = 4
"""Further draws on which a mutant that passed must pass again, with facts as the right answer's."""


@dataclass(frozen=True)
class Open:
    """What an exercise leaves open: values of its probe's report, by name, that may differ between right answers."""

    names: frozenset[str]
    why: str


OPEN: Mapping[str, Open] = {}
"""Exercise to what it leaves open."""


def differing(one: Any, other: Any, left_open: frozenset[str] = frozenset(), name: str = "") -> Iterator[str]:
    """Names of the values in which two reports differ, such as ``cases.1.seconds``.

    Numbers are compared up to rounding, runs by their graphs, breaks, recompiles and outcomes. A value is left out
    where its name, without what stands above it, is in `left_open`.
    """
    if name.rpartition(".")[2] in left_open:
        return
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            inner = f"{name}.{key}".lstrip(".")
            if (key in one) != (key in other) and key not in left_open:
                yield inner
            elif key in one and key in other:
                yield from differing(one[key], other[key], left_open, inner)
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
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= 1e-6 * max(abs(one), abs(other)) or one == other or one != one != other != other
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
