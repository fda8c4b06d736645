"""Where a learner stands in the course: each check and each hint is noted beside the notebook, and read from there.

The note travels with the lesson's folder, so that a submission carries it and an instructor can read a class.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.errors import CourseError
from autograder.exercise import Exercise
from autograder.exercises import everything

if TYPE_CHECKING:
    from compilescope.views.display import Display

NOTE = ".progress.jsonl"


@dataclass(frozen=True)
class Standing:
    """One exercise: how often it was checked until it passed, and how many hints were used."""

    exercise: Exercise
    passed: bool = False
    checks: int = 0
    hints: int = 0

    @property
    def points(self) -> int:
        """Points won."""
        return self.exercise.points if self.passed else 0

    def words(self) -> str:
        """``passed at check 2, 1 hint``."""
        if not self.checks and not self.hints:
            return "not tried yet"
        tried = f"{self.checks} check{'' if self.checks == 1 else 's'}"
        state = f"passed at check {self.checks}" if self.passed else f"not yet: {tried}"
        return state + (f", {self.hints} hint{'' if self.hints == 1 else 's'}" if self.hints else "")


def note_event(exercise: Exercise, event: str, folder: Path | None = None) -> None:
    """Append one event (``passed``, ``failed``, ``hint``) in the lesson's folder; elsewhere nothing.

    Nor on a full disk, which must not stop a check, nor while nbgrader grades: what counts is what the learner did.
    """
    folder = folder or Path.cwd()
    if folder.name != exercise.lesson or "NBGRADER_EXECUTION" in os.environ:
        return
    line = json.dumps({"exercise": exercise.name, "event": event, "time": int(time.time())}) + "\n"
    with contextlib.suppress(OSError), (folder / NOTE).open("a", encoding="utf-8") as file:
        file.write(line)


def events(folder: Path) -> Iterator[tuple[str, str]]:
    """Exercise and event of each line noted under `folder`, oldest first in each lesson; a broken line is left out."""
    for path in sorted([*folder.glob(NOTE), *folder.glob(f"*/{NOTE}")]):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                entry = json.loads(line)
                yield entry["exercise"], entry["event"]


def standings(seen: Iterable[tuple[str, str]]) -> list[Standing]:
    """Where these events leave a learner, one entry for each exercise of the course."""
    checks: dict[str, int] = {}
    hints: dict[str, int] = {}
    passed: set[str] = set()
    for name, event in seen:
        if event == "hint":
            hints[name] = hints.get(name, 0) + 1
        elif name not in passed:
            checks[name] = checks.get(name, 0) + 1
            if event == "passed":
                passed.add(name)
    return [Standing(e, e.name in passed, checks.get(e.name, 0), hints.get(e.name, 0)) for e in everything()]


def progress(folder: str | Path | None = None) -> Display:
    """Your way through the course so far: each exercise with its checks, hints and points.

    `folder` is your ``my/``; without it the folder above the notebook is read.
    """
    from compilescope.views.card import card, escape, table

    found = standings(events(Path(folder) if folder else Path.cwd().parent))
    won, whole = sum(one.points for one in found), sum(one.exercise.points for one in found)
    rows, lines = [], []
    for one in found:
        mark = "✓" if one.passed else ("…" if one.checks or one.hints else "·")
        lines.append(f"{mark} {one.exercise.lesson} {one.exercise.name}: {one.words()}")
        points = f"{one.points} / {one.exercise.points}"
        rows.append([mark, escape(one.exercise.lesson), escape(one.exercise.name), escape(one.words()), points])
    body = table(["", "lesson", "exercise", "", "points"], rows, numbers=(4,))
    return card(f"{won} of {whole} points", body, "\n".join(lines), "noted beside your notebooks")


def class_table(folder: Path) -> str:
    """One line a student under `folder` (nbgrader's ``submitted/``, or one folder a student): points, checks, hints."""
    lines = []
    for student in sorted(path for path in folder.iterdir() if path.is_dir()):
        found = standings(events(student))
        tried = [one for one in found if one.checks or one.hints]
        won, whole = sum(one.points for one in found), sum(one.exercise.points for one in found)
        stuck = ", ".join(one.exercise.name for one in tried if not one.passed)
        said = f"{won:3} of {whole} points, {sum(one.hints for one in tried)} hints"
        lines.append(f"{student.name:20} {said}" + (f", not yet: {stuck}" if stuck else ""))
    if not lines:
        raise CourseError(f"{folder} holds no student's folder; collect first, or name nbgrader's submitted folder.")
    return "\n".join(lines)


def main(args: argparse.Namespace) -> int:
    """``python -m autograder progress [FOLDER] [--class]``."""
    folder = Path(args.folder)
    if not folder.is_dir():
        raise CourseError(f"There is no folder {folder}.")
    print(class_table(folder) if args.of_class else progress(folder).text)
    return 0
