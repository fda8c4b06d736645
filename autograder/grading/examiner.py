"""Grades one submission in a worker: reads its notebook, rules on each exercise, gives back plain JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

import nbformat
import psutil
from nbformat import NotebookNode

from autograder.build import Lesson
from autograder.exercises import of_lesson
from autograder.grading import cells
from autograder.grading.referee import Question, Ruling, rule
from autograder.grading.warm import ready_cache, wanted_facts
from autograder.grading_steps import mend_cells
from autograder.preflight import Unreadable, read_submission
from autograder.sandbox.bubble import Bubble
from autograder.sandbox.limits import Limits

LARGEST = 40_000_000
"""Bytes of a notebook that is read at all."""
MOST_CELLS = 2000


class Result(TypedDict):
    """What became of one submission: JSON, so that any engine can carry it and any journal keep it."""

    student: str
    key: str
    rulings: list[dict[str, Any]]
    problem: str
    seconds: float


class Examiner:
    """One worker's sandbox and questions for a lesson; a context manager.

    `cache` is the folder of the trusted compile cache, made by the first who needs it; without it every job compiles
    for itself.
    """

    def __init__(
        self, lesson: Lesson, limits: Limits | None = None, cache: Path | None = None, isolated: bool = True
    ) -> None:
        self.lesson, self.limits = lesson, limits or Limits()
        self.released = nbformat.reads(lesson.learner.read_text(encoding="utf-8"), as_version=4)
        checks = {cell.metadata.get("nbgrader", {}).get("grade_id") for cell in self.released.cells}
        exercises = [exercise for exercise in of_lesson(lesson.name) if f"{exercise.name}_check" in checks]
        self._exercises = exercises
        self._questions = {exercise.name: Question.of(exercise) for exercise in exercises}
        warm = ready_cache(cache, self._questions.values(), self.limits) if cache and isolated else None
        self._wanted = wanted_facts(warm) if warm else {}
        self._bubble = Bubble(exercises, warm, gpu=Path("/dev/nvidiactl").exists(), isolated=isolated)

    def __enter__(self) -> Examiner:
        return self

    def __exit__(self, *_: object) -> None:
        self._bubble.close()

    def examine(self, student: str, path: Path, key: str) -> Result:
        """Grade the notebook at `path`. A submission can only harm itself; a broken sandbox raises SandboxError."""
        began = time.monotonic()
        problem = ""
        try:
            notebook = read_notebook(path, self.released)
            rulings = [self.rule_on(exercise.name, notebook) for exercise in self._exercises]
        except Unreadable as error:
            problem = f"{path.name} {error}."
            rulings = []
        return Result(
            student=student,
            key=key,
            rulings=[ruling.as_json() for ruling in rulings],
            problem=problem,
            seconds=round(time.monotonic() - began, 3),
        )

    def sandboxed(self) -> list[psutil.Process]:
        """The processes that this examiner's sandbox holds now, its outermost ones left out."""
        return self._bubble.processes()

    def rule_on(self, exercise: str, notebook: NotebookNode) -> Ruling:
        """Judge with the cells that the exercise needs; a wrong answer gets a second look with all of them.

        The second look is taken where the learner wrote cells that the first one left out, for a cell may matter
        without defining a name.
        """
        question, code = self._questions[exercise], cells.code_cells(notebook)
        end = next((cell.place for cell in code if cell.is_check and _checks(cell, exercise)), len(notebook.cells))
        few = cells.needed(code, question.exercise.asks_for, end)
        wanted = self._wanted.get(exercise)
        ruling = rule(self._bubble, question, [cell.source for cell in few], self.limits, wanted)
        left_out = cells.own_cells(code, self.released) - {cell.place for cell in few}
        other = [cell for cell in cells.whole(code) if cell.place in left_out and not self._answers(cell, question)]
        if ruling.passed or ruling.suspicion or not other:
            return ruling
        again = sorted({cell.place: cell for cell in (*few, *other, *cells.needed(code, _names(other), end))}.items())
        second = rule(self._bubble, question, [cell.source for _, cell in again], self.limits)
        return second if second.passed else ruling

    def _answers(self, cell: cells.Cell, question: Question) -> bool:
        """Whether a cell only answers other exercises."""
        others = {name for one in self._exercises if one is not question.exercise for name in one.asks_for}
        return bool(cell.binds & others)


def _checks(cell: cells.Cell, exercise: str) -> bool:
    return f'check("{exercise}")' in cell.source


def _names(some: Sequence[cells.Cell]) -> list[str]:
    return sorted({name for cell in some for name in cell.now | cell.later})


def read_notebook(path: Path, released: NotebookNode) -> NotebookNode:
    """The submission with its exercise and check cells as they were released. Raises Unreadable."""
    if not path.is_file() or path.is_symlink():
        raise Unreadable("is not there")
    if path.stat().st_size > LARGEST:
        raise Unreadable(f"has {path.stat().st_size / 1e6:.0f} MB, and at most {LARGEST / 1e6:.0f} are read")
    notebook: NotebookNode = nbformat.reads(nbformat.writes(read_submission(path.read_bytes())[0]), as_version=4)
    if len(notebook.cells) > MOST_CELLS:
        raise Unreadable(f"has {len(notebook.cells)} cells, and at most {MOST_CELLS} are run")
    mend_cells(notebook, [cell for cell in released.cells if cell.metadata.get("nbgrader")])
    return notebook
