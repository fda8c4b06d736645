"""Lesson 1 through nbgrader's own commands, from the source to the feedback that a student fetches."""

import csv
import shutil

import nbformat
import pytest

from autograder.budgets import solution_lines
from autograder.exercises import of_lesson
from classroom import COURSE, LESSON, ROOT, cell_of, exercises_of, marks_of, points_of, read_text, solve, unsolved

SECRET = "nobody-knows-this"

NOISE = """
import logging, os, sys, warnings
logging.getLogger("torch._dynamo").warning("a warning by torch, at the top")
get_ipython().events.register("post_run_cell", lambda result: print("after each cell", file=sys.stderr))

def noisy(answer, done=[]):
    def answer_with_noise(*inputs):
        logging.getLogger("torch._dynamo").warning("a warning by torch")
        warnings.warn("a warning by Python")
        os.write(2, b"a compiler's words\\n")
        if not done:
            shifted = torch.compile(lambda x, by: x + by, backend="eager", dynamic=False)
            done.extend(shifted(torch.ones(2), by) for by in range(12))  # reaches the recompile limit
        return answer(*inputs)
    return answer_with_noise
"""
MADE_NOISY = {"basic_1": "compile_report", "basic_3": "load_checkpoint"}


def solved(lesson):
    return solve(unsolved(lesson), lesson)


def half_solved(lesson):
    notebook = unsolved(lesson)
    names = exercises_of(notebook)
    return solve(notebook, lesson, *names[: len(names) // 2])


def solved_with_noise(lesson):
    notebook = solved(lesson)
    for name, function in MADE_NOISY.items():
        cell = cell_of(notebook, name)
        cell.source = f"{NOISE}\n{cell.source}\n\n{function} = noisy({function})"
    return notebook


SUBMISSIONS = {"ann": solved, "bob": unsolved, "cid": half_solved, "dot": solved_with_noise}


@pytest.fixture(scope="module")
def term(classroom):
    """A whole term in one go; `said` holds what each of the instructor's commands printed."""
    classroom.teaches(ROOT / "solutions" / LESSON / "basic_compile.py")
    built = classroom.lesson.learner.read_bytes()
    classroom.said = {}

    def instructor(command, *options):
        classroom.said[command] = classroom.nbgrader(command, LESSON, *options)

    instructor("generate_assignment", "--force")
    assert classroom.lesson.learner.read_bytes() == built
    instructor("release_assignment")
    for student, handed_in in SUBMISSIONS.items():
        if student == "ann":
            classroom.as_student(student, "fetch_assignment", LESSON)
        else:  # the same copy, without waiting for nbgrader to start
            outbound = classroom.exchange / COURSE / "outbound" / LESSON
            shutil.copytree(outbound, classroom.students / student / LESSON)
        notebook = classroom.students / student / LESSON / classroom.lesson.learner.name
        assert notebook.read_bytes() == built
        nbformat.write(handed_in(classroom.lesson), notebook)
        classroom.as_student(student, "submit", LESSON)
    instructor("collect")
    classroom.env["COURSE_SECRET"] = SECRET
    instructor("autograde")
    instructor("generate_feedback")
    instructor("release_feedback")
    classroom.as_student("ann", "fetch_feedback", LESSON)
    classroom.nbgrader("export")
    return classroom


@pytest.fixture(scope="module")
def full(term):
    return points_of(unsolved(term.lesson))


def test_the_release_holds_the_learners_notebook_and_nothing_else(term):
    released = term.exchange / COURSE / "outbound" / LESSON
    assert [path.name for path in released.rglob("*")] == [term.lesson.learner.name]
    text = (released / term.lesson.learner.name).read_text()
    assert "BEGIN SOLUTION" not in text


def test_solved_gets_full_points(term, full):
    assert len(full) >= 3
    assert term.scores("ann") == full


def test_validate_passes_the_solved_lesson_and_names_the_checks_of_the_untouched_one(term, full):
    handed_in = {name: str(term.students / name / LESSON / term.lesson.learner.name) for name in ("ann", "bob")}
    assert "Success!" in term.nbgrader("validate", handed_in["ann"])
    said = term.nbgrader("validate", handed_in["bob"])
    assert "Success!" not in said
    for name in full:
        assert f'check("{name.removesuffix("_check")}")' in said


def test_untouched_gets_0_and_crashes_nothing(term, full):
    assert term.scores("bob") == dict.fromkeys(full, 0)


def test_half_solved_gets_the_points_of_that_half(term, full):
    names = exercises_of(unsolved(term.lesson))
    done = {f"{name}_check" for name in names[: len(names) // 2]}
    assert 0 < len(done) < len(full)
    assert term.scores("cid") == {name: points if name in done else 0 for name, points in full.items()}


def test_an_answer_that_logs_torch_warnings_keeps_its_points(term, full):
    graded = nbformat.read(term.root / "work" / "autograded" / "dot" / LESSON / "basic_compile.ipynb", as_version=4)
    assert set(MADE_NOISY) <= {marks_of(cell).get("grade_id") for cell in graded.cells}
    assert "noisy(compile_report)" in cell_of(graded, "basic_1").source
    assert term.scores("dot") == full


def test_nothing_waits_for_a_person_and_the_export_holds_the_totals(term, full):
    with (term.root / "grades.csv").open() as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file)}
    assert set(rows) == set(SUBMISSIONS)
    for student, row in rows.items():
        assert float(row["score"]) == sum(term.scores(student).values())
        assert float(row["max_score"]) == sum(full.values())


def test_feedback_holds_the_checks_own_sentence_and_the_score(term, full):
    bob, cid = (read_text(term.feedback(student)) for student in ("bob", "cid"))
    assert bob.count("is still to be written") == len(full)
    assert cid.count("is still to be written") == len(full) - len(exercises_of(unsolved(term.lesson))) // 2
    assert f"Score: 0.0 / {sum(full.values())}" in bob
    assert "✓ basic_1" in cid
    assert "Traceback" not in bob


def test_feedback_gives_no_solution_away_and_no_secret(term):
    bob = read_text(term.feedback("bob"))
    model = nbformat.read(term.lesson.solved, as_version=4)
    lines = [line for cell in model.cells if marks_of(cell).get("solution") for line in solution_lines(cell.source)]
    released = term.lesson.learner.read_text()
    released += " ".join(
        hint for exercise in of_lesson(LESSON) for hint in exercise.hints
    )  # each student may ask for them
    assert len(lines) > 5
    assert not [line for line in lines if line in bob and line not in released]
    for student in SUBMISSIONS:
        assert SECRET not in term.feedback(student)
        folder = term.root / "work" / "feedback" / student / LESSON
        assert {path.suffix for path in folder.iterdir()} <= {".html", ".txt"}


def test_the_student_fetches_that_feedback(term):
    (page,) = (term.students / "ann" / LESSON / "feedback").rglob("*.html")
    assert "✓ basic_1" in read_text(page.read_text())
