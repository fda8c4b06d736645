"""Prove a lesson: solved passes, unsolved fails kindly, each known mistake gets its own sentence, nothing leaks."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import nbformat
from nbformat import NotebookNode
from rich.console import Console
from rich.markup import escape

from autograder.budgets import (
    FEEDBACK_WORDS,
    SECONDS_PER_LESSON,
    leak_problems,
    output_problems,
    source_problems,
    words,
)
from autograder.build import Lesson, build, learner_text, lesson_named, lessons, solved_notebook
from autograder.errors import CourseError
from autograder.exercise import Draw, Exercise, KnownMistake
from autograder.exercises import everything, of_lesson
from autograder.judge import Verdict, judge, namespace_of

KNOWN_MISTAKES = 4
ALTERNATIVES = 2


@dataclass
class Proof:
    """What was proved of one lesson. `problems` is empty when all of it holds; `seconds` by notebook."""

    lesson: str
    problems: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    slowest: dict[str, tuple[float, str]] = field(default_factory=dict)
    judged: int = 0


def execute(notebook: NotebookNode, lesson: Lesson) -> tuple[NotebookNode, list[tuple[float, NotebookNode]]]:
    """Run all cells, going on after errors, in an empty folder; the notebook with outputs, and seconds of each cell."""
    import tempfile

    from nbclient import NotebookClient

    spent: list[tuple[float, NotebookNode]] = []
    began = [0.0]
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=300,
            allow_errors=True,
            store_widget_state=False,
            extra_arguments=["--log-level=ERROR"],  # a kernel on this machine's own loopback needs no warning
            resources={"metadata": {"path": folder}},
            on_cell_execute=lambda cell, cell_index: began.__setitem__(0, time.monotonic()),
            on_cell_executed=lambda cell, cell_index, execute_reply: spent.append((time.monotonic() - began[0], cell)),
        )
        client.execute()
    return notebook, spent


def grade_cells(notebook: NotebookNode) -> dict[str, NotebookNode]:
    """The check cells by grade id."""
    cells = {}
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade"):
            cells[cell.metadata.nbgrader.grade_id] = cell
    return cells


def points_of(cell: NotebookNode) -> float:
    """What nbgrader itself gives for this executed check cell."""
    from nbgrader.utils import determine_grade

    score: float = determine_grade(cell)[0]
    return score


def stderr_of(cell: NotebookNode) -> str:
    """What the cell wrote to stderr."""
    return "".join(o.text for o in cell.outputs if o.output_type == "stream" and o.name == "stderr")


def errors_of(cell: NotebookNode) -> list[NotebookNode]:
    """The exceptions among the cell's outputs."""
    return [output for output in cell.outputs if output.output_type == "error"]


def solved_problems(proof: Proof, lesson: Lesson) -> Iterator[str]:
    """The solved notebook: full points, no error, no stderr in check cells, outputs that a reader can take in."""
    notebook, spent = execute(solved_notebook(lesson), lesson)
    _note_seconds(proof, "solved", spent)
    for cell in notebook.cells:
        if cell.cell_type == "code" and (errors := errors_of(cell)):
            yield f"solved: {cell.source.splitlines()[0]} raised {errors[0].ename}: {errors[0].evalue[:200]}"
    for grade_id, cell in grade_cells(notebook).items():
        if points_of(cell) != cell.metadata.nbgrader.points:
            yield f"solved: {grade_id} got {points_of(cell)} of {cell.metadata.nbgrader.points} points."
        if noise := stderr_of(cell):
            yield f"solved: {grade_id} wrote to stderr, which nbgrader scores 0: {noise[:120]}"
    yield from output_problems(notebook, "solved")
    total = proof.seconds["solved"]
    if total > SECONDS_PER_LESSON:
        slowest = proof.slowest["solved"][1]
        yield f"solved: took {total:.0f} s; at most {SECONDS_PER_LESSON}. The slowest cell: {slowest}"


def unsolved_problems(proof: Proof, lesson: Lesson) -> Iterator[str]:
    """The learner's notebook, run from top to bottom: fails in check cells only, and kindly."""
    notebook, spent = execute(nbformat.reads(learner_text(lesson), as_version=4), lesson)
    _note_seconds(proof, "unsolved", spent)
    checks = grade_cells(notebook)
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        errors = errors_of(cell)
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        if grade_id not in checks and errors:
            yield f"unsolved: {cell.source.splitlines()[0]} raised {errors[0].ename}; only checks may fail."
        if grade_id in checks and (not errors or errors[0].ename != "CheckFailed"):
            yield f"unsolved: {grade_id} must fail kindly; it {'raised ' + errors[0].ename if errors else 'passed'}."
        if grade_id in checks and points_of(cell) != 0:
            yield f"unsolved: {grade_id} got {points_of(cell)} points."


def _note_seconds(proof: Proof, title: str, spent: list[tuple[float, NotebookNode]]) -> None:
    proof.seconds[title] = sum(seconds for seconds, _ in spent)
    if spent:
        seconds, cell = max(spent, key=lambda pair: pair[0])
        proof.slowest[title] = (seconds, cell.source.splitlines()[0][:60] if cell.source else "")


