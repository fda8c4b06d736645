"""`python -m autograder grade`: what nbgrader autograde gives, in a sandbox, and through every crash."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import nbformat
import pytest

from classroom import COURSE, LESSON, ROOT, SMALL_LESSON, cell_of, marks_of, solve, unsolved

_FIRST, _, _REST = SMALL_LESSON.partition('# %% exercise="basic_2"')
TWO_EXERCISES = _FIRST + "# %% exercise=" + _REST.rpartition("# %% exercise=")[2]
SECRET = {"COURSE_SECRET": "nobody-knows-this"}
NOISE = '\nimport sys, warnings\nprint("printed by the answer")\nwarnings.warn("a warning", stacklevel=1)\n'


def solved(lesson):
    return solve(unsolved(lesson), lesson)


def half(lesson):
    return solve(unsolved(lesson), lesson, "basic_3")


def noisy(lesson):
    notebook = solved(lesson)
    cell_of(notebook, "basic_3").source += NOISE
    return notebook


def wrong(lesson):
    notebook = solved(lesson)
    cell_of(notebook, "basic_3").source = "def load_checkpoint(model, state):\n    model.load_state_dict(state)"
    return notebook


def in_another_cell(lesson):
    """Helpers, an import and a constant in cells of their own, and a setting that defines no name."""
    notebook = solved(lesson)
    cell = cell_of(notebook, "basic_3")
    own = ["MARK = '_orig_mod.'", "from collections import OrderedDict", "settings = {}", "settings['mark'] = MARK"]
    cell.source = cell.source.replace('"_orig_mod."', "settings['mark']")
    at = notebook.cells.index(cell)
    notebook.cells[at:at] = [nbformat.v4.new_code_cell(source) for source in own]
    return notebook


HONEST = {"ann": solved, "bob": half, "dot": noisy, "eve": wrong, "fay": in_another_cell}
SUBMISSION = ("score", "max_score", "needs_manual_grade", "timestamp", "late_submission_penalty")
GRADE = ("auto_score", "manual_score", "extra_credit", "score", "max_score", "needs_manual_grade")


def grade(classroom, *options, **more):
    """Run the command in `classroom`; the finished process."""
    command = [
        sys.executable,
        "-m",
        "autograder",
        "grade",
        LESSON,
        f"--course={classroom.root}",
        "--workers=1",
        *options,
    ]
    return subprocess.run(
        command, env={**classroom.env, **SECRET, **more}, cwd=ROOT, capture_output=True, text=True, timeout=500
    )


@pytest.fixture(scope="module")
def both(classroom, sandbox):
    """The same submissions graded by nbgrader autograde (`by_nbgrader`) and by us."""
    classroom.teaches(TWO_EXERCISES)
    classroom.nbgrader("generate_assignment", "--force", LESSON)
    for student, handed_in in HONEST.items():
        path = classroom.hands_in(student, handed_in(classroom.lesson))
        (path.parent / "notes.txt").write_text("a file of mine")
    other, classroom.before = (classroom.root.parent / name for name in ("by_nbgrader", "before"))
    for copy in (other, classroom.before):
        shutil.copytree(classroom.root, copy)
    here, classroom.root = classroom.root, other
    classroom.nbgrader("autograde", LESSON, **SECRET)
    classroom.root, classroom.by_nbgrader = here, other
    classroom.done = grade(classroom)
    assert classroom.done.returncode == 0, classroom.done.stdout + classroom.done.stderr
    return classroom


def rows(root):
    """Everything that nbgrader's gradebook says of each submission, but for ids and the moment of grading."""
    from nbgrader.api import Gradebook

    found = {}
    with Gradebook(f"sqlite:///{root}/work/gradebook.db", COURSE) as gradebook:
        for submission in gradebook.assignment_submissions(LESSON):
            (notebook,) = submission.notebooks
            found[submission.student.id] = {
                "submission": [getattr(submission, name) for name in SUBMISSION],
                "grades": {grade.name: [getattr(grade, name) for name in GRADE] for grade in notebook.grades},
                "comments": {c.name: (c.auto_comment, c.manual_comment) for c in notebook.comments},
            }
    return found


