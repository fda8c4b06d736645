"""`python -m autograder check` catches what it is for: each planted fault must be named."""

import dataclasses
from pathlib import Path

import pytest

from autograder import budgets, prove
from autograder import build as building
from autograder.exercise import Check, Exercise, KnownMistake, NotYet

LESSON = '''# %% [markdown]
# # A toy lesson
# %%
from autograder import check
# %% exercise="toy_1"
def double(x: int) -> int:
    """Twice `x`."""
    ### BEGIN SOLUTION
    return 2 * x + 0 * 12345
    ### END SOLUTION
# %% check="toy_1"
check("toy_1")
'''


def judge_double(asked, found):
    x, got = asked["x"], found["got"]
    if got != 2 * x:
        raise NotYet(f"double({x})", f"gave {got}", f"this exercise wants {2 * x}", "Look at the factor.")


TOY = Exercise(
    name="toy_1",
    lesson="01_toy",
    points=2,
    asks_for=("double",),
    check=Check(
        lambda draw: {"x": draw.size(4, 99)}, lambda answer, asked: {"got": answer.double(asked["x"])}, judge_double
    ),
    hints=("a", "b", "c"),
    known_mistakes=(
        KnownMistake("def double(x): return x", "Look at the factor"),
        KnownMistake("def double(x): return 6", "gave 6"),
        KnownMistake("def double(x): return 1 / 0", "raised ZeroDivisionError"),
        KnownMistake("def double(x): raise SystemExit", "raised SystemExit"),
    ),
    alternatives=("def double(x): return x + x", "double = lambda x: x << 1"),
)


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course of one toy lesson; set `course.exercise` to plant a fault in it."""
    source = tmp_path / "solutions" / "01_toy" / "toy.py"
    source.parent.mkdir(parents=True)
    source.write_text(LESSON)
    lesson = building.Lesson("01_toy", tmp_path)

    def plant(exercise: Exercise = TOY, text: str = LESSON) -> building.Lesson:
        source.write_text(text)
        monkeypatch.setattr(building, "find", lambda name: exercise)
        monkeypatch.setattr(prove, "of_lesson", lambda name: (exercise,))
        building.build(tmp_path)
        return lesson

    return plant


def test_a_good_exercise_has_no_problem(course):
    lesson = course()
    proof = prove.Proof("01_toy")
    assert not [*prove.exercise_problems(proof, lesson), *prove.registry_problems(lesson)]
    assert proof.judged == 6
    assert not [*budgets.source_problems(lesson), *budgets.leak_problems(lesson)]


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        ({"known_mistakes": (KnownMistake("def double(x): return 2 * x", "gave"),)}, "this known mistake passes"),
        ({"known_mistakes": (KnownMistake("def double(x): return x", "banana"),)}, "must be told 'banana'"),
        ({"known_mistakes": (KnownMistake("def double(x) return", "gave"),)}, "does not even run"),
        ({"alternatives": ("def double(x): return x ** 2",)}, "this right answer is refused"),
    ],
)
def test_a_fault_in_an_exercise_is_named(course, fault, named):
    lesson = course(dataclasses.replace(TOY, **fault))
    assert named in " ".join(prove.exercise_problems(prove.Proof("01_toy"), lesson))


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        ({"hints": ("a", "a", "a")}, "three different hints"),
        ({"known_mistakes": ()}, "has 0 known mistakes"),
        ({"alternatives": ()}, "has 0 alternative answers"),
    ],
)
def test_an_unfinished_exercise_is_named(course, fault, named):
    assert named in " ".join(prove.registry_problems(course(dataclasses.replace(TOY, **fault))))


def test_an_exercise_without_its_check_is_named(course):
    lesson = course(text=LESSON.replace('# %% check="toy_1"\ncheck("toy_1")\n', ""))
    assert "needs one exercise cell and one check cell" in " ".join(prove.registry_problems(lesson))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (LESSON + "# %% [markdown]\n# " + "word " * 130 + "\n", "130 words"),
        (LESSON + "# %%\n" + "x = 1\n" * 22, "22 lines"),
        (LESSON + "# %%\npicture = '" + "iVBORw0KGgo" * 30 + "'\n", "base64"),
    ],
)
def test_a_cell_over_budget_is_named(course, text, named):
    assert named in " ".join(budgets.source_problems(course(text=text)))


def test_leaks_are_named(course):
    leaky = LESSON.replace("    ### BEGIN", "    # not: return 2 * x + 0 * 12345\n    ### BEGIN")
    lesson = course(text=leaky)
    (lesson.learner.parent / "toy.py").write_text("the solution")
    named = " ".join(budgets.leak_problems(lesson))
    assert "toy.py does not belong in a release" in named
    assert "holds this line of the solution" in named


def test_a_notebook_that_was_edited_by_hand_is_out_of_date(course):
    lesson = course()
    assert building.build(lesson.root) == []
    lesson.learner.write_text(lesson.learner.read_text().replace("toy lesson", "lesson of mine"))
    assert building.build(lesson.root, write=False) == [str(Path("notebooks/01_toy/toy.ipynb"))]


def test_a_check_that_leaves_its_words_on_stderr_is_named_by_nbgraders_own_rule(course):
    notebook = building.solved_notebook(course())
    cell = prove.grade_cells(notebook)["toy_1_check"]
    assert prove.points_of(cell) == 2
    import nbformat

    cell.outputs = [nbformat.v4.new_output("stream", name="stderr", text="W1129 recompile limit")]
    assert prove.points_of(cell) == 0
    assert prove.stderr_of(cell)
