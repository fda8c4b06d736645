"""Is a right answer ever refused? Solved lessons, many times over, while other processes keep every core busy.

Run: ``make repeat`` (``REPEAT="--checks 20 02_timing"`` for one). A run executes the whole solved notebook in a kernel
of its own, then each of its check cells again until it has run ``--checks`` times, on fresh inputs each time. Points
are counted as nbgrader does. The table goes to ``tests/repeat.md``.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import copy
import datetime
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder.build import Lesson, lesson_named, lessons, solved_notebook
from autograder.prove import errors_of, execute, points_of, stderr_of

BUSY = "while True: pass"
BUSY_GPU = """
import torch
a = torch.randn(4096, 4096, device="cuda")
while True:
    a @ a
    torch.cuda.synchronize()
"""


@dataclass(frozen=True)
class Repeated:
    """One run of one solved lesson: verdicts of its check cells, how many gave full points, and what went wrong."""

    lesson: str
    verdicts: int
    full: int
    seconds: float
    problems: tuple[str, ...]


@contextlib.contextmanager
def load(processes: int) -> Iterator[None]:
    """So many processes that do nothing but keep a core busy; where there is a GPU, one more that keeps it busy."""
    import torch

    programs = [BUSY] * processes + [BUSY_GPU] * torch.cuda.is_available()
    busy = [subprocess.Popen([sys.executable, "-c", program]) for program in programs]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def once(lesson: Lesson, checks: int) -> Repeated:
    """The solved lesson from top to bottom, then its check cells again."""
    began = time.monotonic()
    notebook = solved_notebook(lesson)
    judged = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade")]
    for number in range(2, checks + 1):
        for cell in judged:
            again = copy.deepcopy(cell)
            again.id = f"{cell.id}-{number}"
            notebook.cells.append(again)
    execute(notebook, lesson)
    problems = [
        f"{cell.source.splitlines()[0][:60]}: {error.ename}: {error.evalue[:200]}"
        for cell in notebook.cells
        if cell.cell_type == "code"
        for error in errors_of(cell)
    ]
    checked = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade")]
    problems += [f"{cell.id} wrote to stderr: {noise[:200]}" for cell in checked if (noise := stderr_of(cell))]
    full = sum(points_of(cell) == cell.metadata.nbgrader.points for cell in checked)
    return Repeated(lesson.name, len(checked), full, time.monotonic() - began, tuple(problems))


def table(found: list[Repeated], busy: int, jobs: int) -> str:
    """One row a lesson: runs with full points, seconds from the fastest to the slowest, and every problem."""
    import torch

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{platform.machine()} CPU"
    versions = f"torch {torch.__version__}, Python {platform.python_version()}"
    lines = [
        "# Solved lessons under load",
        "",
        f"Made by `make repeat` on {datetime.date.today()}: {device}, {os.cpu_count()} cores, {versions};",
        f"{busy} busy processes {'and one that keeps the GPU busy ' * torch.cuda.is_available()}beside "
        f"{jobs} notebook{'s' * (jobs > 1)} at a time.",
        "",
        "| lesson | notebooks | verdicts with full points | seconds a notebook |",
        "|---|---|---|---|",
    ]
    for name in dict.fromkeys(one.lesson for one in found):
        runs = [one for one in found if one.lesson == name]
        full = f"{sum(one.full for one in runs)} of {sum(one.verdicts for one in runs)}"
        seconds = f"{min(one.seconds for one in runs):.0f} to {max(one.seconds for one in runs):.0f}"
        lines.append(f"| {name} | {len(runs)} | {full} | {seconds} |")
    problems = [f"- {one.lesson}: {problem}" for one in found for problem in one.problems]
    return "\n".join([*lines, *(["", *problems] if problems else [])]) + "\n"


def main() -> int:
    """Writes the table; 1 when a right answer was refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lessons", nargs="*", help="such as 02_timing; all when left out")
    parser.add_argument("--times", type=int, default=1, help="notebooks of each lesson")
    parser.add_argument("--checks", type=int, default=20, help="times that each check cell runs in a notebook")
    parser.add_argument("--jobs", type=int, default=1, help="notebooks at a time")
    parser.add_argument("--busy", type=int, default=os.cpu_count(), help="processes that keep a core busy")
    parser.add_argument("-o", "--out", type=Path, help="write the table to this file")
    args = parser.parse_args()
    chosen = [lesson_named(name) for name in args.lessons] or list(lessons())
    with load(args.busy), concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        runs = [pool.submit(once, lesson, args.checks) for _ in range(args.times) for lesson in chosen]
        found: list[Repeated] = []
        for done in concurrent.futures.as_completed(runs):
            found.append(done.result())
            text = table(sorted(found, key=lambda one: one.lesson), args.busy, args.jobs)
            if args.out:  # after each, so that a run which is cut off leaves what it found
                args.out.write_text(text, encoding="utf-8")
    print(text)
    return int(any(one.full != one.verdicts or one.problems for one in found))


if __name__ == "__main__":
    sys.exit(main())
