"""What the course did on a GPU, as a Markdown page."""

from __future__ import annotations

import argparse
import datetime
import os
from dataclasses import dataclass

MOST_MIB = 8 * 1024
MOST_SECONDS = {"05_modes": 240}
"""Cold seconds of a solved lesson on an H200, where they are not 120: lesson 5 tunes kernels."""


@dataclass(frozen=True)
class Proved:
    """One part of a lesson: what does not hold, wall seconds of its process, and its most GPU memory."""

    lesson: str
    part: str
    problems: tuple[str, ...]
    seconds: float
    notebook_seconds: float | None
    judged: int
    own_mib: int
    """The most that its processes held together; 0 where the driver does not say whose memory it is."""
    all_mib: int
    """The most that was in use on all GPUs meanwhile, by whomever: never less than its own."""

    @property
    def holds(self) -> bool:
        """Whether nothing went wrong."""
        return not self.problems


def table(found: list[Proved], options: argparse.Namespace) -> str:
    """One row a lesson, then every problem."""
    lines = [
        "# The course on a real GPU",
        "",
        f"Made by `python tests/gpu/course.py` on {datetime.date.today()}: {machine()}, {os.cpu_count()} cores; "
        f"solved notebooks {options.jobs} at a time, the rest {options.more_jobs} at a time, each from a cold cache.",
        "",
        "| lesson | solved | s | unsolved | s | mistakes and alternatives judged as they must be | GPU memory, MiB |",
        "|---|---|---|---|---|---|---|",
    ]
    for lesson in sorted({one.lesson for one in found}):
        lines.append(_row(lesson, [one for one in found if one.lesson == lesson]))
    over = [*_over(found)]
    problems = [f"- {one.lesson}, {one.part}: {text}" for one in found for text in one.problems]
    return "\n".join([*lines, *(["", *over] if over else []), *(["", *problems] if problems else [])]) + "\n"


def machine() -> str:
    """GPUs and versions."""
    import torch
    import triton

    count = torch.cuda.device_count()
    gpus = f"{count} × {torch.cuda.get_device_name()}" if count else "no GPU"
    return f"{gpus}, torch {torch.__version__}, triton {triton.__version__}"


def _row(lesson: str, parts: list[Proved]) -> str:
    notebooks = {one.part: one for one in parts if one.part in ("solved", "unsolved")}
    cells = [lesson]
    for name in ("solved", "unsolved"):
        one = notebooks.get(name)
        cells.append("–" if one is None else "yes" if one.holds else "**no**")
        cells.append("–" if one is None or one.notebook_seconds is None else f"{one.notebook_seconds:.0f}")
    exercises = [one for one in parts if one.part not in notebooks]
    good = sum(one.judged - len(one.problems) for one in exercises)
    cells.append(f"{good} of {sum(one.judged for one in exercises)}" if exercises else "–")
    cells.append(_memory(parts))
    return f"| {' | '.join(cells)} |"


def _memory(parts: list[Proved]) -> str:
    own = max((one.own_mib for one in parts), default=0)
    seen = max((one.all_mib for one in parts), default=0)
    return str(own) if own else f"at most {seen}" if seen else "not visible"


def _over(found: list[Proved]) -> list[str]:
    """A sentence for each budget of the course that was exceeded."""
    told = []
    for one in found:
        most = MOST_SECONDS.get(one.lesson, 120)
        if one.part == "solved" and one.notebook_seconds is not None and one.notebook_seconds > most:
            told.append(f"- {one.lesson}: the solved notebook took {one.notebook_seconds:.0f} s; at most {most}.")
        if one.own_mib > MOST_MIB:
            told.append(f"- {one.lesson}, {one.part}: {one.own_mib} MiB of GPU memory; at most {MOST_MIB}.")
    return told
