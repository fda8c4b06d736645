"""`python -m autograder similar`: copied answers are found under new names, independent right answers are not."""

import argparse
import itertools
import re

import nbformat
import pytest

from autograder.build import lesson_named
from autograder.exercises import everything, find
from autograder.grading import similar
from autograder.grading.similar_pages import HINT, as_csv, as_page, left_out, show
from classroom import LESSON, SMALL_LESSON, cell_of, solve, unsolved

COPIED = find("timing_6").alternatives[1]
"""A right answer of more than a hundred parts."""


def likeness(one, other):
    parts = [similar.parts_of(code, find("timing_6").asks_for) for code in (one, other)]
    return similar.Indel.normalized_similarity(*parts)


def renamed(code):
    """Every name of the answer's own under another one, comments, a docstring, annotations, another layout."""
    import ast

    tree = ast.parse(code)
    own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for name in sorted(own, key=len, reverse=True):
        code = re.sub(rf"(?<![.\w\"']){name}\b(?!=)", f"my_{name}_2", code)
    lines = [line for text in code.splitlines() for line in ((text, "    # mine") if text.endswith(":") else (text,))]
    return "\n\n".join(lines)


def test_renaming_comments_and_layout_hide_nothing():
    other = renamed(COPIED)
    assert other != COPIED
    compile(other, "answer", "exec")
    assert likeness(COPIED, other) == 1


def test_texts_annotations_and_docstrings_are_not_compared():
    one = 'def choose(a: int) -> float:\n    """Mine."""\n    x: int = f"{a}"\n    return print("hello", x)'
    other = 'def choose(b):\n    y = f"other {b} text"\n    return print("good bye", y)'
    assert likeness(one, other) == 1


def test_what_is_called_and_which_numbers_stand_there_is_compared():
    assert likeness("x = torch.sin(y) + 2", "x = torch.sin(y) + 2") == 1
    assert likeness("x = torch.sin(y) + 2", "x = torch.cos(y) + 3") < 1


@pytest.mark.parametrize("exercise", everything(), ids=lambda exercise: exercise.name)
def test_students_who_find_the_right_answers_of_an_exercise_by_themselves_are_not_paired(exercise):
    released = nbformat.read(lesson_named(exercise.lesson).learner, as_version=4)
    given = similar._given(exercise, released)
    answers = [
        similar.Written(f"student {number}", code, similar.parts_of(code, exercise.asks_for, given))
        for number, code in enumerate(exercise.alternatives)
    ]
    report = similar.Report()
    similar.compare(exercise, answers, given, similar.THRESHOLD, report)
    assert report.pairs == []


def test_right_answers_are_hardly_ever_near_each_other_so_that_the_threshold_means_something():
    near = [
        found
        for exercise in everything()
        for one, other in itertools.combinations(exercise.alternatives, 2)
        if (found := between(exercise, one, other)) is not None
    ]
    assert len(near) > 20
    assert sum(found >= similar.THRESHOLD for found in near) <= len(near) / 20


def between(exercise, one, other):
    """How alike two answers are; None if one is too short."""
    parts = [similar.parts_of(code, exercise.asks_for) for code in (one, other)]
    return similar.Indel.normalized_similarity(*parts) if min(map(len, parts)) >= similar.SHORTEST else None


OWN = """def load_checkpoint(model, state):
    wanted = list(model.state_dict().keys())
    kept = {}
    for position, (name, tensor) in enumerate(sorted(state.items())):
        parts = [part for part in name.split(".") if part != "_orig_mod"]
        kept[".".join(parts)] = tensor.clone() if position < 10_000 else tensor
    assert set(kept) == set(wanted), (sorted(kept), wanted)
    prefixed = {key: kept[key.replace("_orig_mod.", "")] for key in wanted}
    return model.load_state_dict(prefixed, strict=True)"""
THEIRS = OWN.replace("kept", "mine").replace("wanted", "names").replace("position", "i").replace("part ", "p ")
THEIRS = THEIRS.replace("[part ", "[p ").replace("for part", "for p").replace("    mine = {}", "    mine = {}  # new\n")


@pytest.fixture(scope="module")
def lesson(classroom):
    """ann and bob share an answer under other names, cat hands in the model answer, dan something unreadable."""
    classroom.teaches(SMALL_LESSON)
    for student, code in {"ann": OWN, "bob": THEIRS, "cat": None}.items():
        notebook = solve(unsolved(classroom.lesson), classroom.lesson)
        if code:
            cell_of(notebook, "basic_3").source = code
        classroom.hands_in(student, notebook)
    classroom.hands_in("dan", b"{no json")
    return classroom.lesson


def test_a_copied_answer_is_found_and_nobody_else_is(lesson):
    report = similar.similar(lesson)
    assert [(pair.exercise, pair.one.student, pair.other.student) for pair in report.pairs] == [
        ("basic_3", "ann", "bob")
    ]
    assert report.unread == ["dan"]
    assert report.short["basic_2"] == 3


def test_two_who_found_the_courses_own_answer_are_only_counted():
    exercise, report = find("timing_6"), similar.Report()
    parts = similar.parts_of(COPIED, exercise.asks_for)
    answers = [similar.Written(name, COPIED, parts) for name in ("ann", "bob")]
    similar.compare(exercise, answers, set(), similar.THRESHOLD, report)
    assert report.pairs == []
    assert report.known == {"timing_6": 1}


def test_table_csv_and_page_name_the_pair_and_say_that_it_is_a_hint(lesson, capsys, tmp_path):
    arguments = argparse.Namespace(
        lesson=LESSON,
        course=str(lesson.root),
        only=None,
        threshold=0.9,
        csv=tmp_path / "a.csv",
        page=tmp_path / "a.html",
    )
    assert similar.main(arguments) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(r"basic_3 +\d+% +ann +bob", said)
    assert "A hint, not a verdict" in said
    assert "too short to compare" in said
    head, line = (tmp_path / "a.csv").read_text().splitlines()
    assert head == "exercise,alike,student,other"
    assert re.fullmatch(r"basic_3,[01]\.\d+,ann,bob", line)
    page = (tmp_path / "a.html").read_text()
    assert "def load_checkpoint(model, state):" in page
    assert HINT in page


def test_what_a_student_wrote_is_text_on_the_page(lesson):
    evil = similar.Written("<b>eve</b>", "x = '</pre><script>'", ("a",))
    report = similar.Report([similar.Pair("basic_1", 1.0, evil, evil)])
    page = as_page(lesson, report)
    assert "<script" not in page
    assert "<b>eve" not in page


def test_no_pair_is_said(lesson, capsys):
    show(lesson, similar.Report())
    assert "No two answers in 01_basic_compile are nearly the same." in capsys.readouterr().out
    assert left_out(similar.Report(unread=["dan"])) == ["Not readable: dan."]
    assert as_csv(similar.Report()).count("\n") == 1