def test_the_gradebook_is_what_nbgrader_autograde_makes_field_by_field(both):
    ours, theirs = rows(both.root), rows(both.by_nbgrader)
    assert set(ours) == set(HONEST)
    assert ours == theirs
    assert {student: row["submission"][0] for student, row in ours.items()} == {
        "ann": 4, "bob": 2, "dot": 4, "eve": 2, "fay": 4,
    }  # fmt: skip


def test_autograded_holds_the_same_files_cells_metadata_and_verdicts(both):
    for student in HONEST:
        ours, theirs = (root / "work" / "autograded" / student / LESSON for root in (both.root, both.by_nbgrader))
        names = sorted(path.relative_to(ours) for path in ours.rglob("*"))
        assert names == sorted(path.relative_to(theirs) for path in theirs.rglob("*"))
        mine, its = (nbformat.read(folder / "basic_compile.ipynb", as_version=4) for folder in (ours, theirs))
        for one, other in zip(mine.cells, its.cells, strict=True):
            assert (one.cell_type, one.source, marks_of(one)) == (other.cell_type, other.source, marks_of(other))
            if marks_of(one).get("grade"):
                assert shown(one) == shown(other)


def shown(cell):
    """What a student reads in a check cell, without numbers: inputs are drawn from one secret, timings are not."""
    (output,) = cell.outputs
    return output.get("text") or (output.ename, output.evalue)


def test_feedback_goes_on_from_there(both):
    both.nbgrader("generate_feedback", LESSON)
    assert "every weight has its place" in both.feedback("eve")
    assert "printed by the answer" in both.feedback("dot")


def test_the_same_command_again_grades_nothing(both):
    before = rows(both.root)
    again = grade(both)
    assert again.returncode == 0
    assert f"{len(HONEST)} of {len(HONEST)} submissions are graded already" in again.stdout
    assert rows(both.root) == before


def test_regrading_one_keeps_a_manual_score(both):
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{both.root}/work/gradebook.db", COURSE) as gradebook:
        gradebook.find_grade("basic_3_check", both.lesson.topic, LESSON, "eve").manual_score = 1
        gradebook.db.commit()
    assert grade(both, "--regrade", "--only", "eve").returncode == 0
    assert rows(both.root)["eve"]["grades"]["basic_3_check"][:2] == [0, 1]


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


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda root: shutil.rmtree(root / "work" / "submitted"), "is empty. Run: nbgrader collect 01_basic_compile"),
        (lambda root: (root / "work" / "gradebook.db").unlink(), "Run: nbgrader generate_assignment 01_basic_compile"),
        (lambda root: (root / "work" / "gradebook.db").write_bytes(b"x" * 9999), "gradebook cannot be opened"),
    ],
)
def test_bad_input_gets_one_clear_sentence(both, tmp_path, damage, says):
    here, both.root = both.root, tmp_path / "course"
    shutil.copytree(both.before, both.root)
    try:
        damage(both.root)
        done = grade(both)
    finally:
        both.root = here
    assert done.returncode == 1
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_an_unknown_lesson_and_a_machine_without_a_sandbox_get_one_sentence(both):
    command = [sys.executable, "-m", "autograder", "grade", "01_basic_complie", f"--course={both.root}"]
    done = subprocess.run(command, env=both.env, cwd=ROOT, capture_output=True, text=True)
    assert done.stderr == 'There is no lesson "01_basic_complie". Did you mean 01_basic_compile?\n'
    done = grade(both, PATH="/nowhere")
    assert done.returncode == 1
    assert done.stderr.startswith("There is no sandbox on this machine. Install bubblewrap")
    assert "--no-sandbox" in done.stderr
