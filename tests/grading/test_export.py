"""Grades for an LMS: the lines that Canvas and Moodle import, from a graded course."""

import csv
import os
import subprocess
import sys

import pytest

from classroom import COURSE, LESSON
from graded import grade

ALL = ["basic_1", "basic_2", "basic_3"]


@pytest.fixture(scope="module")
def course(classroom):
    """ann has 6 of 6, bob 2 of 6 and a penalty of half a point, cat handed in nothing, dan's name is a formula."""
    from nbgrader.api import Gradebook

    grade(classroom, {"ann": ALL, "bob": ["basic_3"]})
    with Gradebook(f"sqlite:///{classroom.root}/work/gradebook.db", COURSE) as gradebook:
        gradebook.update_or_create_student(
            "ann", first_name="Ann", last_name="Lee", email="ann@x.org", lms_user_id="77"
        )
        gradebook.update_or_create_student("cat", last_name='=HYPERLINK("http://x")')
        gradebook.find_submission_notebook("basic_compile", LESSON, "bob").late_submission_penalty = 0.5
        gradebook.db.commit()
    return classroom


def exported(course, exporter, *options):
    course.nbgrader("export", f"--exporter=autograder.grading.export.{exporter}", "--to=out.csv", *options)
    with (course.root / "out.csv").open(newline="") as file:
        return list(csv.reader(file))


def test_canvas_gets_names_ids_points_possible_and_scores_after_penalties(course):
    assert exported(course, "Canvas") == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", LESSON],
        ["    Points Possible", "", "", "", "", "6.0"],
        ["Lee, Ann", "77", "", "ann", "", "6.0"],
        ["bob", "", "", "bob", "", "1.5"],
        ['\'=HYPERLINK("http://x")', "", "", "cat", "", ""],
    ]


def test_moodle_gets_usernames_and_one_column_a_lesson(course):
    assert exported(course, "Moodle", "--student=['ann','cat']") == [
        ["Username", "Email address", LESSON],
        ["ann", "ann@x.org", "6.0"],
        ["cat", "", ""],
    ]


def test_a_grade_that_waits_for_a_person_stops_the_export_with_one_sentence(course):
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course.root}/work/gradebook.db", COURSE) as gradebook:
        gradebook.find_grade("basic_1_check", "basic_compile", LESSON, "bob").needs_manual_grade = True
        gradebook.db.commit()
    (course.root / "out.csv").unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "nbgrader",
        "export",
        "--exporter=autograder.grading.export.Canvas",
        "--to=out.csv",
    ]
    done = subprocess.run(command, cwd=course.root, env=os.environ | course.env, capture_output=True, text=True)
    assert done.returncode != 0
    assert f"A grade of bob in {LESSON} waits for a person" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (course.root / "out.csv").exists()
    assert exported(course, "Canvas", "--Canvas.waiting=True")[3][-1] == "1.5"
