"""Where a learner stands in the course: each check and each hint is noted beside the notebook, and read from there.

The note travels with the lesson's folder, so that a submission carries it and an instructor can read a class.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
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
    lines = [f"{_mark(one)} {one.exercise.lesson} {one.exercise.name}: {one.words()}" for one in found]
    body = ""
    for lesson, own in _by_lesson(found):
        rows = [[_mark(one), escape(one.exercise.name), escape(one.words()), _points([one])] for one in own]
        opened = " open" if any(one.checks or one.hints for one in own) else ""
        body += f"<details{opened}><summary>{escape(lesson)}: {_points(own)} points</summary>"
        body += table(["", "exercise", "", "points"], rows, numbers=(3,)) + "</details>"
    return card(f"{_points(found)} points", body, "\n".join(lines), "noted beside your notebooks")


def _mark(one: Standing) -> str:
    return "✓" if one.passed else ("…" if one.checks or one.hints else "·")


def _points(found: Sequence[Standing]) -> str:
    return f"{sum(one.points for one in found)} of {sum(one.exercise.points for one in found)}"


def _by_lesson(found: Sequence[Standing]) -> list[tuple[str, list[Standing]]]:
    names = dict.fromkeys(one.exercise.lesson for one in found)
    return [(name, [one for one in found if one.exercise.lesson == name]) for name in names]


def _students(folder: Path) -> list[tuple[str, list[Standing]]]:
    found = [(path.name, standings(events(path))) for path in sorted(folder.iterdir()) if path.is_dir()]
    if not found:
        raise CourseError(f"{folder} holds no student's folder; collect first, or name nbgrader's submitted folder.")
    return found


def class_page(folder: Path) -> Display:
    """A class at a glance: points of each student in each lesson, and how each exercise went; `folder` as below."""
    from compilescope.views.card import card, escape, table

    students = _students(folder)
    lessons = [name for name, _ in _by_lesson(students[0][1])]
    rows = []
    for name, found in students:
        own = [_points(one) if any(each.checks for each in one) else "" for _, one in _by_lesson(found)]
        stuck = ", ".join(one.exercise.name for one in found if one.checks and not one.passed)
        rows.append([escape(name), *own, _points(found), escape(stuck)])
    body = table(["student", *lessons, "together", "not yet"], rows, numbers=tuple(range(1, len(lessons) + 2)))
    went = [_went([found[i] for _, found in students]) for i in range(len(students[0][1]))]
    tried = [row for row in went if row[1] != "0"]
    if tried:
        heads = ["exercise", "tried", "passed", "checks until it passed", "hints"]
        body += "<h4>How each exercise went</h4>" + table(heads, tried, numbers=(1, 2, 3, 4))
    title = "1 student" if len(students) == 1 else f"{len(students)} students"
    return card(title, body, class_table(folder), "noted beside their notebooks")


def _went(found: Sequence[Standing]) -> list[str]:
    """One exercise over a class: who tried, who passed, checks of those who did on average, hints of all."""
    tried = [one for one in found if one.checks or one.hints]
    passed = [one.checks for one in tried if one.passed]
    checks = f"{sum(passed) / len(passed):.1f}" if passed else ""
    return [found[0].exercise.name, str(len(tried)), str(len(passed)), checks, str(sum(one.hints for one in tried))]


def class_table(folder: Path) -> str:
    """One line a student under `folder` (nbgrader's ``submitted/``, or one folder a student): points, checks, hints."""
    lines = []
    for student, found in _students(folder):
        tried = [one for one in found if one.checks or one.hints]
        won, whole = sum(one.points for one in found), sum(one.exercise.points for one in found)
        stuck = ", ".join(one.exercise.name for one in tried if not one.passed)
        said = f"{won:3} of {whole} points, {sum(one.hints for one in tried)} hints"
        lines.append(f"{student:20} {said}" + (f", not yet: {stuck}" if stuck else ""))
    return "\n".join(lines)


def main(args: argparse.Namespace) -> int:
    """``python -m autograder progress [FOLDER] [--class] [--html PAGE]``."""
    folder = Path(args.folder)
    if not folder.is_dir():
        raise CourseError(f"There is no folder {folder}.")
    if args.html:
        page = class_page(folder) if args.of_class else progress(folder)
        print(f"{page.save_html(args.html)}: {page.title}")
    else:
        print(class_table(folder) if args.of_class else progress(folder).text)
    return 0
