"""Submissions that nbgrader cannot read: one sentence each, mended where that is possible, the original kept beside it.

`nbgrader autograde` runs this before each submission (`pre_convert_hook`); `python -m autograder preflight` does it for
a whole class beforehand. The hook of `nbgrader generate_assignment` is here, too.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder.build import Lesson, learner_text, lesson_named
from autograder.errors import CourseError
from autograder.nbgrader_config import KEPT, ROOT

SUBMITTED = Path("work/submitted")


class Unreadable(Exception):  # noqa: N818 - a state of a file
    """Nobody can tell what is in this notebook; the message says why, as the end of a sentence."""


def before_release(assignment: str, student: str, notebooks: list[str]) -> None:
    """Leave the lesson's own notebook in `notebooks` (nbgrader's pre_convert_hook): any other would be released."""
    from traitlets.log import get_logger

    lesson = Lesson(assignment, Path.cwd())
    for other in [path for path in notebooks if Path(path).name != lesson.solved.name]:
        notebooks.remove(other)
        get_logger().warning("%s is not released: a lesson is one notebook, %s.", Path(other).name, lesson.solved.name)


def before_autograde(assignment: str, student: str, notebooks: list[str]) -> None:
    """Mend one submission (nbgrader's pre_convert_hook). A renamed notebook is added to `notebooks`, its paths."""
    from traitlets.log import get_logger

    lesson = Lesson(assignment, Path.cwd())
    folder = Path(notebooks[0]).parent
    for sentence in mend_submission(folder, lesson):
        get_logger().warning("%s: %s", folder.parent.name, sentence)
    wanted = folder / lesson.learner.name
    if wanted.exists() and str(wanted) not in notebooks:
        notebooks.append(str(wanted))


def mend_submission(folder: Path, lesson: Lesson) -> Iterator[str]:
    """Leave a notebook in `folder` that nbgrader can grade; one sentence for each problem."""
    path = folder / lesson.learner.name
    if not path.exists():
        other = _renamed(folder, lesson)
        if other is None:
            yield f"there is no {path.name}. Ask for it, or it gets 0 points."
            return
        path.write_bytes(other.read_bytes())
        yield f'there is no {path.name}; "{other.name}" is graded in its place.'
    try:
        notebook, problem = read_submission(path.read_bytes())
    except Unreadable as error:
        kept = _replace(path, _excuse(lesson, path.name, str(error)))
        yield f"{path.name} {error}. It gets 0 points and a note to submit again; the original is {kept.name}."
        return
    if problem:
        kept = _replace(path, notebook)
        yield f"{path.name} {problem}. It was mended and loses no points; the original is {kept.name}."


def read_submission(raw: bytes) -> tuple[NotebookNode, str]:
    """The notebook, in format 4, and what was wrong with its file ("" if nothing). Raises Unreadable."""
    text, problem = _decoded(raw)
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        if not text.strip():
            raise Unreadable("is empty") from None
        raise Unreadable(f"is not valid JSON from line {error.lineno} on") from None
    except RecursionError:
        raise Unreadable("is nested deeper than any notebook") from None
    if not isinstance(data, dict) or not isinstance(data.get("nbformat"), int):
        raise Unreadable("is no notebook")
    if data["nbformat"] != 4:
        problem = problem or f"was saved in notebook format {data['nbformat']}"
    try:
        notebook = nbformat.convert(nbformat.from_dict(data), 4)
        return (
            (_rebuilt(notebook), problem or "has cells in a wrong form") if _is_odd(notebook) else (notebook, problem)
        )
    except Exception as error:
        raise Unreadable(f"cannot be read as a notebook ({type(error).__name__})") from None


def _decoded(raw: bytes) -> tuple[str, str]:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw.decode("utf-16", errors="replace"), "was not saved as UTF-8"
    try:
        return raw.decode("utf-8-sig"), "starts with a byte order mark" if raw.startswith(b"\xef\xbb\xbf") else ""
    except UnicodeDecodeError:
        return raw.decode("cp1252", errors="replace"), "was not saved as UTF-8"


def _is_odd(notebook: NotebookNode) -> bool:
    try:
        nbformat.validate(copy.deepcopy(notebook))
    except nbformat.ValidationError:
        return True
    return False


def _rebuilt(notebook: NotebookNode) -> NotebookNode:
    """The cells' sources and metadata in a new notebook; autograding clears the outputs anyway."""
    cells = []
    for old in notebook.cells:
        make = nbformat.v4.new_code_cell if old.get("cell_type") == "code" else nbformat.v4.new_markdown_cell
        source = old.get("source", "")
        marks = old.get("metadata") or {}
        cells.append(make("".join(source), metadata=NotebookNode(marks)))
    rebuilt: NotebookNode = nbformat.v4.new_notebook(cells=cells)
    nbformat.validate(rebuilt)
    return rebuilt


def _renamed(folder: Path, lesson: Lesson) -> Path | None:
    """The newest notebook in `folder` that holds a check cell of the lesson."""
    wanted = check_names(lesson)
    for path in sorted(folder.glob("*.ipynb"), key=lambda path: path.stat().st_mtime, reverse=True):
        try:
            cells = read_submission(path.read_bytes())[0].cells
        except Unreadable:
            continue
        if wanted & {cell.metadata.get("nbgrader", {}).get("grade_id") for cell in cells}:
            return path
    return None


def check_names(lesson: Lesson) -> set[str]:
    """The grade ids of the lesson's check cells."""
    cells = _released(lesson).cells
    marks = [cell.metadata.get("nbgrader", {}) for cell in cells]
    return {mark["grade_id"] for mark in marks if mark.get("grade")}


def _released(lesson: Lesson) -> NotebookNode:
    text = lesson.learner.read_text(encoding="utf-8") if lesson.learner.exists() else learner_text(lesson)
    notebook: NotebookNode = nbformat.reads(text, as_version=4)
    return notebook


def _excuse(lesson: Lesson, name: str, problem: str) -> NotebookNode:
    """The lesson as released, under a note that tells the learner what to do."""
    notebook = _released(lesson)
    note = (
        f"**Your {name} {problem}, so nothing in it could be checked.** Your file was kept. "
        "Open it in JupyterLab, run all cells, save, and submit it again."
    )
    notebook.cells.insert(0, nbformat.v4.new_markdown_cell(note))
    return notebook


def _replace(path: Path, notebook: NotebookNode) -> Path:
    """Write `notebook` to `path` and keep what was there under a dated name that no glob for notebooks finds."""
    kept = path.with_name(f"{path.stem}.{datetime.now():%Y-%m-%d-%H%M%S-%f}{KEPT}")
    text = nbformat.writes(notebook)
    path.rename(kept)
    path.write_text(text, encoding="utf-8")
    return kept


def preflight(lesson: Lesson) -> list[str]:
    """Mend all submissions of the lesson; one sentence for each problem, in the order of the students."""
    said = []
    for folder in sorted((lesson.root / SUBMITTED).glob(f"*/{lesson.name}")):
        try:
            said += [f"{folder.parent.name}: {sentence}" for sentence in mend_submission(folder, lesson)]
        except OSError as error:
            said.append(f"{folder.parent.name}: {error.strerror}: {error.filename}. Make the folder writable.")
    return said


def main(args: argparse.Namespace) -> int:
    """``python -m autograder preflight LESSON``; 0 also when something was mended."""
    lesson = lesson_named(args.lesson, ROOT)
    submitted = list((lesson.root / SUBMITTED).glob(f"*/{lesson.name}"))
    if not submitted:
        raise CourseError(f"{SUBMITTED}/*/{lesson.name}/ is empty. Run: nbgrader collect {lesson.name}")
    for sentence in preflight(lesson):
        print(sentence)
    several = "s" * (len(submitted) != 1)
    print(f"{len(submitted)} submission{several} can be graded: nbgrader autograde {lesson.name}")
    return 0
