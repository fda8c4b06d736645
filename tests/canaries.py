"""Do canaries come out as they must after every right answer? Else a right submission would wait for a person.

Run: ``make canaries`` (``CANARIES="01_basic_compile"`` for one lesson). When a submission is right, the grader has a
known mistake and then a right answer of ours judged in the same process (`autograder.grading.referee`). Here each known
mistake is tried so, in a process of its own, after the solved lesson's answer; a right answer follows each of them, all
alternatives in turn. Then each alternative stands in the lesson's place, with one mistake. The results are written
after each exercise to tests/grading/canaries.json, so that the same command goes on where it stopped, and what changed
is tried again; the table goes to tests/grading/canaries.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from nbformat import NotebookNode

from autograder.build import Lesson, lesson_named, lessons
from autograder.exercise import Exercise
from autograder.exercises import of_lesson
from autograder.grading.cells import code_cells, needed
from autograder.grading.pristine import replaced_in
from autograder.grading.referee import OUTCOMES, Question, canary_in, decide, heard
from autograder.grading.stamp import stamp_of
from autograder.grading.warm import ready_cache
from autograder.sandbox.bubble import Bubble
from autograder.sandbox.job import Job
from autograder.sandbox.limits import Limits
from autograder.sandbox.required import require_sandbox

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "grading"))
from classroom import cell_of, solve, unsolved  # noqa: E402 - tests are no package

RESULTS = ROOT / "tests" / "grading" / "canaries.json"
TABLE = RESULTS.with_suffix(".md")
CACHE = ROOT / "work" / "canaries"


@dataclass
class Tried:
    """One exercise: how many programs were tried in each part, what came out otherwise, and the longest try."""

    exercise: str
    lesson: str
    stamp: str
    answers: int = 0
    mistakes: int = 0
    right: int = 0
    slowest: float = 0.0
    odd: list[str] = field(default_factory=list)


def try_all(bubble: Bubble, lesson: Lesson, exercise: Exercise, stamp: str) -> Tried:
    """Each known mistake after the lesson's answer, and each alternative in its place with one of them."""
    found = Tried(exercise.name, lesson.name, stamp)
    question = Question.of(exercise)
    solved = solve(unsolved(lesson), lesson)
    for number in range(len(exercise.known_mistakes)):
        one_try(bubble, question, cells_of(solved, exercise), number, found)
    for number, code in enumerate(exercise.alternatives):
        cell_of(solved, exercise.name).source = code
        one_try(bubble, question, cells_of(solved, exercise), number % len(exercise.known_mistakes), found)
        found.answers += 1
    return found


def cells_of(notebook: NotebookNode, exercise: Exercise) -> list[str]:
    """The sources of the cells that the exercise needs."""
    return [cell.source for cell in needed(code_cells(notebook), exercise.asks_for, len(notebook.cells))]


def one_try(bubble: Bubble, question: Question, cells: list[str], number: int, found: Tried) -> None:
    """An answer, a mistake and a right answer in one process, as the referee has them; counted in `found`."""
    exercise, began = question.exercise, time.monotonic()
    which = number % len(exercise.alternatives)
    job = bubble.start(Limits())
    try:
        job.send({"cells": cells, **question.order})
        passed, sentence = decide(question, heard(job, OUTCOMES), job)
        said = [] if passed else [f"a right answer gets 0 points: {sentence}"]
        said += [replaced_in(job, bubble, Limits(), question.order, exercise.alternatives[0])] if passed else []
        said += list(canaries(job, question, number, which))
    finally:
        job.end()
    found.mistakes, found.right = found.mistakes + 1, found.right + 1
    found.slowest = max(found.slowest, round(time.monotonic() - began, 1))
    found.odd += [f"mistake {number}, alternative {which}: {one}" for one in said if one]


def canaries(job: Job, question: Question, mistake: int, alternative: int) -> Iterator[str]:
    """What is seen of one known mistake, then of one right answer, where they come out otherwise than they must."""
    job.give_more_time()
    yield canary_in(job, question, question.exercise.known_mistakes[mistake].code, must_pass=False)
    yield canary_in(job, question, question.exercise.alternatives[alternative], must_pass=True)


def table(results: dict[str, Tried]) -> str:
    """One row an exercise, and what came out otherwise."""
    every = list(results.values())
    mistakes, right = sum(one.mistakes for one in every), sum(one.right for one in every)
    lines = [
        "# Canaries after right answers",
        "",
        f"Made by `make canaries`, last on {datetime.date.today()}, in the sandbox. In one process each: the answer of",
        "the solved lesson or an alternative, then a known mistake, which must get no points, then a right answer,",
        f"which must get all. Seconds are those of the longest; a submission may take {Limits().wall:.0f} s, and its",
        "canaries as long again.",
        "",
        "| exercise | right answers first | known mistakes after them | right answers last | came out otherwise | s |",
        "|---|---|---|---|---|---|",
        *(f"| {one.exercise} | {one.answers + 1} | {one.mistakes} | {one.right} | {len(one.odd)} | {one.slowest} |"
          for one in every),
        f"| all {len(every)} | {sum(one.answers + 1 for one in every)} | {mistakes} | {right} "
        f"| {sum(len(one.odd) for one in every)} | |",
    ]  # fmt: skip
    odd = [f"- {one.exercise}: {said}" for one in every for said in one.odd]
    return "\n".join([*lines, *(["", *odd] if odd else [])]) + "\n"


def read() -> dict[str, Tried]:
    """What was tried before, by exercise."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    return {one["exercise"]: Tried(**one) for one in stored}


def keep(results: dict[str, Tried]) -> None:
    """Write results and table, in the order of the lessons."""
    names = [exercise.name for lesson in lessons() for exercise in of_lesson(lesson.name)]
    ordered = {name: results[name] for name in names if name in results}
    RESULTS.write_text(json.dumps([asdict(one) for one in ordered.values()], indent=1) + "\n")
    TABLE.write_text(table(ordered))


def main() -> int:
    """Try what has changed; 1 if anything comes out otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lessons", nargs="*", help="such as 02_timing; all when left out")
    parser.add_argument("--only", nargs="+", help="names of exercises")
    parser.add_argument("--secret", default="canaries", help="stands for a class: another one draws other inputs")
    parser.add_argument("--again", action="store_true", help="also what was tried before and has not changed")
    args = parser.parse_args()
    require_sandbox()
    os.environ["COURSE_SECRET"] = args.secret
    chosen = [lesson_named(name) for name in args.lessons] or list(lessons())
    names = [one.name for lesson in chosen for one in of_lesson(lesson.name) if not args.only or one.name in args.only]
    for lesson in chosen:
        stamp, results = stamp_of(lesson)[:16], read()
        some = [one for one in of_lesson(lesson.name) if one.name in names]
        left = [one for one in some if args.again or one.name not in results or results[one.name].stamp != stamp]
        if not left:
            continue
        cache = ready_cache(CACHE / lesson.name / stamp, map(Question.of, of_lesson(lesson.name)), Limits())
        with Bubble(of_lesson(lesson.name), cache) as bubble:
            for exercise in left:
                found = try_all(bubble, lesson, exercise, stamp)
                keep(read() | {exercise.name: found})
                print(f"{exercise.name}: {found.mistakes} tries, {len(found.odd)} otherwise", *found.odd, sep="\n  ")
    return int(any(one.odd for name, one in read().items() if name in names))


if __name__ == "__main__":
    sys.exit(main())
