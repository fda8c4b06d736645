"""Plain `nbgrader autograde`: the same sandbox, the same scores, and verdicts that come from outside the notebook."""

import hashlib
import io
import subprocess
import sys
import threading

import nbformat
import pytest

from autograder.sandbox.kernel_inside import hold_back
from classroom import LESSON, cell_of, solve, unsolved
from honest import TWO_EXERCISES, WRONG_1, WRONG_3, hand_in

SECRET = {"COURSE_SECRET": "nobody-knows-this"}
ALL = {"basic_1_check": 2, "basic_3_check": 2}

REACHES_OUT = """
import os, pathlib, socket
root, reached = pathlib.Path("{root}"), []
for name in ("work/gradebook.db", "work/submitted/all_right", "solutions", "notebooks", "work/autograded"):
    for path in (root / name, pathlib.Path(name), pathlib.Path("../../..") / name):
        if path.exists():
            reached.append(str(path))
for address in ("1.1.1.1", "127.0.0.1", "169.254.169.254"):
    for port in (53, 80, 443):
        try:
            socket.create_connection((address, port), timeout=1)
            reached.append(address)
        except OSError:
            pass
for folder, _, files in os.walk("/"):
    if not folder.startswith(("/proc", "/sys", "/dev", "/usr")) and "site-packages" not in folder:
        reached += [name for name in files if name.endswith((".ipynb", ".db", ".jsonl"))]
for path in pathlib.Path("/course/autograder").rglob("*.py"):
    if "KnownMistake(" in path.read_text() or "def judge(asked" in path.read_text():
        reached.append(path.name)
reached += [value for value in os.environ.values() if "nobody-knows" in value]
for name in ("/usr/mine", "/course/mine", "/mine"):
    try:
        open(name, "w")
        reached.append(name)
    except OSError:
        pass
print("reached", reached, "others", [p for p in os.listdir("/proc") if p.isdigit() and int(p) > 3])
"""
TRICKS = """
from IPython.display import display
import autograder
get_ipython().input_transformers_post.append(lambda lines: ["2.0\\n"])
autograder.check = check = lambda name: 2.0
display({"text/plain": "2.0"}, raw=True)
"""
GIGABYTE = "for _ in range(1000):\n    print('x' * 1_000_000)"
WAITS = "import time\ntime.sleep(9999)"


def before(notebook, grade_id, source):
    """A cell of the student's own above that one."""
    notebook.cells.insert(notebook.cells.index(cell_of(notebook, grade_id)), nbformat.v4.new_code_cell(source))
    return notebook


def prints(lesson, root):
    return before(solve(unsolved(lesson), lesson), "basic_3", GIGABYTE)


def reaches_out(lesson, root):
    notebook = solve(unsolved(lesson), lesson)
    cell_of(notebook, "basic_3").source += REACHES_OUT.replace("{root}", str(root))
    return notebook


def tricks(lesson, root):
    notebook = unsolved(lesson)
    cell_of(notebook, "basic_1").source = WRONG_1 + TRICKS
    cell_of(notebook, "basic_3").source = WRONG_3
    return notebook


@pytest.fixture(scope="module")
def graded(classroom, sandbox):
    """Four submissions after one `nbgrader autograde`; `files` are what the course held before it."""
    classroom.teaches(TWO_EXERCISES)
    classroom.nbgrader("generate_assignment", "--force", LESSON)
    hand_in(classroom, "all_right")
    for student, make in {"reaches_out": reaches_out, "tricks": tricks, "prints": prints}.items():
        classroom.hands_in(student, make(classroom.lesson, classroom.root))
    classroom.files = contents(classroom.root)
    classroom.refused = subprocess.run(
        [sys.executable, "-m", "nbgrader", "autograde", LESSON],
        cwd=classroom.root, env={**classroom.env, "PATH": "/nowhere"}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    classroom.left = list((classroom.root / "work" / "autograded").rglob("*.ipynb"))
    classroom.said = classroom.nbgrader("autograde", LESSON, **SECRET)
    return classroom


@pytest.fixture(scope="module")
def waited(graded):
    """One more who waits for hours, in a class whose notebooks may take half a minute."""
    graded.hands_in("waits", before(solve(unsolved(graded.lesson), graded.lesson), "basic_3", WAITS))
    graded.said += graded.nbgrader(
        "autograde", LESSON, "--student=waits", "--RunToTheEnd.whole_notebook=30", **SECRET
    )  # fmt: skip
    return graded


def warnings_about(classroom, student):
    lines = [line.split("WARNING] ")[1] for line in classroom.said.splitlines() if "WARNING] " in line]
    return [line.removeprefix(f"{student}: ") for line in lines if line.startswith(f"{student}: ")]


def contents(root):
    """Digest of each file of the course, but for nbgrader's gradebook and what autograding makes."""
    paths = [path for path in root.rglob("*") if path.is_file() and "autograded" not in path.parts]
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths if "gradebook" not in path.name}


