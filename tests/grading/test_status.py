"""`python -m autograder status` and `plan`: how far a grading is, how fast, what is left; what a class would take."""

import argparse
import json
import threading
import time

import pytest

from autograder.build import Lesson
from autograder.errors import CourseError
from autograder.grading import plan, status
from autograder.grading.command import is_open
from autograder.grading.journal import Event, Journal

NAME = "01_basic_compile"
STUDENTS = ("ann", "bob", "cat", "dan", "[red]eve")


@pytest.fixture
def course(tmp_path):
    """Five students: three graded at 20 a minute, one judged, one failed; nobody else."""
    lesson = Lesson(NAME, tmp_path)
    (tmp_path / "solutions" / NAME).mkdir(parents=True)
    lesson.source.write_text("")
    for student in STUDENTS:
        (tmp_path / "work" / "submitted" / student / NAME).mkdir(parents=True)
    journal = Journal(lesson)
    with journal.held():
        for student in STUDENTS[:3]:
            keep(journal, student)
    began, lines = 1_700_000_000.0, []
    for number, student in enumerate(STUDENTS[:3]):
        for state, at in (("judged", began + 3 * number), ("written", began + 3 * number + 0.5)):
            lines.append({"state": state, "student": student, "key": "k", "at": at, "note": ""})
    (journal.folder / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return lesson


def keep(journal, student, suspicion=""):
    ruling = {"exercise": "basic_1", "points": 2, "out_of": 6, "suspicion": suspicion}
    journal.keep({"student": student, "key": "k", "rulings": [ruling], "problem": "", "seconds": 8.0})


def options(course, **more):
    return argparse.Namespace(lesson=NAME, course=str(course.root), watch=False, page=None, **more)


def test_progress_rate_and_time_left_come_from_the_journal(course):
    now = status.standing(course)
    assert now.line == "3 of 5 graded, 20 a minute, 0 min left"
    assert (now.done, now.of, now.ended) == (3, 5, False)
    many = [f"s{i}" for i in range(103)]
    events = {name: Event("written", name, "k", 1000.0 + 3 * i) for i, name in enumerate(many[:3])}
    assert status.progress_line(many, events).endswith("20 a minute, 5 min left")


def test_each_student_has_a_row_with_state_points_and_what_to_look_at(course):
    journal = Journal(course)
    keep(journal, "dan", suspicion="a wrong answer of ours passes")
    journal.note("failed", "[red]eve", "k", "The sandbox broke.")
    rows = {row[0]: row[1:] for row in status.standing(course).rows}
    assert rows["ann"] == ("graded", "2 / 6", "8.0", "")
    assert rows["dan"] == ("judged, not written yet", "2 / 6", "8.0", "look at basic_1")
    assert rows["[red]eve"] == ("failed", "", "", "The sandbox broke.")
    assert "1 failed" in status.standing(course).line


def test_the_terminal_and_the_page_show_the_same(course, capsys, tmp_path):
    page = tmp_path / "status.html"
    assert status.main(with_page(course, page)) == 0
    said, written = capsys.readouterr().out, page.read_text()
    for text in ("3 of 5 graded, 20 a minute", "ann", "graded", "2 / 6", "waits", "[red]eve"):
        assert text in said
        assert text in written
    assert '<progress max="5" value="3"' in written
    assert 'http-equiv="refresh"' in written
    assert "<script" not in written


def with_page(course, page, watch=False):
    made = options(course)
    made.page, made.watch = page, watch
    return made


def test_watching_ends_when_nobody_waits_and_the_page_is_then_the_last_one(course, tmp_path, monkeypatch):
    page, naps = tmp_path / "status.html", []

    def nap(_):
        naps.append(page.read_text().count("waits"))
        assert len(naps) < 9
        student = ("dan", "[red]eve")[len(naps) - 1]
        keep(Journal(course), student)
        Journal(course).note("written", student, "k")

    monkeypatch.setattr(status.time, "sleep", nap)
    assert status.main(with_page(course, page, watch=True)) == 0
    assert naps == [2, 1]
    assert "5 of 5 graded" in page.read_text()
    assert "refresh" not in page.read_text()


def test_status_reads_while_a_grader_writes(course):
    journal, stop = Journal(course), threading.Event()

    def write():
        while not stop.is_set():
            journal.note("judged", "dan", "k")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            assert status.standing(course).of == 5
    finally:
        stop.set()
        writer.join()


@pytest.mark.parametrize(
    ("event", "asked", "opened"),
    [
        (None, {}, True),
        (Event("written", "ann", "k", 1.0), {}, False),
        (Event("written", "ann", "another grader", 1.0), {}, True),
        (Event("written", "ann", "k", 1.0), {"regrade": True}, True),
        (Event("judged", "ann", "k", 1.0), {}, True),
        (Event("failed", "ann", "k", 1.0), {}, False),
        (Event("failed", "ann", "k", 1.0), {"retry": "failed"}, True),
        (Event("written", "ann", "k", 1.0), {"retry": "failed"}, False),
    ],
)
def test_what_is_graded_again(event, asked, opened):
    args = argparse.Namespace(**{"regrade": False, "retry": None} | asked)
    assert is_open(event, "k", args) is opened


def test_a_plan_is_computed_from_what_grading_took_here(course):
    figures = plan.measured([course])
    assert figures.figures == (plan.Figure(NAME, 3, 8.0, 0.5),)
    work, writer = plan.hours(figures, students=5000, lessons_in_all=8, workers=16)
    assert work == pytest.approx(5000 * 8 * 8.0 / 16 / 3600)
    assert writer == pytest.approx(5000 * 8 * 0.5 / 3600)
    text = plan.table(figures, 5000, 8, [2, 64])
    assert "| 2 | 44.4 | 5.6 | the workers |" in text
    assert "| 64 | 5.6 | 0.7 | the gradebook's one writer |" in text


def test_figures_go_through_a_file_and_nothing_measured_is_one_sentence(course, tmp_path):
    figures = plan.measured([course])
    figures.write(tmp_path / "figures.json")
    assert plan.Figures.read(tmp_path / "figures.json") == figures
    with pytest.raises(CourseError, match="Nothing was graded here yet"):
        plan.measured([Lesson("02_timing", course.root)])
    (tmp_path / "figures.json").write_text("[]")
    with pytest.raises(CourseError, match="holds no figures"):
        plan.Figures.read(tmp_path / "figures.json")
