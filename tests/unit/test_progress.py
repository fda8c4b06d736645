"""Progress: what was checked and hinted, for the learner and for a class."""

import json

import pytest

from autograder import progress as page
from autograder.__main__ import main
from autograder.exercises import everything
from autograder.standing import NOTE, class_page, class_table, events, note_event, standings

FIRST, SECOND = everything()[:2]


@pytest.fixture
def lesson(tmp_path, monkeypatch):
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    folder = tmp_path / "my" / FIRST.lesson
    folder.mkdir(parents=True)
    return folder


def standing_of(folder, exercise=FIRST):
    return next(one for one in standings(events(folder.parent)) if one.exercise is exercise)


def test_checks_until_the_first_pass_and_hints_are_counted(lesson):
    for event in ("failed", "hint", "hint", "failed", "passed", "failed", "passed"):
        note_event(FIRST, event, lesson)
    one = standing_of(lesson)
    assert (one.passed, one.checks, one.hints, one.points) == (True, 3, 2, FIRST.points)
    assert one.words() == "passed at check 3, 2 hints"
    assert standing_of(lesson, SECOND).words() == "not tried yet"


def test_nothing_is_noted_outside_the_lessons_folder_or_while_nbgrader_grades(lesson, tmp_path, monkeypatch):
    note_event(FIRST, "passed", tmp_path)
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    note_event(FIRST, "passed", lesson)
    assert not [*tmp_path.rglob(NOTE)]


def test_a_broken_line_and_an_unwritable_folder_lose_nothing_else(lesson):
    note_event(FIRST, "passed", lesson)
    with (lesson / NOTE).open("a") as file:
        file.write('{"exercise": "basi\n[]\n')
    note_event(SECOND, "failed", lesson)
    assert standing_of(lesson).passed
    assert standing_of(lesson, SECOND).checks == 1
    note_event(FIRST, "failed", lesson.parent / "missing" / FIRST.lesson)


def test_the_page_and_its_text_say_the_same(lesson):
    note_event(FIRST, "passed", lesson)
    view = page(lesson.parent)
    whole = sum(exercise.points for exercise in everything())
    assert view.title == f"{FIRST.points} of {whole} points"
    for exercise in everything():
        assert exercise.name in view.html
        assert exercise.name in view.text
    assert "passed at check 1" in view.text


def test_a_class_is_one_line_a_student_with_what_they_are_stuck_on(tmp_path, capsys):
    for student, event in (("ada", "passed"), ("bob", "failed")):
        folder = tmp_path / student / FIRST.lesson
        folder.mkdir(parents=True)
        note_event(FIRST, event, folder)
    ada, bob = class_table(tmp_path).splitlines()
    assert ada.startswith("ada")
    assert f"{FIRST.points} of" in ada
    assert "not yet" not in ada
    assert f"not yet: {FIRST.name}" in bob
    assert main(["progress", str(tmp_path), "--class"]) == 0
    assert capsys.readouterr().out.splitlines() == [ada, bob]


def test_the_page_opens_the_lessons_that_were_tried_and_sums_each(lesson):
    note_event(FIRST, "passed", lesson)
    html = page(lesson.parent).html
    whole = sum(exercise.points for exercise in everything() if exercise.lesson == FIRST.lesson)
    assert f"<details open><summary>{FIRST.lesson}: {FIRST.points} of {whole} points</summary>" in html
    assert html.count("<details open>") == 1
    assert html.count("<details") == len({exercise.lesson for exercise in everything()})


def test_a_page_for_the_class_has_each_student_and_how_each_exercise_went(tmp_path, capsys):
    for student, made in (("<ada>", ("failed", "hint", "passed")), ("bob", ("failed",))):
        folder = tmp_path / "class" / student / FIRST.lesson
        folder.mkdir(parents=True)
        for event in made:
            note_event(FIRST, event, folder)
    view = class_page(tmp_path / "class")
    assert view.title == "2 students"
    assert "&lt;ada&gt;" in view.html
    row = f"<td>{FIRST.name}</td><td class=num>2</td><td class=num>1</td><td class=num>2.0</td><td class=num>1</td>"
    assert row in view.html
    assert view.text.splitlines()[1:3] == class_table(tmp_path / "class").splitlines()
    assert main(["progress", str(tmp_path / "class"), "--class", "--html", str(tmp_path / "page.html")]) == 0
    assert "2 students" in (tmp_path / "page.html").read_text()
    assert "page.html: 2 students" in capsys.readouterr().out


def test_a_class_without_students_is_one_sentence(tmp_path, capsys):
    assert main(["progress", str(tmp_path), "--class"]) == 1
    assert "collect first" in capsys.readouterr().err


def test_a_check_notes_itself(lesson, monkeypatch):
    from autograder import check, hint
    from autograder.learner import CheckFailed

    monkeypatch.chdir(lesson)
    with pytest.raises(CheckFailed):
        check(FIRST.name, {})
    hint(FIRST.name)
    noted = [json.loads(line)["event"] for line in (lesson / NOTE).read_text().splitlines()]
    assert noted == ["failed", "hint"]
