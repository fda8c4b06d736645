"""``python -m autograder grade LESSON`` and ``status LESSON``."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from autograder.build import Lesson, lesson_named
from autograder.errors import CourseError
from autograder.grading import pool
from autograder.grading.journal import Event, Journal
from autograder.grading.pool import Engine, Settings, Task, key_of, workers_that_fit
from autograder.grading.stamp import stamp_of
from autograder.nbgrader_config import ROOT
from autograder.preflight import SUBMITTED, mend_submission
from autograder.sandbox.limits import Limits
from autograder.sandbox.required import require_sandbox


def main_grade(args: argparse.Namespace) -> int:
    """Grade all submissions of a lesson, or go on where an earlier call stopped; 1 if something failed."""
    lesson = lesson_named(args.lesson, Path(args.course).resolve() if args.course else ROOT)
    args.scheduler = scheduler_named(args.scheduler or "")
    os.chdir(lesson.root)
    if not args.no_sandbox and not args.scheduler:  # a worker elsewhere says what it lacks
        require_sandbox()
    if not args.scheduler:
        pool.start_early()
    students = submissions(lesson, args.only)
    journal = Journal(lesson)
    with journal.held():
        settings = settings_of(args, journal.folder / "cache" / stamp_of(lesson)[:16])
        tasks = list(todo(lesson, journal, students, args))
        return grade(lesson, journal, tasks, settings, len(students))


def settings_of(args: argparse.Namespace, cache: Path) -> Settings:
    """From the command line."""
    limits = Limits(wall=args.wall, cell=args.cell, memory=int(args.memory * 1e9))
    return Settings(args.workers or workers_that_fit(limits), limits, cache, not args.no_sandbox, args.scheduler)


def scheduler_named(where: str) -> str:
    """An address as it is; a file by its whole path, for grading goes on in the course's folder."""
    return str(Path(where).expanduser().resolve()) if where.endswith((".json", ".yaml", ".yml")) else where


def engine(settings: Settings) -> Engine:
    """What grades: processes of this machine, or a Dask cluster."""
    if not settings.scheduler:
        return pool.examine_all
    try:
        from autograder.grading import cluster
    except ModuleNotFoundError as error:
        raise CourseError(
            f"A cluster needs {error.name}: pip install -r requirements/cluster.lock, here and on each worker."
        ) from error
    return cluster.examine_all


def submissions(lesson: Lesson, only: list[str] | None) -> list[str]:
    """The students who handed the lesson in. CourseError if there are none, or if one of `only` did not."""
    there = sorted(path.parent.name for path in (lesson.root / SUBMITTED).glob(f"*/{lesson.name}") if path.is_dir())
    if not there:
        raise CourseError(f"{SUBMITTED}/*/{lesson.name}/ is empty. Run: nbgrader collect {lesson.name}")
    missing = [student for student in only or () if student not in there]
    if missing:
        raise CourseError(
            f"{missing[0]} handed in no {lesson.name}: there is no {SUBMITTED}/{missing[0]}/{lesson.name}/."
        )
    return [student for student in there if not only or student in only]


def todo(lesson: Lesson, journal: Journal, students: list[str], args: argparse.Namespace) -> Iterator[Task]:
    """A task for each submission that is not graded yet, by this grader, as it is now."""
    events, stamp = journal.events(), stamp_of(lesson)
    for student in students:
        folder = lesson.root / SUBMITTED / student / lesson.name
        for sentence in mend_submission(folder, lesson):
            print(f"{student}: {sentence}")
        path = folder / lesson.learner.name
        key = key_of(path, stamp)
        event = events.get(student)
        if is_open(event, key, args):
            yield Task(student, path, key)


def is_open(event: Event | None, key: str, args: argparse.Namespace) -> bool:
    """Whether a submission with this last event is still to be graded."""
    if args.regrade or event is None or event.key != key:
        return True
    return event.state == "judged" or (event.state == "failed" and args.retry == "failed")


def grade(lesson: Lesson, journal: Journal, tasks: list[Task], settings: Settings, students: int) -> int:
    """Grade the tasks and write the gradebook; 0 if nothing failed."""
    from autograder.grading.gradebook import Writer

    writer = Writer(lesson, journal.results)
    writer.require_assignment()
    if students > len(tasks):
        print(f"{students - len(tasks)} of {students} submissions are graded already.")
    if tasks and not os.environ.get("COURSE_SECRET"):
        print("COURSE_SECRET is not set: each submission gets inputs of its own. For a class see docs/instructors.md.")
    events, failed, began = journal.events(), 0, time.monotonic()
    done = [task for task in tasks if _is_judged(events.get(task.student), task, journal)]
    for task in done:  # judged before a crash, and perhaps not written
        _write(writer, journal, task)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task(lesson.name, total=len(tasks), completed=len(done))
        for task, result in engine(settings)(lesson, [task for task in tasks if task not in done], settings):
            if isinstance(result, str):
                journal.note("failed", task.student, task.key, result)
                progress.console.print(f"{task.student}: {result}", markup=False)
                failed += 1
            else:
                journal.keep(result)
                _write(writer, journal, task)
            progress.advance(bar)
    seconds = time.monotonic() - began
    print(summary(journal, [task.student for task in tasks], seconds))
    return int(failed > 0)


def _is_judged(event: Event | None, task: Task, journal: Journal) -> bool:
    if event is None or event.state != "judged" or event.key != task.key:
        return False
    result = journal.result(task.student)
    return result is not None and result["key"] == task.key


def _write(writer: object, journal: Journal, task: Task) -> None:
    warnings = writer.write(task.student)  # type: ignore[attr-defined]
    for line in warnings.splitlines():
        print(line)
    for ruling in (journal.result(task.student) or {"rulings": []})["rulings"]:
        if ruling["suspicion"]:
            print(f"{task.student}: look at {ruling['exercise']}: {ruling['suspicion']}")
    journal.note("written", task.student, task.key)


def summary(journal: Journal, students: list[str], seconds: float) -> str:
    """One line about what was done."""
    events = journal.events()
    states = [events[student].state for student in students if student in events]
    rate = f", {60 * len(students) / seconds:.0f} a minute" if students and seconds else ""
    failed = f", {states.count('failed')} failed (--retry failed)" if "failed" in states else ""
    return f"{states.count('written')} graded in {seconds:.0f} s{rate}{failed}."