def registry_problems(lesson: Lesson) -> Iterator[str]:
    """Each exercise is used once, has its hints, known mistakes and alternatives; each check follows its exercise."""
    used = [cell.id for cell in solved_notebook(lesson).cells if cell.metadata.get("nbgrader", {}).get("solution")]
    checked = list(grade_cells(solved_notebook(lesson)))
    for exercise in of_lesson(lesson.name):
        if used.count(exercise.name) != 1 or checked.count(f"{exercise.name}_check") != 1:
            yield f"{exercise.name}: needs one exercise cell and one check cell in {lesson.source.name}."
        if not all(hint.strip() for hint in exercise.hints) or len(set(exercise.hints)) < 3:
            yield f"{exercise.name}: needs three different hints."
        if len(exercise.known_mistakes) < KNOWN_MISTAKES:
            yield f"{exercise.name}: has {len(exercise.known_mistakes)} known mistakes; needs {KNOWN_MISTAKES}."
        if len(exercise.alternatives) < ALTERNATIVES:
            yield f"{exercise.name}: has {len(exercise.alternatives)} alternative answers; needs {ALTERNATIVES}."
        if len({mistake.says for mistake in exercise.known_mistakes}) < 2:
            yield f"{exercise.name}: its known mistakes all get the same sentence."


def _judged(exercise: Exercise, code: str, title: str, draw: Draw) -> Verdict | str:
    try:
        return judge(exercise, namespace_of(code, title), draw)
    except Exception as error:
        return f"{exercise.name}: {title} does not even run: {type(error).__name__}: {error}"


def mistake_problems(exercise: Exercise, mistake: KnownMistake) -> Iterator[str]:
    """A known mistake loses its points and gets its own sentence; a problem names its draw, to be made again."""
    draw = Draw.fresh(exercise.name)
    verdict = _judged(exercise, mistake.code, "mistake", draw)
    first = mistake.code.strip().splitlines()[-1].strip()
    if isinstance(verdict, str):
        yield verdict
    elif verdict.passed:
        yield f"{exercise.name}: this known mistake passes on Draw({draw.seed}): {first}"
    elif mistake.says not in verdict.sentence:
        told = f"it is told on Draw({draw.seed}): {verdict.sentence}"
        yield f"{exercise.name}: the mistake ({first}) must be told {mistake.says!r}; {told}"
    elif (count := words(verdict.sentence)) > FEEDBACK_WORDS:
        yield f"{exercise.name}: feedback of {count} words, at most {FEEDBACK_WORDS}: {verdict.sentence}"


def alternative_problems(exercise: Exercise, code: str) -> Iterator[str]:
    """Another right answer passes with full points."""
    draw = Draw.fresh(exercise.name)
    verdict = _judged(exercise, code, "alternative", draw)
    if isinstance(verdict, str):
        yield verdict
    elif not verdict.passed:
        last = code.strip().splitlines()[-1]
        yield f"{exercise.name}: this right answer is refused on Draw({draw.seed}): {last}: {verdict.sentence}"


def exercise_problems(proof: Proof, lesson: Lesson) -> Iterator[str]:
    """Known mistakes and alternatives of all exercises of the lesson."""
    for exercise in of_lesson(lesson.name):
        for mistake in exercise.known_mistakes:
            proof.judged += 1
            yield from mistake_problems(exercise, mistake)
        for code in exercise.alternatives:
            proof.judged += 1
            yield from alternative_problems(exercise, code)


def prove(lesson: Lesson, say: Callable[[str], None] = lambda _: None) -> Proof:
    """Everything that must hold of one lesson; `say` hears which part is running."""
    proof = Proof(lesson.name)
    parts: list[tuple[str, Callable[[], Iterator[str]]]] = [
        ("form and budgets", lambda: source_problems(lesson)),
        ("leaks", lambda: leak_problems(lesson)),
        ("registry", lambda: registry_problems(lesson)),
        ("known mistakes and alternatives", lambda: exercise_problems(proof, lesson)),
        ("solved", lambda: solved_problems(proof, lesson)),
        ("unsolved", lambda: unsolved_problems(proof, lesson)),
    ]
    for title, part in parts:
        say(title)
        proof.problems.extend(part())
    return proof


def orphan_problems() -> Iterator[str]:
    """Exercises whose lesson has no source."""
    known = {lesson.name for lesson in lessons()}
    for exercise in everything():
        if exercise.lesson not in known:
            yield f"{exercise.name}: there is no solutions/{exercise.lesson}/."


def main(args: argparse.Namespace) -> int:
    """``python -m autograder check [LESSON]``."""
    console = Console()
    problems = [f"{path} is out of date. Run: make build" for path in build(write=False)]
    problems += orphan_problems()
    for lesson in [lesson_named(args.lesson)] if args.lesson else lessons():
        proof = prove(lesson, lambda part, name=lesson.name: console.print(f"{name}: {part} …"))  # type: ignore[misc]
        problems += proof.problems
        for title, seconds in proof.seconds.items():
            cell_seconds, cell = proof.slowest[title]
            console.print(escape(f"  {title}: {seconds:.0f} s, slowest cell {cell_seconds:.1f} s ({cell})"))
        console.print(f"  {proof.judged} known mistakes and alternatives judged")
    if problems:
        raise CourseError("\n".join(problems))
    console.print("All of it holds.")
    return 0
