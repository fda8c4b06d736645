"""What learners hand in by accident: one sentence for the instructor, nothing lost, everybody graded in one run."""

import copy
import json

import nbformat
import pytest

from classroom import LESSON, SMALL_LESSON, cell_of, marks_of, points_of, read_text, solve, unsolved

ALL = {"basic_1_check": 2, "basic_2_check": 2, "basic_3_check": 2}


def without_cells(notebook, *grade_ids):
    notebook.cells = [cell for cell in notebook.cells if marks_of(cell).get("grade_id") not in grade_ids]
    return notebook


def copied(notebook):
    """A check, and an exercise: copied and pasted in JupyterLab, which gives the copy a new id."""
    for name in ("basic_1_check", "basic_2"):
        cell = cell_of(notebook, name)
        twin = copy.deepcopy(cell)
        twin.id = f"{name}-copy"
        notebook.cells.insert(notebook.cells.index(cell), twin)
    return notebook


def from_another_lesson(notebook):
    cell = copy.deepcopy(cell_of(notebook, "basic_1_check"))
    cell.id, cell.metadata.nbgrader.grade_id = "modes_1_check", "modes_1_check"
    notebook.cells.append(cell)
    return notebook


def deleted(notebook):
    """All checks, and an exercise whose function the learner wrote in a cell of their own, further down."""
    own = nbformat.v4.new_code_cell(cell_of(notebook, "basic_2").source)
    notebook = without_cells(notebook, "basic_1_check", "basic_2", "basic_2_check", "basic_3_check")
    notebook.cells.append(own)
    return notebook


def in_format_3(notebook):
    cells = [
        {"cell_type": "code", "input": c.source, "metadata": c.metadata, "outputs": [], "language": "python"}
        for c in notebook.cells
        if c.cell_type == "code"
    ]
    return json.dumps({"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": cells}]})


def with_answer(notebook, name, source):
    cell_of(notebook, name).source = source
    return notebook


EXITS = "import os\ndef compiled_ways(ways, x):\n    os._exit(3)"
CRASHES = """import sys
class Endless:
    def __repr__(self):
        return repr(self)
def load_checkpoint(model, state):
    sys.setrecursionlimit(10**9)
    repr(Endless())"""

HANDED_IN = {
    "ann_copied": lambda n: copied(n),
    "bob_deleted": lambda n: deleted(n),
    "cid_foreign": lambda n: from_another_lesson(n),
    "dot_cut_off": lambda n: nbformat.writes(n).encode()[:900],
    "eve_format_3": lambda n: in_format_3(n).encode(),
    "fay_not_utf8": lambda n: nbformat.writes(with_umlaut(n)).encode("cp1252"),
    "gus_exits": lambda n: with_answer(n, "basic_2", EXITS),
    "hal_crashes": lambda n: with_answer(n, "basic_3", CRASHES),
    "ian_renamed": lambda n: n,
    "zoe_honest": lambda n: n,
}


def with_umlaut(notebook):
    notebook.cells.append(nbformat.v4.new_markdown_cell("Grüße"))
    return notebook


@pytest.fixture(scope="module")
def graded(classroom):
    """Everybody's submission autograded by one command, which must succeed; `said` is what it printed."""
    classroom.teaches(SMALL_LESSON)
    classroom.nbgrader("generate_assignment", "--force", LESSON)
    classroom.raw = {}
    for student, damage in HANDED_IN.items():
        name = "basic_compile (1).ipynb" if student == "ian_renamed" else None
        path = classroom.hands_in(student, damage(solve(unsolved(classroom.lesson), classroom.lesson)), name)
        classroom.raw[student] = path.read_bytes()
    classroom.said = classroom.nbgrader("autograde", LESSON)
    classroom.nbgrader("generate_feedback", LESSON)
    return classroom


