"""Broken submissions: one sentence each, mended where possible, nothing lost. Whole classes: tests/grading."""

import argparse
import copy
import json
from pathlib import Path

import nbformat
import pytest

from autograder import preflight as module
from autograder.build import Lesson, build
from autograder.errors import CourseError
from autograder.mending import mend_cells
from autograder.preflight import Unreadable, before_autograde, mend_submission, preflight, read_submission

NAME = "01_basic_compile"
SOURCE = """# %%
from autograder import check
# %% exercise="basic_1"
def compile_report(metrics):
    ### BEGIN SOLUTION
    return metrics
    ### END SOLUTION
# %% check="basic_1"
check("basic_1")
# %% exercise="basic_2"
def compiled_ways(ways, x):
    ### BEGIN SOLUTION
    return ways
    ### END SOLUTION
# %% check="basic_2"
check("basic_2")
"""
ANSWER = "def compile_report(metrics):\n    return 'the answer of ünïcödé Ann'"


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    lesson = Lesson(NAME, tmp_path_factory.mktemp("course"))
    lesson.source.parent.mkdir(parents=True)
    lesson.source.write_text(SOURCE)
    build(lesson.root)
    return lesson


@pytest.fixture
def released(lesson):
    return nbformat.read(lesson.learner, as_version=4)


@pytest.fixture
def answered(released):
    """The learner's notebook with one answer in it."""
    released.cells[1].source = ANSWER
    return released


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "work" / "submitted" / "ann" / NAME
    folder.mkdir(parents=True)
    return folder


def text_of(notebook):
    return nbformat.writes(notebook)


def as_format_3(notebook):
    cells = [
        {"cell_type": "code", "input": c.source, "metadata": c.metadata, "outputs": [], "language": "python"}
        for c in notebook.cells
    ]
    return json.dumps({"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": cells}]})


def without_outputs(notebook):
    data = json.loads(text_of(notebook))
    for cell in data["cells"]:
        cell.pop("outputs", None)
    return json.dumps(data)


MENDED = {
    "a byte order mark": (lambda n: b"\xef\xbb\xbf" + text_of(n).encode(), "starts with a byte order mark"),
    "utf-16": (lambda n: text_of(n).encode("utf-16"), "was not saved as UTF-8"),
    "a Windows code page": (lambda n: text_of(n).encode("cp1252"), "was not saved as UTF-8"),
    "notebook format 3": (lambda n: as_format_3(n).encode(), "was saved in notebook format 3"),
    "cells without outputs": (lambda n: without_outputs(n).encode(), "has cells in a wrong form"),
}


@pytest.mark.parametrize("case", MENDED)
def test_a_file_that_nbgrader_cannot_read_is_mended_and_kept(case, answered, lesson, folder):
    damage, says = MENDED[case]
    path = folder / lesson.learner.name
    path.write_bytes(raw := damage(answered))
    (sentence,) = mend_submission(folder, lesson)
    assert sentence.startswith(f"basic_compile.ipynb {says}. It was mended and loses no points; the original is ")
    mended = nbformat.read(path, as_version=4)
    nbformat.validate(mended)
    assert [cell.source for cell in mended.cells] == [cell.source for cell in answered.cells]
    assert [c.metadata.get("nbgrader") for c in mended.cells] == [c.metadata.get("nbgrader") for c in answered.cells]
    (kept,) = folder.glob("*.original")
    assert kept.read_bytes() == raw
    assert kept.name in sentence
    assert list(mend_submission(folder, lesson)) == []


