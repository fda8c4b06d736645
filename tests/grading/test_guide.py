"""docs/instructors.md: every command of it, in its order, in a fresh course folder."""

import csv
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest

from classroom import LESSON, ROOT, SMALL_LESSON, solve, unsolved

GUIDE = ROOT / "docs" / "instructors.md"
_FIRST, _, _REST = SMALL_LESSON.partition('# %% exercise="basic_2"')
TWO_EXERCISES = _FIRST + "# %% exercise=" + _REST.rpartition("# %% exercise=")[2]


def blocks():
    """[(who, commands), …] of the guide; who is "" for the instructor."""
    return re.findall(r"^```bash ?(\w*)\n(.*?)^```$", GUIDE.read_text(), re.M | re.S)


@pytest.fixture(scope="module")
def followed(classroom, sandbox):
    """The course after the whole guide: ann hands in through the exchange, bob through Canvas."""
    classroom.teaches(TWO_EXERCISES)
    for part in ("autograder", "compilescope", "assets"):  # as in a clone, where the course brings its grader
        shutil.copytree(ROOT / part, classroom.root / part, ignore=shutil.ignore_patterns("__pycache__"))
    home = Path(classroom.env["HOME"])
    for folder in (home, classroom.students / "ann"):
        (folder / ".jupyter").mkdir(parents=True)
        (folder / ".jupyter" / "nbgrader_config.py").write_text(
            f"c = get_config()\nc.Exchange.root = {str(classroom.exchange)!r}\n"
        )
    archive = classroom.root / "work" / "downloaded" / LESSON / "archive"
    archive.mkdir(parents=True)
    script = ["set -e", f"export PATH={Path(sys.executable).parent}:$PATH PYTHONPATH={classroom.root}"]
    for who, commands in blocks():
        if who == "student":
            there = f"cd {classroom.students / 'ann'}; export HOME=$PWD JUPYTER_CONFIG_DIR=$PWD/.jupyter"
            solved = (
                "nbgrader submit",
                f"cp {classroom.students / 'solved.ipynb'} {LESSON}/basic_compile.ipynb\nnbgrader submit",
            )
            who_am_i = commands.replace(*solved).replace("--course", "--student=ann --course")
            script.append(f"({there}\n{who_am_i})")
        else:
            script.append(commands)
    solved = solve(unsolved(classroom.lesson), classroom.lesson)
    nbformat.write(solved, classroom.students / "solved.ipynb")
    with zipfile.ZipFile(archive / "submissions.zip", "w") as made:
        made.writestr("bob_88_123_basic_compile-2.ipynb", nbformat.writes(unsolved(classroom.lesson)))
    environment = {**classroom.env, "JUPYTER_CONFIG_DIR": str(home / ".jupyter")}
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=classroom.root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=590,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    classroom.said = done.stdout
    return classroom


@pytest.mark.timeout(600)
def test_every_command_of_the_guide_works_in_a_fresh_course_and_the_grades_come_out(followed):
    assert followed.scores("ann") == {"basic_1_check": 2, "basic_3_check": 2}
    assert followed.scores("bob") == {"basic_1_check": 0, "basic_3_check": 0}
    assert "2 of 2 graded" in followed.said
    assert "A hint, not a verdict" in followed.said
    assert "is still to be written" in followed.feedback("bob")


def test_the_exports_hold_what_the_guide_set_up(followed):
    with (followed.root / "canvas.csv").open(newline="") as file:
        lines = list(csv.reader(file))
    assert lines[2:] == [["Lee, Ann", "77", "", "ann", "", "4.0"], ["bob", "", "", "bob", "", "0.0"]]
    assert (followed.root / "moodle.csv").read_text().splitlines()[1] == "ann,ann@example.org,4.0"
    assert "ann@example.org" in (followed.root / "grades.csv").read_text()


def test_feedback_is_released_to_the_student(followed):
    released = [path.read_text() for path in followed.exchange.rglob("feedback/*.html")]
    assert len(released) == 2, "bob's did not come through the exchange, and stops nobody"
    assert any("4.0 / 4.0" in page for page in released)


def test_the_guide_names_each_step_and_each_option_that_grade_has():
    from autograder.__main__ import parser

    text = GUIDE.read_text()
    for step in ("Set up", "Release", "Collect", "Grade", "Look", "Feedback", "Export"):
        assert f"**{step}" in text
    grade = parser()._subparsers._group_actions[0].choices["grade"]
    options = {name for action in grade._actions for name in action.option_strings if name.startswith("--")}
    for option in options - {"--help", "--course"}:
        assert f"`{option}" in text, option
