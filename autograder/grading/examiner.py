"""Grades one submission in a worker: reads its notebook, rules on each exercise, gives back plain JSON."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import nbformat
import psutil
from nbformat import NotebookNode

from autograder.build import Lesson
from autograder.exercise import Exercise
from autograder.exercises import of_lesson
from autograder.grading import cells
from autograder.grading.lease import gpu_lease, gpus_here
from autograder.grading.picture import Facts
from autograder.grading.referee import Question, Ruling, rule
from autograder.grading.speed import bonus_of
from autograder.grading.warm import is_empty, is_ready, ready_cache, wanted_facts
from autograder.mending import mend_cells
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
        self._start = partial(Bubble, exercises, gpu=gpus_here(), isolated=isolated)
        self._wanted: Mapping[str, Mapping[str, Facts]] = {}
        self._bubble = self._with_cache(cache) if cache and isolated else self._start()
        self._ours: Bubble | None = None
        self._of_released: dict[str, Ruling] = {}

    def _with_cache(self, cache: Path) -> Bubble:
        """A sandbox with the trusted cache, and from then on `_start` gives no other.

        Where the cache is not there yet, the sandbox starts beside whoever makes it, and is good if it stays empty.
        """
        early = None if is_ready(cache) else self._start()
        try:
            warm = ready_cache(cache, self._questions.values(), self.limits, bubble=early)
        except BaseException:
            if early:
                early.close()
            raise
        self._wanted = wanted_facts(warm)
        self._start = partial(self._start, cache=warm)
        if early and is_empty(warm):
            return early
        if early:
            early.close()
        return self._start()

    def __enter__(self) -> Examiner:
        return self

    def __exit__(self, *_: object) -> None:
        self._bubble.close()
        if self._ours:
            self._ours.close()

    def examine(self, student: str, path: Path, key: str, *, race: bool = True) -> Result:
        """Grade the notebook at `path`. A submission can only harm itself; a broken sandbox raises SandboxError.

        Without `race` nobody's speed is looked at; a later call of `race` may do so, also on another machine.
        """
        began = time.monotonic()
        problem = ""
        try:
            notebook = read_notebook(path, self.released)
            rulings = [self._ruling(exercise, notebook, race) for exercise in self._exercises]
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

    def race(self, path: Path, result: Result) -> Result:
        """The result of `examine` with how fast its right answers are on this machine's GPU: that gives no points."""
        bonuses = {exercise.name: exercise for exercise in self._exercises if exercise.bonus}
        right = [one for one in result["rulings"] if one["passed"] and one["exercise"] in bonuses]
        if right and gpus_here():
            notebook = read_notebook(path, self.released)
            for one in right:
                said = self._speed(bonuses[one["exercise"]], notebook)
                one["sentence"] = f"{one['sentence']} {said}".strip()
        return result

    def _ruling(self, exercise: Exercise, notebook: NotebookNode, race: bool) -> Ruling:
        """The ruling; where there is a GPU, also how fast a right answer is on it, which costs and gives no points."""
        if not gpus_here():
            return self.rule_on(exercise.name, notebook)
        with gpu_lease(alone=False):
            ruling = self.rule_on(exercise.name, notebook)
        if race and ruling.passed and exercise.bonus:
            ruling.sentence = f"{ruling.sentence} {self._speed(exercise, notebook)}".strip()
        return ruling

    def _speed(self, exercise: Exercise, notebook: NotebookNode) -> str:
        """What a race of a right answer comes to, with the GPU alone."""
        assert exercise.bonus is not None
        self._ours = self._ours or self._start()
        few = self._cells(exercise.name, cells.code_cells(notebook), len(notebook.cells))
        with gpu_lease(alone=True):
            return bonus_of((self._bubble, self._ours), exercise.bonus, [cell.source for cell in few], self.limits)

    def rule_on(self, exercise: str, notebook: NotebookNode) -> Ruling:
        """Judge with the cells that the exercise needs; a wrong answer gets a second look with all of them.

        The second look is taken where the learner wrote cells that the first one left out, for a cell may matter
        without defining a name.
        """
        question, code = self._questions[exercise], cells.code_cells(notebook)
        end = _end(code, exercise, len(notebook.cells))
        few = self._cells(exercise, code, end)
        ruling = self._first_look(exercise, [cell.source for cell in few])
        left_out = cells.own_cells(code, self.released) - {cell.place for cell in few}
        other = [
            cell for cell in cells.whole(code, end) if cell.place in left_out and not self._answers(cell, question)
        ]
        if ruling.passed or ruling.suspicion or not other:
            return ruling
        again = sorted({cell.place: cell for cell in (*few, *other, *cells.needed(code, _names(other), end))}.items())
        second = rule(self._bubble, question, [cell.source for _, cell in again], self.limits)
        return second if second.passed else ruling

    def _first_look(self, exercise: str, sources: list[str]) -> Ruling:
        """The ruling on these cells; cells that are as they were released, which is ours, are looked at once."""
        question, wanted = self._questions[exercise], self._wanted.get(exercise)
        code = cells.code_cells(self.released)
        released = [cell.source for cell in self._cells(exercise, code, len(self.released.cells))]
        if sources != released:
            return rule(self._bubble, question, sources, self.limits, wanted)
        if exercise not in self._of_released:
            self._of_released[exercise] = rule(self._bubble, question, sources, self.limits, wanted)
        return replace(self._of_released[exercise])

    def _cells(self, exercise: str, code: Sequence[cells.Cell], end: int) -> list[cells.Cell]:
        """The cells that the exercise needs, as they are at its check."""
        return cells.needed(code, self._questions[exercise].exercise.asks_for, _end(code, exercise, end))

    def _answers(self, cell: cells.Cell, question: Question) -> bool:
        """Whether a cell only answers other exercises."""
        others = {name for one in self._exercises if one is not question.exercise for name in one.asks_for}
        return bool(cell.binds & others)


def _end(code: Sequence[cells.Cell], exercise: str, last: int) -> int:
    """The place of the exercise's check; `last` if it has none."""
    return next((cell.place for cell in code if cell.is_check and _checks(cell, exercise)), last)


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