def sentences(classroom, student):
    """What the instructor is told about one student."""
    lines = [line.split("WARNING] ")[-1] for line in classroom.said.splitlines() if "WARNING]" in line]
    return [line.removeprefix(f"{student}: ") for line in lines if line.startswith(f"{student}: ")]


def test_the_small_lesson_has_the_points_that_these_tests_count_on(graded):
    assert points_of(unsolved(graded.lesson)) == ALL


@pytest.mark.parametrize(
    ("student", "says"),
    [
        ("ann_copied", ["basic_2 is there more than once", "basic_1_check is there more than once"]),
        ("bob_deleted", [f"basic_{n}_check was deleted; it was put back at the end" for n in (1, 2, 3)]),
        ("cid_foreign", ["modes_1_check belongs to no exercise of this lesson"]),
        ("eve_format_3", ["basic_compile.ipynb was saved in notebook format 3. It was mended and loses no points"]),
        ("fay_not_utf8", ["basic_compile.ipynb was not saved as UTF-8. It was mended and loses no points"]),
        ("ian_renamed", ['there is no basic_compile.ipynb; "basic_compile (1).ipynb" is graded in its place']),
        ("zoe_honest", []),
    ],
)
def test_a_slip_costs_no_points_and_is_one_sentence(graded, student, says):
    assert graded.scores(student) == ALL
    said = sentences(graded, student)
    assert len(said) == len(says)
    for sentence, fragment in zip(said, says, strict=True):
        assert fragment in sentence


def test_an_unreadable_file_gets_0_points_and_feedback_that_says_what_to_do(graded):
    assert graded.scores("dot_cut_off") == dict.fromkeys(ALL, 0)
    (sentence,) = sentences(graded, "dot_cut_off")
    assert sentence.startswith("basic_compile.ipynb is not valid JSON from line ")
    feedback = read_text(graded.feedback("dot_cut_off"))
    assert "nothing in it could be checked" in feedback
    assert "submit it again" in feedback


@pytest.mark.parametrize(("student", "deadly"), [("gus_exits", "basic_2"), ("hal_crashes", "basic_3")])
def test_an_answer_that_ends_the_kernel_loses_its_own_points_only(graded, student, deadly):
    assert graded.scores(student) == {**ALL, f"{deadly}_check": 0}
    (sentence,) = sentences(graded, student)
    assert sentence.startswith(f'check("{deadly}") ended the Python process, so it was left out.')
    assert f'check("{deadly}") ended the Python process' in read_text(graded.feedback(student))


def test_what_was_handed_in_is_kept_byte_for_byte(graded):
    for student, raw in graded.raw.items():
        folder = graded.submission(student).parent
        assert raw in [path.read_bytes() for path in folder.iterdir()], student


def test_nobody_else_receives_the_kept_files(graded):
    kept = [path for path in graded.root.rglob("*.original")]
    assert {path.parents[2].name for path in kept} == {"submitted"}
    assert len(kept) == 3


def test_nothing_waits_for_a_person(graded):
    for student in HANDED_IN:
        assert not [grade for grade in graded.grades(student).values() if grade.waits_for_a_person]


def test_grading_again_changes_nothing_and_says_the_same_of_cells(graded):
    before = graded.grades("ann_copied")
    again = graded.nbgrader("autograde", LESSON, "--force", "--student=ann_copied")
    assert "basic_1_check is there more than once" in again
    assert graded.grades("ann_copied") == before


def test_validate_tells_a_student_which_checks_fail(graded):
    solved, open_ = graded.students / "solved.ipynb", graded.students / "open.ipynb"
    nbformat.write(solve(unsolved(graded.lesson), graded.lesson), solved)
    nbformat.write(solve(unsolved(graded.lesson), graded.lesson, "basic_1"), open_)
    assert "Success!" in graded.nbgrader("validate", str(solved))
    said = graded.nbgrader("validate", str(open_))
    assert "FAILED ON 2 CELL" in said
    assert "compiled_ways is still to be written" in said
