"""``python -m autograder plan``: what a class of some size takes, computed from what grading took here."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from autograder.build import Lesson, lessons
from autograder.errors import CourseError
from autograder.grading.journal import Journal
from autograder.nbgrader_config import ROOT


@dataclass(frozen=True)
class Figure:
    """What grading a lesson took: seconds of one worker, and of the gradebook's one writer, for one submission."""

    lesson: str
    submissions: int
    judging: float
    writing: float


@dataclass(frozen=True)
class Figures:
    """Of each lesson that was graded here, and on how many cores."""

    figures: tuple[Figure, ...]
    cores: int
    date: str

    @staticmethod
    def read(path: Path) -> Figures:
        """From a file that `write` made. CourseError if it is none."""
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
            return Figures(tuple(Figure(**one) for one in said.pop("figures")), **said)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise CourseError(f"{path} holds no figures: make it with plan --keep {path}") from error

    def write(self, path: Path) -> None:
        """As JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def measured(some: Iterable[Lesson]) -> Figures:
    """From the journals and results of the lessons that this course has graded. CourseError if there are none."""
    figures = {lesson: figure for lesson in some if (figure := figure_of(lesson))}
    if not figures:
        raise CourseError("Nothing was graded here yet: grade a lesson first, or name a file with --figures.")
    newest = max(event.at for lesson in figures for event in Journal(lesson).events().values())
    date = time.strftime("%Y-%m-%d", time.gmtime(newest))
    return Figures(tuple(figures.values()), len(os.sched_getaffinity(0)), date)


def figure_of(lesson: Lesson) -> Figure | None:
    """The figures of one lesson: means over its submissions; None if none was graded."""
    journal = Journal(lesson)
    judging = [result["seconds"] for student in journal.events() if (result := journal.result(student))]
    writing = list(journal.write_seconds())
    if not judging:
        return None
    return Figure(
        lesson.name, len(judging), round(statistics.fmean(judging), 2),
        round(statistics.median(writing), 2) if writing else 0.0,
    )  # fmt: skip


def hours(figures: Figures, students: int, lessons_in_all: int, workers: int) -> tuple[float, float]:
    """(hours of `workers` at work, hours of the one writer beside them) for a whole course.

    A lesson without figures takes as long as the mean of those that have some.
    """
    judging = statistics.fmean(figure.judging for figure in figures.figures)
    writing = statistics.fmean(figure.writing for figure in figures.figures)
    return students * lessons_in_all * judging / workers / 3600, students * lessons_in_all * writing / 3600


def table(figures: Figures, students: int, lessons_in_all: int, workers: Sequence[int]) -> str:
    """Two tables in Markdown: what was measured, and what a class takes."""
    lines = [
        "| lesson | submissions measured | s a submission, one worker | s in the gradebook |",
        "|---|---|---|---|",
        *(f"| {one.lesson} | {one.submissions} | {one.judging:.1f} | {one.writing:.2f} |" for one in figures.figures),
        "",
        f"Measured on {figures.cores} cores, {figures.date}. For {students:,} students and {lessons_in_all} lessons, "
        f"{students * lessons_in_all:,} submissions:",
        "",
        "| workers | hours for all lessons | hours a lesson | what takes the time |",
        "|---|---|---|---|",
    ]
    for count in workers:
        work, writer = hours(figures, students, lessons_in_all, count)
        slower = max(work, writer)
        why = "the workers" if work >= writer else "the gradebook's one writer"
        lines.append(f"| {count} | {slower:.1f} | {slower / lessons_in_all:.1f} | {why} |")
    return "\n".join(lines) + "\n"


def main(args: argparse.Namespace) -> int:
    """Print the tables; with --keep also write the figures, for another machine's --figures."""
    root = Path(args.course).resolve() if args.course else ROOT
    known = lessons(root)
    figures = Figures.read(Path(args.figures)) if args.figures else measured(known)
    if args.keep:
        figures.write(Path(args.keep))
    print(table(figures, args.students, args.lessons or len(known), args.workers), end="")
    return 0