UNREADABLE = {
    "nothing": (b"", "is empty"),
    "white space": (b" \n", "is empty"),
    "cut off": (b'{\n"cells": [', "is not valid JSON from line 2 on"),
    "a merge conflict": (b'{\n<<<<<<< HEAD\n"cells": []\n=======\n', "is not valid JSON from line 2 on"),
    "a list": (b"[]", "is no notebook"),
    "other JSON": (b'{"a": 1}', "is no notebook"),
    "no cells": (b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "cannot be read as a notebook"),
    "a format to come": (b'{"nbformat": 9, "nbformat_minor": 0, "cells": []}', "cannot be read as a notebook"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_an_unreadable_file_becomes_the_lesson_under_a_note_and_is_kept(case, lesson, folder, released):
    raw, says = UNREADABLE[case]
    path = folder / lesson.learner.name
    path.write_bytes(raw)
    (sentence,) = mend_submission(folder, lesson)
    assert sentence.startswith(f"basic_compile.ipynb {says}")
    assert "0 points" in sentence
    note, *cells = nbformat.read(path, as_version=4).cells
    assert says in note.source
    assert "submit it again" in note.source
    assert [cell.source for cell in cells] == [cell.source for cell in released.cells]
    (kept,) = folder.glob("*.original")
    assert kept.read_bytes() == raw


def test_a_good_notebook_is_not_touched(answered, lesson, folder):
    path = folder / lesson.learner.name
    path.write_text(text := text_of(answered))
    assert list(mend_submission(folder, lesson)) == []
    assert path.read_text() == text
    assert list(folder.iterdir()) == [path]


def test_a_renamed_notebook_is_graded_and_the_hook_tells_nbgrader(answered, lesson, folder, monkeypatch, caplog):
    other = folder / "basic_compile (1).ipynb"
    other.write_text(text_of(answered))
    notebooks = [str(other)]
    monkeypatch.chdir(lesson.root)
    before_autograde(NAME, "*", notebooks)
    assert notebooks == [str(other), str(folder / lesson.learner.name)]
    assert 'ann: there is no basic_compile.ipynb; "basic_compile (1).ipynb" is graded in its place.' in caplog.text
    assert (folder / lesson.learner.name).read_bytes() == other.read_bytes()


def test_a_missing_notebook_is_said(lesson, folder):
    (folder / "poem.ipynb").write_text(text_of(nbformat.v4.new_notebook()))
    (folder / "broken.ipynb").write_text("{")
    assert list(mend_submission(folder, lesson)) == [
        "there is no basic_compile.ipynb. Ask for it, or it gets 0 points."
    ]


def test_preflight_goes_through_the_whole_class_and_a_locked_folder_is_one_sentence(tmp_path, lesson, monkeypatch):
    course = Lesson(NAME, tmp_path)
    course.learner.parent.mkdir(parents=True)
    course.learner.write_bytes(lesson.learner.read_bytes())
    for student, raw in {"ann": b"{", "bob": lesson.learner.read_bytes(), "cid": b"", "dot": b"["}.items():
        path = tmp_path / "work" / "submitted" / student / NAME / lesson.learner.name
        path.parent.mkdir(parents=True)
        path.write_bytes(raw)
    replace = module._replace

    def locked(path, notebook):
        if "dot" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return replace(path, notebook)

    monkeypatch.setattr(module, "_replace", locked)
    said = preflight(course)
    assert [sentence.split(":")[0] for sentence in said] == ["ann", "cid", "dot"]
    assert "Make the folder writable" in said[2]


def test_the_command_says_what_to_run_next(tmp_path, lesson, monkeypatch, capsys):
    monkeypatch.setattr(module, "ROOT", lesson.root)
    arguments = argparse.Namespace(lesson="1")
    with pytest.raises(CourseError, match="nbgrader collect 01_basic_compile"):
        module.main(arguments)
    path = lesson.root / "work" / "submitted" / "ann" / NAME / lesson.learner.name
    path.parent.mkdir(parents=True)
    path.write_text("{")
    assert module.main(arguments) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("ann: basic_compile.ipynb is not valid JSON")
    assert last == "1 submission can be graded: nbgrader autograde 01_basic_compile"


def cells_of(notebook):
    return [(cell.metadata.get("nbgrader", {}).get("grade_id"), cell.source) for cell in notebook.cells]


@pytest.fixture
def marked(released):
    return [copy.deepcopy(cell) for cell in released.cells if "nbgrader" in cell.metadata]


def test_a_notebook_as_released_has_nothing_to_mend(released, marked):
    before = copy.deepcopy(released)
    assert mend_cells(released, marked) == []
    assert released == before


@pytest.mark.parametrize("name", ["basic_1", "basic_1_check"])
def test_of_a_copied_cell_the_last_counts_and_the_others_are_plain_cells(name, answered, marked):
    index = [grade_id for grade_id, _ in cells_of(answered)].index(name)
    answered.cells.insert(0, copy.deepcopy(answered.cells[index]))
    sources = [cell.source for cell in answered.cells]
    assert mend_cells(answered, marked) == [f"{name} is there more than once; the last one counts."]
    assert "nbgrader" not in answered.cells[0].metadata
    assert answered.cells[index + 1].metadata.nbgrader.grade_id == name
    assert [cell.source for cell in answered.cells] == sources


def test_deleted_checks_come_back_at_the_end_and_a_deleted_exercise_does_not(answered, marked):
    answered.cells = [cell for cell in answered.cells if "nbgrader" not in cell.metadata]
    said = mend_cells(answered, marked)
    assert said == [f"{name} was deleted; it was put back at the end." for name in ("basic_1_check", "basic_2_check")]
    assert [name for name, _ in cells_of(answered) if name] == ["basic_1_check", "basic_2_check"]
    assert cells_of(answered)[-1] == ("basic_2_check", 'check("basic_2")')
    assert "`basic_2_check` was missing" in answered.cells[-2].source


def test_a_cell_of_another_lesson_is_a_plain_cell(answered, marked):
    foreign = copy.deepcopy(answered.cells[2])
    foreign.metadata.nbgrader.grade_id = "modes_1_check"
    answered.cells.append(foreign)
    assert mend_cells(answered, marked) == [
        "modes_1_check belongs to no exercise of this lesson; the cell runs and is not graded."
    ]
    assert "nbgrader" not in answered.cells[-1].metadata


@pytest.mark.parametrize("marks", [{}, "text", {"grade_id": "basic_1_check"}, {"schema_version": 1}, None])
def test_marks_that_a_tool_or_a_learner_spoiled_are_restored(marks, answered, marked):
    answered.cells[2].metadata.nbgrader = marks
    mend_cells(answered, marked)
    by_name = {c.metadata.nbgrader.grade_id: c for c in answered.cells if "nbgrader" in c.metadata}
    assert by_name["basic_1_check"].metadata.nbgrader == marked[1].metadata.nbgrader


def test_what_cannot_be_read_is_an_unreadable():
    with pytest.raises(Unreadable):
        read_submission(b"\xff\xfe\x00")


def test_nothing_of_this_machine_is_in_a_sentence(lesson, folder):
    (folder / lesson.learner.name).write_text("{")
    assert not [sentence for sentence in mend_submission(folder, lesson) if str(Path(folder).parent) in sentence]
