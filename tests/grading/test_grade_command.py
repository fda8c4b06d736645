"""`python -m autograder grade`: what nbgrader autograde gives, in a sandbox, and through every crash."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from classroom import COURSE, LESSON, ROOT
from honest import LATE
from parity import PLAIN, SECRET, SUBMISSION, books, differences, grade, graded_twice, rows

HONEST = {
    "all_right": 4,
    "untouched": 0,
    "wrong_and_right": 2,
    "another_way": 4,
    "noisy": 4,
    "helpers_above": 4,
    "answered_below_its_check": 2,
    "notes": 4,
}
"""Eight of the submissions in honest.py, and the points that they are worth; `make grade-parity` compares them all."""


@pytest.fixture(scope="module")
def both(classroom, sandbox):
    """The same submissions graded by nbgrader autograde (`by_nbgrader`), as nbgrader runs it, and by us."""
    graded_twice(classroom, HONEST, PLAIN)
    classroom.books = books(classroom)
    return classroom


def test_the_gradebook_is_what_nbgrader_autograde_makes_field_by_field(both):
    ours, theirs = both.books
    assert ours == theirs
    assert {student: row["submission"][0] for student, row in ours.items()} == HONEST


def test_a_late_submission_gets_the_penalty_that_the_instructor_chose(both):
    penalty = SUBMISSION.index("late_submission_penalty")
    penalties = {student: row["submission"][penalty] for student, row in both.books[0].items()}
    assert {student: points for student, points in penalties.items() if points} == {LATE: HONEST[LATE]}


@pytest.mark.parametrize("student", HONEST)
def test_gradebook_and_autograded_files_do_not_differ(both, student):
    assert list(differences(both, student, both.books)) == []


def test_feedback_goes_on_from_there(both):
    both.nbgrader("generate_feedback", LESSON)
    assert "every weight has its place" in both.feedback("wrong_and_right")
    assert "printed by the answer" in both.feedback("noisy")


def test_the_same_command_again_grades_nothing(both):
    before = rows(both.root)
    again = grade(both)
    assert again.returncode == 0
    assert f"{len(HONEST)} of {len(HONEST)} submissions are graded already" in again.stdout
    assert rows(both.root) == before


def test_regrading_one_keeps_a_manual_score(both):
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{both.root}/work/gradebook.db", COURSE) as gradebook:
        gradebook.find_grade("basic_3_check", both.lesson.topic, LESSON, "wrong_and_right").manual_score = 1
        gradebook.db.commit()
    assert grade(both, "--regrade", "--only", "wrong_and_right").returncode == 0
    assert rows(both.root)["wrong_and_right"]["grades"]["basic_3_check"][:2] == [0, 1]


def test_status_names_everybody(both):
    command = [sys.executable, "-m", "autograder", "status", LESSON, f"--course={both.root}"]
    done = subprocess.run(command, env=both.env, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert f"{len(HONEST)} of {len(HONEST)} graded" in done.stdout
    assert "2 / 4" in done.stdout


def journal_of(root):
    """The events so far: [(state, student), …]."""
    path = root / "work" / "grading" / LESSON / "journal.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(json.loads(line)["state"], json.loads(line)["student"]) for line in lines if line.endswith("}")]


def begin(classroom):
    command = [sys.executable, "-m", "autograder", "grade", LESSON, f"--course={classroom.root}", "--workers=1"]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, env={**classroom.env, **SECRET}, cwd=ROOT, **silent)


def wait_for(condition, process, seconds=200):
    until = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, "the grader ended before it was killed"
        assert time.monotonic() < until
        time.sleep(0.05)


def family(pid):
    """`pid` and everything below it."""
    import psutil

    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


def kill_when(classroom, ripe):
    """Begin to grade, and kill the grader once ``ripe(its pid, how many new events the journal has)``."""
    before = len(journal_of(classroom.root))
    process = begin(classroom)
    wait_for(lambda: ripe(process.pid, len(journal_of(classroom.root)) - before), process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def test_killed_again_and_again_the_same_command_gives_the_same_gradebook(both, tmp_path):
    here, both.root = both.root, tmp_path / "course"
    shutil.copytree(both.before, both.root)
    try:
        kill_when(both, lambda pid, _: len(family(pid)) > 3)
        kill_when(both, lambda _, new: new > 0)
        kill_when(both, lambda _, new: new > 1)
        cut = both.root / "work" / "grading" / LESSON / "journal.jsonl"
        cut.write_text(cut.read_text() + '{"state": "writ')  # the machine went down in the middle of a line
        process, before = begin(both), len(journal_of(both.root))
        wait_for(lambda: len(journal_of(both.root)) > before, process)
        for pid in family(process.pid)[1:]:  # every worker and its sandbox, but not the grader
            os.kill(pid, signal.SIGKILL)
        assert process.wait(timeout=300) == 0
        assert rows(both.root) == rows(both.by_nbgrader)
        written = [student for state, student in journal_of(both.root) if state == "written"]
        assert sorted(set(written)) == sorted(HONEST)
        judged = [student for state, student in journal_of(both.root) if state == "judged"]
        assert len(judged) == len(set(judged))
    finally:
        both.root = here


def test_two_graders_at_once_get_one_sentence(both):
    from autograder.grading.journal import Journal

    with Journal(both.lesson).held():
        done = grade(both)
    assert done.returncode == 1
    assert done.stderr.startswith("Another grader is at work on 01_basic_compile.")
    assert len(done.stderr.splitlines()) == 1


def appended(name, text):
    """A damage: more text in a file of the course."""

    def damage(root):
        with (root / name).open("a") as file:
            file.write(text)

    return damage


def sql(*statements):
    """Damage that runs SQL on the gradebook; what it returns keeps the connection, and with it a lock."""

    def damage(root):
        book = sqlite3.connect(root / "work" / "gradebook.db", isolation_level=None)
        for statement in statements:
            book.execute(statement)
        return book

    return damage


BAD = {
    "nobody handed in": (
        lambda root: shutil.rmtree(root / "work" / "submitted"),
        "is empty. Run: nbgrader collect 01_basic_compile",
    ),
    "no gradebook": (
        lambda root: (root / "work" / "gradebook.db").unlink(),
        "Run: nbgrader generate_assignment --force 01_basic_compile",
    ),
    "an empty gradebook": (
        sql("DELETE FROM notebook"),
        "Run: nbgrader generate_assignment --force 01_basic_compile",
    ),
    "no database": (
        lambda root: (root / "work" / "gradebook.db").write_bytes(b"x" * 9999),
        "gradebook cannot be opened: ",
    ),
    "locked": (
        sql("BEGIN EXCLUSIVE"),
        "gradebook is locked by another program. Close it and run the same command again",
    ),
    "an older nbgrader": (
        sql("ALTER TABLE student DROP COLUMN lms_user_id"),
        "another version of nbgrader: student has no lms_user_id. Back it up, then run: nbgrader db upgrade.",
    ),
    "an unreadable configuration": (
        appended("nbgrader_config.py", "c.LateSubmissionPlugin.penalty_method = zero\n"),
        "nbgrader_config.py cannot be read: NameError: name 'zero' is not defined. Mend it.",
    ),
    "a newer nbgrader": (
        sql("UPDATE alembic_version SET version_num = 'ffffffffffff'"),
        "another version of nbgrader: revision ffffffffffff is unknown to nbgrader ",
    ),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_input_gets_one_clear_sentence(both, tmp_path, bad):
    damage, says = BAD[bad]
    here, both.root = both.root, tmp_path / "course"
    shutil.copytree(both.before, both.root)
    try:
        kept = damage(both.root)
        done = grade(both)
        del kept
    finally:
        both.root = here
    assert done.returncode == 1
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_a_missing_secret_is_named_before_grading(both, tmp_path):
    here, both.root = both.root, tmp_path / "course"
    shutil.copytree(both.before, both.root)
    try:
        said = [grade(both, "--only", "untouched", **secret).stdout for secret in ({"COURSE_SECRET": ""}, {})]
    finally:
        both.root = here
    assert ["COURSE_SECRET is not set" in one for one in said] == [True, False]


def test_a_full_disk_gets_one_sentence_and_the_same_command_later_goes_on(both, tmp_path):
    here, both.root = both.root, tmp_path / "course"
    shutil.copytree(both.before, both.root)
    room = both.root / "work" / "grading"
    room.mkdir()
    small = ["bwrap", "--dev-bind", "/", "/", "--size", "4096", "--tmpfs", str(room)]
    try:
        done = grade(both, "--no-sandbox", "--only", "all_right", within=small)
        assert done.returncode == 1
        (sentence,) = [line for line in done.stderr.splitlines() if "Cannot write" in line]
        assert sentence.endswith("No space left on device. Nothing is lost: make room and run the same command again.")
        assert "Traceback" not in done.stderr
        assert grade(both, "--only", "all_right").returncode == 0
        assert rows(both.root)["all_right"] == rows(here)["all_right"]
    finally:
        both.root = here


def test_an_unknown_lesson_and_a_machine_without_a_sandbox_get_one_sentence(both):
    command = [sys.executable, "-m", "autograder", "grade", "01_basic_complie", f"--course={both.root}"]
    done = subprocess.run(command, env=both.env, cwd=ROOT, capture_output=True, text=True)
    assert done.stderr == 'There is no lesson "01_basic_complie". Did you mean 01_basic_compile?\n'
    done = grade(both, PATH="/nowhere")
    assert done.returncode == 1
    assert done.stderr.startswith("There is no sandbox on this machine. Install bubblewrap")
    assert "--no-sandbox" in done.stderr