def output(classroom, student, grade_id):
    path = classroom.root / "work" / "autograded" / student / LESSON / "basic_compile.ipynb"
    return cell_of(nbformat.read(path, as_version=4), grade_id).outputs


def test_an_honest_submission_gets_what_it_is_worth(graded):
    assert graded.scores("all_right") == ALL
    (shown,) = output(graded, "all_right", "basic_1_check")
    assert shown.text == "✓ basic_1 · 2 of 2 points\n"


def test_a_submission_reaches_no_network_no_gradebook_no_solution_and_no_other_submission(graded):
    (shown,) = output(graded, "reaches_out", "basic_3")
    assert shown.text == "reached [] others []\n"
    assert graded.scores("reaches_out") == ALL
    assert graded.files.items() <= contents(graded.root).items()


def test_a_check_cell_shows_what_was_judged_outside_whatever_the_kernel_says(graded):
    assert graded.scores("tricks") == dict.fromkeys(ALL, 0)
    for exercise in ("basic_1", "basic_3"):
        (shown,) = output(graded, "tricks", f"{exercise}_check")
        assert "The check did not reach the grader." in shown.evalue


def test_a_gigabyte_of_output_is_cut_and_said_and_costs_no_points(graded):
    (sentence,) = warnings_about(graded, "prints")
    assert sentence.startswith("for _ in range(1000): printed more than a submission may, so it was left out.")
    assert graded.scores("prints") == ALL
    path = graded.root / "work" / "autograded" / "prints" / LESSON / "basic_compile.ipynb"
    assert path.stat().st_size < 1_000_000
    assert sentence in path.read_text()


def test_a_program_that_prints_faster_than_anybody_reads_waits_for_the_grader():
    streams = [io.StringIO(), io.StringIO()]
    hold_back(streams, most=50)

    def prints():
        for _ in range(1000):
            for stream in streams:
                print("x" * 9, file=stream)

    thread = threading.Thread(target=prints, daemon=True)
    thread.start()
    thread.join(timeout=1)
    assert thread.is_alive()
    assert 50 < sum(len(stream.getvalue()) for stream in streams) <= 60


def test_a_notebook_that_takes_longer_than_it_may_ends_and_keeps_what_was_judged_before(waited):
    (sentence,) = warnings_about(waited, "waits")
    assert sentence == "the notebook took longer than 30 s, so the cells that were left did not run."
    assert waited.scores("waits") == {"basic_1_check": 2, "basic_3_check": 0}
    (shown,) = output(waited, "waits", "basic_3_check")
    assert shown.evalue.startswith('check("basic_3") came after the notebook had taken its time')
    assert waited.scores("all_right") == ALL


def test_a_machine_without_a_sandbox_gets_one_sentence_and_nothing_is_graded(graded):
    assert graded.refused.returncode == 1
    (sentence,) = [line for line in graded.refused.stderr.splitlines() if "ERROR" in line]
    assert "There is no sandbox on this machine. Install bubblewrap" in sentence
    assert "--RunToTheEnd.sandboxed=False" in sentence
    assert "Traceback" not in graded.refused.stderr
    assert graded.left == []
