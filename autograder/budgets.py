"""What a lesson may cost its reader: the budgets of the lesson form, and what a released notebook must not hold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from nbformat import NotebookNode

from autograder.build import Lesson, learner_text, solved_notebook

WORDS_PER_TEXT_CELL = 120
LINES_PER_CODE_CELL = 20
LINES_PER_OUTPUT = 25
BYTES_PER_OUTPUT = 50_000
SECONDS_PER_LESSON = 120
FEEDBACK_WORDS = 45


def words(text: str) -> int:
    """Words a reader reads: links count as their text, code spans as one word, table rules not at all."""
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"`[^`]*`", "code", text)
    return len(re.findall(r"\w[\w'.-]*", text))


def source_problems(lesson: Lesson) -> Iterator[str]:
    """One sentence for each cell of the solved notebook that is over budget."""
    for index, cell in enumerate(solved_notebook(lesson).cells, 1):
        where = f"{lesson.source.name}, cell {index} ({cell.source.splitlines()[0][:40] if cell.source else 'empty'})"
        if cell.cell_type == "markdown" and (count := words(cell.source)) > WORDS_PER_TEXT_CELL:
            yield f"{where}: {count} words; at most {WORDS_PER_TEXT_CELL}. Cut it or split it."
        if cell.cell_type == "code" and (count := len(cell.source.splitlines())) > LINES_PER_CODE_CELL:
            yield f"{where}: {count} lines; at most {LINES_PER_CODE_CELL}. Cut it or split it."
        if re.search(r"base64|[A-Za-z0-9+/]{200,}={0,2}", cell.source):
            yield f"{where}: holds base64; put the picture into assets/figures/."


def leak_problems(lesson: Lesson) -> Iterator[str]:
    """One sentence for each thing in notebooks/ that tells a learner the answer, or that should not be there."""
    folder = lesson.learner.parent
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path != lesson.learner and ".ipynb_checkpoints" not in path.parts:
            yield f"{path.relative_to(lesson.root)} does not belong in a release; delete it."
    text = learner_text(lesson)
    for mark in ("BEGIN SOLUTION", "END SOLUTION", "BEGIN HIDDEN", '"output_type"'):
        if mark in text:
            yield f"{lesson.learner.relative_to(lesson.root)} holds {mark}; mend the source and run: make build"
    learner = {cell["id"]: "".join(cell["source"]) for cell in json.loads(text)["cells"]}
    for cell in solved_notebook(lesson).cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            for line in solution_lines(cell.source):
                if line in learner[cell.id]:
                    yield f"{cell.id}: the learner's notebook holds this line of the solution: {line}"


def solution_lines(source: str) -> list[str]:
    """The lines between the marks, stripped, that are long enough to give something away."""
    inside = re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", source, re.S)
    return [line.strip() for block in inside for line in block.splitlines() if len(line.strip()) > 12]


def output_problems(notebook: NotebookNode, title: str) -> Iterator[str]:
    """One sentence for each output of an executed notebook that nobody would read, or that is too big to send."""
    for index, cell in enumerate(notebook.cells, 1):
        if cell.cell_type != "code":
            continue
        where = f"{title}, cell {index} ({cell.source.splitlines()[0][:40] if cell.source else 'empty'})"
        text = "".join(output.get("text", "") for output in cell.outputs if output.output_type == "stream")
        if (count := len(text.splitlines())) > LINES_PER_OUTPUT:
            yield f"{where}: prints {count} lines; at most {LINES_PER_OUTPUT}. Show a picture instead."
        size = sum(_shown_bytes(output) for output in cell.outputs)
        if size > BYTES_PER_OUTPUT:
            yield f"{where}: its output is {size // 1000} kB; at most {BYTES_PER_OUTPUT // 1000} kB."


def _shown_bytes(output: NotebookNode) -> int:
    return sum(len(value) for value in output.get("data", {}).values() if isinstance(value, str))
