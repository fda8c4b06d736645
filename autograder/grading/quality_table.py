"""The page about how sure a grade is, out of what `quality` counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from autograder.grading.equivalence import DRAWS, OPEN

HEAD = f"""# How sure is a grade?

Made by `make grade-quality`, which grades each program in the sandbox. A mutant is a right answer with one change.
Killed: it gets no points. Equivalent: it passes on {1 + DRAWS} draws, and on each its facts are those of the right
answer, but for what the exercise leaves open (last list). By luck: some draws find it out and others do not.
A survivor is a gap in a check.
Right answers are graded several times on fresh draws; the last column is the machine's load for each core meanwhile.

| exercise | mutants | killed | equivalent | by luck | survivors | mistakes caught | right answers accepted | load |
|---|---|---|---|---|---|---|---|---|
"""
LISTS = {
    "Survivors": "survivors",
    "Mutants that some draws miss": "lucky",
    "Known mistakes that passed": "passing",
    "Right answers that were refused": "refused",
    "Equivalent mutants": "equivalent",
}


def table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The Markdown page; one row an exercise, in the order of `results`."""
    parts = [HEAD + "".join(f"{line}\n" for line in _rows(results))]
    for title, kind in LISTS.items():
        listed = [f"- {name}: {what}" for name, one in results.items() for what in one[kind]]
        parts.append(f"\n## {title}\n\n" + "\n".join(listed or ["none"]) + "\n")
    if OPEN:
        each = ((name, one) for name, some in OPEN.items() for one in some)
        listed = [f"- {name}: `{', '.join(one.names)}`{_share(one.within)}. {one.why}" for name, one in each]
        parts.append("\n## What exercises leave open\n\n" + "\n".join(listed) + "\n")
    return "".join(parts)


def _rows(results: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    total = [0] * 9
    for name, one in results.items():
        some = [one["mutants"], one["killed"], *(len(one[kind]) for kind in ("equivalent", "lucky", "survivors"))]
        some += [one["mistakes"] - len(one["passing"]), one["mistakes"]]
        some += [one["right"] - len(one["refused"]), one["right"]]
        total = [before + more for before, more in zip(total, some, strict=True)]
        yield f"| {name} | {_cells(some)} | {one['load']} |"
    yield f"| all {len(results)} | {_cells(total)} | |"


def _cells(some: list[int]) -> str:
    *counts, caught, mistakes, accepted, right = map(str, some)
    return " | ".join([*counts, f"{caught} of {mistakes}", f"{accepted} of {right}"])


def _share(within: float | None) -> str:
    return f" within {within:.1%}" if within is not None else ""
