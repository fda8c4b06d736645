"""What names a grading: a change in anything that a verdict depends on grades a class anew."""

import subprocess
import sys
from pathlib import Path

import pytest

from autograder.build import lesson_named
from autograder.grading import stamp

ROOT = Path(__file__).parents[2]
NAMED = "stamp.stamp_of(lesson_named('3')); print('torch' in sys.modules)"


@pytest.mark.parametrize(
    ("lesson", "path"),
    [
        (1, "compilescope/observe.py"),
        (1, "compilescope/torch_internals/modes.py"),
        (1, "autograder/grading/pristine.py"),
        (1, "autograder/grading_steps.py"),
        (1, "autograder/mending.py"),
        (1, "autograder/sandbox/inside.py"),
        (1, "autograder/exercises/residual.py"),
        (7, "autograder/exercises/guards/served.py"),
        (8, "autograder/exercises/distributed/on_two.py"),
    ],
)
def test_a_verdict_depends_on_these_sources(lesson, path):
    found = {one.resolve() for one in stamp._what_judges(lesson_named(str(lesson)))}
    assert ROOT / path in found
    assert all(one.exists() for one in found)
    assert ROOT / "autograder/exercises/lesson_02.py" not in found


def test_what_judges_is_found_without_importing_torch():
    code = f"import sys; from autograder.build import lesson_named; from autograder.grading import stamp; {NAMED}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_another_torch_and_another_secret_grade_anew(monkeypatch):
    lesson = lesson_named("1")
    before = stamp.stamp_of(lesson)
    assert stamp.stamp_of(lesson) == before
    monkeypatch.setenv("COURSE_SECRET", "another")
    other = stamp.stamp_of(lesson)
    monkeypatch.setattr(stamp, "version", lambda _: "9.9")
    assert len({before, other, stamp.stamp_of(lesson)}) == 3
