"""Submissions that attack the grader: each is contained, gets its own verdict, and touches nobody else.

Each file in hostile/ is code at the top of an exercise's cell; its docstring says what must happen:
`exercise`, `answer` (right, wrong, or own: the code defines it), `gets` points, and where it matters `says` (in the
sentence), `look` (in the suspicion), `prints`, `never prints`, and limits: `cell`, `wall`, `cpu` (seconds).
"""

import ast
import copy
import dataclasses
import json
import os
from pathlib import Path

import nbformat
import psutil
import pytest

from autograder.grading.examiner import Examiner
from autograder.sandbox.limits import Limits
from classroom import Classroom, cell_of, marks_of, solve, unsolved
from honest import TWO_EXERCISES, in_format_3, not_utf8

HOSTILE = sorted((Path(__file__).parent / "hostile").glob("*.py"))
WRONG = {
    "basic_1": "def compile_report(metrics):\n    return lambda p: torch.stack([metric(p) for metric in metrics])",
    "basic_3": "def load_checkpoint(model, state):\n    return None",
}
LIMITS = Limits(wall=100, cell=60, memory=1_500_000_000)


@pytest.fixture(scope="module")
def room(tmp_path_factory, sandbox):
    """A classroom and an examiner for all of this file."""
    os.environ["COURSE_SECRET"] = "nobody-knows-this"
    room = Classroom(tmp_path_factory.mktemp("hostile"))
    room.teaches(TWO_EXERCISES)
    with Examiner(room.lesson, LIMITS) as examiner:
        room.examiner = examiner
        yield room
    del os.environ["COURSE_SECRET"]


def promise(path):
    """What the file's docstring says must happen."""
    lines = ast.get_docstring(ast.parse(path.read_text())).splitlines()[2:]
    return dict(line.split(": ", 1) for line in lines)


def examined(room, notebook, limits=LIMITS):
    """The result for a notebook, an nbformat one or raw bytes."""
    room.examiner.limits = limits
    path = room.hands_in("mallory", notebook)
    return room.examiner.examine("mallory", path, "key")


def ruled(room, notebook, exercise, limits=LIMITS):
    room.examiner.limits = limits
    return room.examiner.rule_on(exercise, notebook)


def honest(room):
    return solve(unsolved(room.lesson), room.lesson)


@pytest.mark.parametrize("path", HOSTILE, ids=lambda path: path.stem)
def test_hostile_code_is_contained_and_gets_what_it_is_worth(room, path):
    must = promise(path)
    notebook, exercise = honest(room), must["exercise"]
    cell = cell_of(notebook, exercise)
    answers = {"right": cell.source, "wrong": WRONG[exercise], "own": ""}
    cell.source = path.read_text() + "\n" + answers[must["answer"]]
    seconds = {name: float(must[name]) for name in ("wall", "cell", "cpu") if name in must}
    limits = dataclasses.replace(LIMITS, **seconds)
    ruling = ruled(room, notebook, exercise, limits)
    assert ruling.points == int(must["gets"]), ruling
    assert must.get("says", "") in ruling.sentence
    assert must.get("prints", "") in ruling.output
    assert "never prints" not in must or must["never prints"] not in ruling.output
    assert must.get("look", "") in ruling.suspicion
    assert bool(ruling.suspicion) == ("look" in must)
    assert nobody_is_left(room)


def nobody_is_left(room):
    """Whether the sandbox holds its zygote and nothing else."""
    return len([one for one in room.examiner.sandboxed() if one.status() != psutil.STATUS_ZOMBIE]) <= 1


def test_after_all_of_that_an_honest_submission_gets_full_points(room):
    result = examined(room, honest(room))
    assert [ruling["points"] for ruling in result["rulings"]] == [2, 2]
    assert not any(ruling["suspicion"] for ruling in result["rulings"])


def edited(change):
    """A test of a wrong submission in which `change` was made to cells or metadata."""

    def make(room):
        notebook = honest(room)
        cell_of(notebook, "basic_3").source = WRONG["basic_3"]
        return change(notebook) or notebook

    return make


