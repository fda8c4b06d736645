"""Build the notebooks: solutions/NN_topic/topic.py gives the solved notebook beside it and the learner's in notebooks/.

One way only, and byte-stable: cell ids come from the cells, and the learner's notebook goes through nbgrader's own
preprocessors, so that `nbgrader generate_assignment` writes the same text.
"""

from __future__ import annotations

import argparse
import collections
import difflib
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder.errors import CourseError
from autograder.exercise import Exercise
from autograder.exercises import find
from autograder.nbgrader_config import ROOT, course_config

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


@dataclass(frozen=True)
class Lesson:
    """One lesson's files. `name` is ``01_basic_compile``, `topic` ``basic_compile``."""

    name: str
    root: Path

    @property
    def topic(self) -> str:
        """The name without its number."""
        return self.name.split("_", 1)[1]

    @property
    def source(self) -> Path:
        """The py:percent file, the source of truth."""
        return self.root / "solutions" / self.name / f"{self.topic}.py"

    @property
    def solved(self) -> Path:
        """The solved notebook, generated."""
        return self.source.with_suffix(".ipynb")

    @property
    def learner(self) -> Path:
        """The learner's notebook, generated."""
        return self.root / "notebooks" / self.name / f"{self.topic}.ipynb"


def lessons(root: Path = ROOT) -> list[Lesson]:
    """All lessons that have a source, in order."""
    found = sorted(p.parent.name for p in (root / "solutions").glob("*_*/*.py"))
    return [Lesson(name, root) for name in dict.fromkeys(found)]


def lesson_named(name: str, root: Path = ROOT) -> Lesson:
    """The lesson called ``01_basic_compile``, ``basic_compile``, ``01`` or ``1``; CourseError names the nearest."""
    known = lessons(root)
    for lesson in known:
        number = lesson.name.split("_")[0]
        if name.strip("/") in (lesson.name, lesson.topic, number, number.lstrip("0")):
            return lesson
    near = difflib.get_close_matches(name, [lesson.name for lesson in known], n=1, cutoff=0.3)
    raise CourseError(f'There is no lesson "{name}".' + (f" Did you mean {near[0]}?" if near else ""))


def solved_notebook(lesson: Lesson) -> NotebookNode:
    """The notebook of the lesson's source, with nbgrader's metadata on exercise and check cells."""
    import jupytext

    notebook: NotebookNode = jupytext.reads(lesson.source.read_text(encoding="utf-8"), fmt="py:percent")
    notebook.metadata = NotebookNode(kernelspec=KERNEL, language_info={"name": "python"})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    seen: collections.Counter[str] = collections.Counter()
    for cell in notebook.cells:
        _prepare(cell, lesson)
        wanted = (
            cell.metadata.get("nbgrader", {}).get("grade_id") or hashlib.sha256(cell.source.encode()).hexdigest()[:8]
        )
        seen[wanted] += 1
        cell.id = wanted if seen[wanted] == 1 else f"{wanted}-{seen[wanted]}"
    nbformat.validate(notebook)
    return notebook


def _prepare(cell: NotebookNode, lesson: Lesson) -> None:
    """Replace our own marks on a cell by nbgrader's metadata."""
    marks = {key: cell.metadata[key] for key in ("exercise", "check") if key in cell.metadata}
    cell.metadata = NotebookNode()
    if cell.cell_type == "code":
        cell.outputs, cell.execution_count = [], None
        _refuse_open_marks(cell.source, marks.get("exercise"), lesson)
    for kind, name in marks.items():
        exercise = _exercise(name, lesson)
        is_check = kind == "check"
        if is_check and cell.source.strip() != f'check("{name}")':
            raise CourseError(f'{lesson.source.name}: the check cell of {name} must be the one line check("{name}").')
        cell.metadata.nbgrader = NotebookNode(
            grade=is_check,
            grade_id=f"{name}_check" if is_check else name,
            locked=is_check,
            schema_version=3,
            solution=not is_check,
            task=False,
        )
        if is_check:
            cell.metadata.nbgrader.points = exercise.points


def _refuse_open_marks(source: str, exercise: str | None, lesson: Lesson) -> None:
    """Without its marks nbgrader replaces the whole cell; marks outside an exercise stop it."""
    found = re.findall(r"### (BEGIN|END) SOLUTION", source)
    if found and not exercise:
        first = source.splitlines()[0]
        raise CourseError(
            f'{lesson.source.name}: the cell "{first}" marks a solution; start it with # %% exercise="name".'
        )
    if exercise and (not found or found != ["BEGIN", "END"] * (len(found) // 2)):
        raise CourseError(f"{lesson.source.name}: {exercise} needs ### BEGIN SOLUTION, then ### END SOLUTION.")


def _exercise(name: str, lesson: Lesson) -> Exercise:
    try:
        exercise = find(name)
    except LookupError as error:
        raise CourseError(f"{lesson.source.name}: {error} Add it to autograder/exercises/.") from None
    if exercise.lesson != lesson.name:
        raise CourseError(f"{lesson.source.name}: {name} belongs to {exercise.lesson}.")
    return exercise


def solved_text(lesson: Lesson) -> str:
    """The solved notebook as it stands on disk."""
    text: str = nbformat.writes(solved_notebook(lesson))
    return text + "\n"


def learner_text(lesson: Lesson) -> str:
    """The learner's notebook, as `nbgrader generate_assignment` would write it."""
    from nbconvert.exporters import NotebookExporter
    from nbgrader.converters import GenerateAssignment
    from nbgrader.preprocessors import SaveCells

    exporter = NotebookExporter(config=course_config(lesson.root))
    for preprocessor in GenerateAssignment.preprocessors.default_args[0]:
        if preprocessor is not SaveCells:  # it writes the gradebook, which a build has none of
            exporter.register_preprocessor(preprocessor, enabled=True)
    resources = {"nbgrader": {"assignment": lesson.name, "notebook": lesson.topic}}
    text, _ = exporter.from_notebook_node(solved_notebook(lesson), resources=resources)
    return str(text)


def build(root: Path = ROOT, *, write: bool = True) -> list[str]:
    """Build all lessons; returns the files that were out of date, relative to `root`. Without `write` only looks."""
    stale = []
    for lesson in lessons(root):
        for path, text in ((lesson.solved, solved_text(lesson)), (lesson.learner, learner_text(lesson))):
            if path.exists() and path.read_text(encoding="utf-8") == text:
                continue
            stale.append(str(path.relative_to(root)))
            if write:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8", newline="\n")
    return stale


def main(args: argparse.Namespace) -> int:
    """``python -m autograder build [--check]``."""
    stale = build(write=not args.check)
    if args.check and stale:
        raise CourseError(f"Out of date: {', '.join(stale)}. Run: make build")
    for path in stale:
        print(f"built {path}")
    return 0
