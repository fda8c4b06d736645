"""nbgrader's formgrader on a course that our grader graded: it shows scores and verdicts, and runs no script."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "grading"))
from classroom import COURSE, LESSON, Classroom
from graded import grade


@pytest.fixture(scope="module")
def course(tmp_path_factory, lab_on):
    """A graded course and its JupyterLab: (server's address, its token, nbgrader's id of bob's submission)."""
    room = Classroom(tmp_path_factory.mktemp("class"))
    grade(room, {"ann": ["basic_1", "basic_2", "basic_3"], "bob": ["basic_3"]})
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{room.root}/work/gradebook.db", COURSE) as gradebook:
        submission = gradebook.find_submission_notebook(room.lesson.topic, LESSON, "bob").id
    with lab_on(room.root) as address:
        server, _, token = address("").partition("/lab/tree/?token=")
        yield server, token.removesuffix("&reset"), submission


@pytest.fixture
def formgrader(course, open_page):
    """``formgrader("gradebook")`` opens that page of formgrader."""
    server, token, _ = course

    def opened(path):
        # In the address the token would log the browser in for the folder of that page only.
        return open_page(f"{server}/formgrader/{path}", extra_http_headers={"Authorization": f"token {token}"})

    return opened


def rows(page):
    """The table of a page of formgrader, row by row, once it is filled."""
    page.wait_for_selector("tbody tr td:nth-child(3)")
    return [[cell.strip() for cell in row.inner_text().split("\t")] for row in page.locator("tbody tr").all()]


def test_the_gradebook_page_shows_the_average_of_the_class(formgrader, shot):
    page = formgrader("gradebook")
    (row,) = rows(page)
    shot(page, "formgrader_gradebook")
    assert row[0] == LESSON
    assert row[2:] == ["2", "4 / 6"]


def test_the_list_of_submissions_has_a_score_for_each_student(formgrader, shot):
    page = formgrader(f"gradebook/{LESSON}/basic_compile")
    scores = sorted(row[2] for row in rows(page))
    shot(page, "formgrader_submissions")
    assert scores == ["2 / 6", "6 / 6"]


def test_the_students_page_names_everybody_with_their_points(formgrader, shot):
    page = formgrader("manage_students")
    found = {row[1]: row[3] for row in rows(page)}
    shot(page, "formgrader_students")
    assert found == {"ann": "6 / 6", "bob": "2 / 6"}


def test_a_submission_shows_verdicts_and_scores_and_runs_nothing_of_it(course, formgrader, shot):
    page = formgrader(f"submissions/{course[2]}/")
    page.wait_for_selector(".nbgrader_cell")
    page.wait_for_function("document.querySelector('input.score') && document.querySelector('input.score').placeholder")
    shot(page, "formgrader_submission")
    text = page.locator("body").inner_text()
    assert "basic_1 made 2 graphs; 1 is wanted. Look at line 2." in text
    scores = page.eval_on_selector_all("input.score", "boxes => boxes.map(box => box.placeholder)")
    assert scores == ["0", "0", "2"]
    assert "owned" not in page.title()
    assert page.evaluate("[...document.scripts].every(script => !script.textContent.includes('owned'))")
    assert page.locator("img[onerror]").count() == 0
    assert page.asked == [], "formgrader works without a network"


def test_formgrader_opens_from_jupyterlabs_menu(course, open_page, shot):
    server, token, _ = course
    page = open_page(f"{server}/lab?token={token}", 1280, 900)
    page.wait_for_selector(".lm-MenuBar-itemLabel:has-text('Nbgrader')", timeout=60_000)
    page.click(".lm-MenuBar-itemLabel:has-text('Nbgrader')")
    page.click(".lm-Menu-itemLabel:has-text('Formgrader')")
    frame = page.frame_locator("iframe")
    frame.locator("text=Manage Assignments").first.wait_for(timeout=30_000)
    frame.locator(f"text={LESSON}").first.wait_for(timeout=30_000)
    shot(page, "formgrader_in_jupyterlab")