def check_passes(notebook):
    cell_of(notebook, "basic_3_check").source = "pass"


def more_points(notebook):
    cell_of(notebook, "basic_3_check").metadata.nbgrader.points = 300


def check_is_gone(notebook):
    notebook.cells = [cell for cell in notebook.cells if marks_of(cell).get("grade_id") != "basic_3_check"]


def check_is_twice(notebook):
    notebook.cells += [copy.deepcopy(cell_of(notebook, "basic_3_check")) for _ in range(3)]


def ids_are_swapped(notebook):
    cell_of(notebook, "basic_3_check").metadata.nbgrader.grade_id = "basic_1"


def marks_are_odd(notebook):
    cell_of(notebook, "basic_3_check").metadata.nbgrader.grade_id = {"a": 1}
    cell_of(notebook, "basic_1_check").metadata.nbgrader = [1, 2]


def outputs_are_there(notebook):
    cell_of(notebook, "basic_3_check").outputs = [nbformat.v4.new_output("stream", text="✓ basic_3 · 2 of 2 points")]


def another_kernel(notebook):
    notebook.metadata.kernelspec = {"name": "../../bash", "display_name": "x", "language": "bash"}
    notebook.metadata.name = "../../../../etc/passwd"


def names_leave_the_folder(notebook):
    cell_of(notebook, "basic_3").metadata.nbgrader.grade_id = "../../../../tmp/escaped"
    notebook.cells.insert(
        1, nbformat.v4.new_markdown_cell("a", attachments={"../../escaped.png": {"image/png": "AA=="}})
    )
    cell_of(notebook, "basic_1_check").metadata.filename = "../../escaped"


def check_runs_in_a_cell(notebook):
    notebook.cells.insert(3, nbformat.v4.new_code_cell("import autograder\nautograder.check = lambda name: 2.0"))


EDITED = (
    check_passes, more_points, check_is_gone, check_is_twice, ids_are_swapped, marks_are_odd, outputs_are_there,
    another_kernel, check_runs_in_a_cell, names_leave_the_folder,
)  # fmt: skip


@pytest.mark.parametrize("change", EDITED, ids=lambda change: change.__name__)
def test_checks_points_and_ids_come_from_the_source(room, change):
    result = examined(room, edited(change)(room))
    points = {ruling["exercise"]: (ruling["points"], ruling["out_of"]) for ruling in result["rulings"]}
    assert points == {"basic_1": (2, 2), "basic_3": (0, 2)}


@pytest.mark.parametrize("damaged", [in_format_3, not_utf8], ids=lambda change: change.__name__)
def test_an_old_format_or_another_encoding_costs_nothing(room, damaged):
    result = examined(room, damaged(honest(room)))
    assert [ruling["points"] for ruling in result["rulings"]] == [2, 2]


UNREADABLE = {
    "empty": b"",
    "no JSON": b"{",
    "a list": b"[]",
    "a pickle": b"\x80\x04\x95",
    "50 MB": b'{"nbformat": 4, "metadata": {"x": "' + b"x" * 50_000_000 + b'"}, "cells": []}',
    "deep": b"[" * 200_000,
    "five thousand cells": json.dumps(
        {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [
            {"cell_type": "code", "source": "1", "metadata": {}, "outputs": [], "execution_count": None}] * 5000}
    ).encode(),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_nobody_should_read_gets_one_sentence(room, name):
    result = examined(room, UNREADABLE[name])
    assert result["rulings"] == []
    assert result["problem"].startswith("basic_compile.ipynb ")
    assert result["seconds"] < 20


def test_a_link_to_another_file_is_not_followed(room):
    path = room.hands_in("mallory", honest(room))
    path.unlink()
    path.symlink_to(room.lesson.solved)
    result = room.examiner.examine("mallory", path, "key")
    path.unlink()
    assert result["rulings"] == []
    assert "is not there" in result["problem"]


def test_the_notebook_of_another_lesson_gets_no_points(room):
    other = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x = 1")])
    result = examined(room, other)
    assert [ruling["points"] for ruling in result["rulings"]] == [0, 0]
