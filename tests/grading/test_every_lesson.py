"""Each lesson of the course as a class hands it in: solved, untouched, and with known mistakes; all in the sandbox."""

import os
from pathlib import Path

import nbformat
import pytest

from autograder.build import lessons
from autograder.exercises import of_lesson
from autograder.grading.command import stamp_of
from autograder.grading.examiner import Examiner
from classroom import cell_of, solve, unsolved

LESSONS = [lesson for lesson in lessons() if of_lesson(lesson.name)]
SECRET = "the same for each run, so that a second one finds its compile cache"


@pytest.fixture(scope="module", params=LESSONS, ids=lambda lesson: lesson.name)
def examined(request, sandbox, tmp_path_factory):
    """The lesson, and a function from a notebook to its rulings by exercise; the trusted cache outlives the tests."""
    lesson, folder = request.param, tmp_path_factory.mktemp("class")
    patch = pytest.MonkeyPatch()
    patch.setenv("COURSE_SECRET", SECRET)
    cache = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]).with_name("inside-torch-compile-graded") / lesson.name
    with Examiner(lesson, cache=cache / stamp_of(lesson)[:16]) as examiner:

        def examine(notebook):
            nbformat.write(notebook, folder / "a.ipynb")
            result = examiner.examine("a", folder / "a.ipynb", "key")
            assert not result["problem"]
            return {ruling["exercise"]: ruling for ruling in result["rulings"]}

        yield lesson, examine
    patch.undo()


def test_a_solved_notebook_gets_all_points_and_waits_for_nobody(examined):
    lesson, examine = examined
    rulings = examine(solve(unsolved(lesson), lesson))
    assert set(rulings) == {exercise.name for exercise in of_lesson(lesson.name)}
    for name, ruling in rulings.items():
        said = f"{name}: {ruling['sentence']} {ruling['suspicion']} {ruling['cell_errors']} {ruling['output'][-2000:]}"
        assert ruling["points"] == ruling["out_of"], said
        assert not ruling["suspicion"], said


def test_an_untouched_notebook_gets_no_points_and_is_told_so_and_a_known_mistake_gets_its_own_sentence(examined):
    lesson, examine = examined
    notebook, mistaken = unsolved(lesson), of_lesson(lesson.name)[0]
    mistake = mistaken.known_mistakes[0]
    cell_of(notebook, mistaken.name).source = mistake.code
    for name, ruling in examine(notebook).items():
        assert ruling["points"] == 0
        wanted = mistake.says if name == mistaken.name else "is still to be written"
        assert wanted in ruling["sentence"], name
