"""`python -m autograder build`: one source, two notebooks, the same bytes as nbgrader's own command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from autograder.build import Lesson, build, learner_text, lesson_named, solved_text
from autograder.errors import CourseError

ROOT = Path(__file__).parents[2]
NAME = "01_basic_compile"
SECRET = "the_line_that_gives_it_away"
SOURCE = f'''# %% [markdown]
# # A lesson
#
# Text with *marks*, a table and "quotes".
# %%
from autograder import check
# %% [markdown]
# The same text.
# %% [markdown]
# The same text.
# %% exercise="basic_1"
def compile_report(metrics):
    """Return one compiled function."""
    ### BEGIN SOLUTION
    {SECRET} = metrics
    return {SECRET}
    ### END SOLUTION
# %% check="basic_1"
check("basic_1")
# %% exercise="basic_2"
def compiled_ways(ways, x):
    ### BEGIN SOLUTION
    {SECRET} = ways
    ### END SOLUTION
    return x
# %% check="basic_2"
check("basic_2")
# %% tags=["remove"] answer=42
done = "ünïcödé ✓"
'''


@pytest.fixture
def course(tmp_path):
    """Write the source of the only lesson of a course; returns the lesson."""

    def write(text: str = SOURCE) -> Lesson:
        lesson = Lesson(NAME, tmp_path)
        lesson.source.parent.mkdir(parents=True, exist_ok=True)
        lesson.source.write_text(text, encoding="utf-8")
        return lesson

    return write


def cells(text):
    return json.loads(text)["cells"]


def source_of(cell):
    return "".join(cell["source"])


def test_two_builds_give_the_same_bytes(course):
    lesson = course()
    assert build(lesson.root) == [f"solutions/{NAME}/basic_compile.ipynb", f"notebooks/{NAME}/basic_compile.ipynb"]
    first = lesson.solved.read_bytes(), lesson.learner.read_bytes()
    assert build(lesson.root) == []
    lesson.solved.unlink()
    lesson.learner.unlink()
    build(lesson.root)
    assert (lesson.solved.read_bytes(), lesson.learner.read_bytes()) == first
    assert all(text.endswith(b"}\n") and not text.endswith(b"\n\n") and b"\r" not in text for text in first)


def test_another_process_builds_the_same_bytes(course):
    """Nothing depends on the seed of `hash` or on a clock."""
    lesson = course()
    program = (
        "import sys, pathlib; from autograder.build import *; l = Lesson(sys.argv[1], pathlib.Path(sys.argv[2]));"
        "sys.stdout.buffer.write((solved_text(l) + learner_text(l)).encode())"
    )
    command = [sys.executable, "-c", program, NAME, str(lesson.root)]
    env = {**os.environ, "PYTHONHASHSEED": "12345"}
    other = subprocess.run(command, env=env, capture_output=True, check=True, timeout=120).stdout
    assert other.decode() == solved_text(lesson) + learner_text(lesson)


def test_cell_ids_are_unique_equal_in_both_notebooks_and_stay_when_another_cell_changes(course):
    lesson = course()
    ids = [cell["id"] for cell in cells(solved_text(lesson))]
    assert len(set(ids)) == len(ids)
    assert ids == [cell["id"] for cell in cells(learner_text(lesson))]
    assert {"basic_1", "basic_1_check", "basic_2", "basic_2_check"} <= set(ids)
    changed = course(SOURCE.replace("# # A lesson", "# # Another title"))
    assert [cell["id"] for cell in cells(solved_text(changed))][1:] == ids[1:]


def test_the_learner_gets_no_solution_and_a_stub_that_keeps_the_function_whole(course):
    learner = learner_text(course())
    assert SECRET in solved_text(course())
    for mark in (SECRET, "BEGIN SOLUTION", "END SOLUTION"):
        assert mark not in learner
    by_id = {cell["id"]: source_of(cell) for cell in cells(learner)}
    for name in ("basic_1", "basic_2"):
        compile(by_id[name], name, "exec")
        assert "your code here" in by_id[name]
    assert "Return one compiled function." in by_id["basic_1"]


def test_exercise_and_check_cells_carry_nbgraders_metadata_and_nothing_of_ours(course):
    by_id = {cell["id"]: cell for cell in cells(learner_text(course()))}
    exercise, check = by_id["basic_1"]["metadata"]["nbgrader"], by_id["basic_1_check"]["metadata"]["nbgrader"]
    assert (exercise["solution"], exercise["grade"], exercise["locked"]) == (True, False, False)
    assert (check["solution"], check["grade"], check["locked"], check["points"]) == (False, True, True, 2)
    assert by_id["basic_1_check"]["metadata"].get("editable") is False
    assert source_of(by_id["basic_1_check"]) == 'check("basic_1")'
    for cell in by_id.values():
        assert set(cell["metadata"]) <= {"nbgrader", "editable", "deletable"}


def test_built_notebooks_are_valid_and_hold_no_output(course):
    for text in (solved_text(course()), learner_text(course())):
        notebook = nbformat.reads(text, as_version=4)
        nbformat.validate(notebook)
        assert notebook.nbformat_minor == 5
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        assert code
        assert not any(cell.outputs or cell.execution_count for cell in code)


def test_nbgraders_own_command_writes_the_same_bytes_and_releases_no_other_file(course):
    lesson = course()
    build(lesson.root)
    ours = lesson.learner.read_bytes()
    (lesson.root / "nbgrader_config.py").write_text((ROOT / "nbgrader_config.py").read_text())
    (lesson.source.parent / "scratch.ipynb").write_bytes(lesson.solved.read_bytes())
    (lesson.source.parent / "more.py").write_text("secret = 1\n")
    (lesson.source.parent / "__pycache__").mkdir()
    (lesson.source.parent / "__pycache__" / "more.cpython-311.pyc").write_bytes(b"\0")
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", "generate_assignment", "--force", NAME],
        cwd=lesson.root,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "scratch.ipynb is not released" in done.stderr
    assert lesson.learner.read_bytes() == ours
    assert [path.name for path in lesson.learner.parent.rglob("*")] == [lesson.learner.name]


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ('\ncheck("basic_1")', '\nscore = check("basic_1")', 'must be the one line check("basic_1")'),
        ('\ncheck("basic_1")', '\ncheck("basic_2")', 'must be the one line check("basic_1")'),
        ('exercise="basic_1"', 'exercise="basic_11"', 'Did you mean "basic_1"?'),
        ("    ### END SOLUTION\n# %% check", "# %% check", "END SOLUTION"),
        ("    ### BEGIN SOLUTION\n", "", "basic_1 needs ### BEGIN SOLUTION"),
        ('# %% exercise="basic_1"', "# %%", "marks a solution"),
    ],
)
def test_a_mistake_in_a_source_is_one_sentence_that_names_the_file(course, right, wrong, says):
    lesson = course(SOURCE.replace(right, wrong, 1))
    with pytest.raises(CourseError) as caught:
        build(lesson.root)
    assert says in str(caught.value)
    assert "basic_compile.py" in str(caught.value)
    assert not lesson.learner.exists()


def test_an_exercise_of_another_lesson_is_refused(tmp_path):
    lesson = Lesson("07_other", tmp_path)
    lesson.source.parent.mkdir(parents=True)
    lesson.source.write_text(SOURCE)
    with pytest.raises(CourseError, match="basic_1 belongs to 01_basic_compile"):
        build(tmp_path)


@pytest.mark.parametrize("name", [NAME, "basic_compile", "01", "1", f"{NAME}/"])
def test_a_lesson_is_found_by_any_of_its_names(course, name):
    assert lesson_named(name, course().root).name == NAME


def test_a_mistyped_lesson_is_answered_with_the_nearest(course):
    with pytest.raises(CourseError, match="Did you mean 01_basic_compile"):
        lesson_named("01_basic_compiel", course().root)
