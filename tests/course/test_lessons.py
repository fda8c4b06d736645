"""Each lesson, proved three ways: solved passes, unsolved fails kindly, known mistakes get their sentences.

And its predictions: what is computed is one of the choices.
"""

import ast

import pytest
import torch

import autograder
from autograder import budgets, prove
from autograder.build import build, lessons, solved_notebook
from autograder.exercises import everything
from autograder.judge import namespace_of
from autograder.quiet import quiet
from compilescope.ranks import end_ranks
from elsewhere import Elsewhere, judged_elsewhere

LESSONS = {lesson.name: lesson for lesson in lessons()}
EXERCISES = {exercise.name: exercise for exercise in everything()}


def test_every_exercise_has_its_lesson():
    assert list(prove.orphan_problems()) == []


def test_the_notebooks_are_those_of_the_sources():
    assert build(write=False) == [], "Run: make build"


@pytest.mark.parametrize("name", LESSONS)
def test_form_budgets_leaks_and_registry(name):
    lesson = LESSONS[name]
    looks = (budgets.source_problems, budgets.leak_problems, prove.registry_problems)
    assert [problem for look in looks for problem in look(lesson)] == []


@pytest.mark.parametrize("name", EXERCISES)
def test_each_known_mistake_gets_its_own_sentence(name):
    exercise = EXERCISES[name]
    assert [p for mistake in exercise.known_mistakes for p in prove.mistake_problems(exercise, mistake)] == []


@pytest.mark.parametrize("name", EXERCISES)
def test_each_other_right_answer_passes_though_its_tensors_lie_on_another_device_than_references(name):
    exercise = judged_elsewhere(EXERCISES[name])
    assert [p for code in exercise.alternatives for p in prove.alternative_problems(exercise, code)] == []


@pytest.mark.alone
@pytest.mark.parametrize("name", LESSONS)
def test_the_solved_lesson_gives_full_points_within_its_budgets(name):
    assert list(prove.solved_problems(prove.Proof(name), LESSONS[name])) == []


@pytest.mark.parametrize("name", LESSONS)
def test_the_unsolved_lesson_fails_in_its_checks_only_and_kindly(name):
    assert list(prove.unsolved_problems(prove.Proof(name), LESSONS[name])) == []


def names_of(tree, *contexts):
    return {one.id for one in ast.walk(tree) if isinstance(one, ast.Name) and isinstance(one.ctx, contexts)}


def made_by(statement):
    """The names that a top-level statement binds, or whose entries it sets."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    entries = [one.value for one in ast.walk(statement) if isinstance(getattr(one, "ctx", None), ast.Store)
               and isinstance(one, (ast.Subscript, ast.Attribute))]  # fmt: skip
    return names_of(statement, ast.Store) | {name for one in entries for name in names_of(one, ast.Load)}


def used_by(statement):
    """The names that a top-level statement takes from outside: not those of a function's own."""
    used = names_of(statement, ast.Load)
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.Expr)):
        used -= names_of(statement, ast.Store) | {one.arg for one in ast.walk(statement) if isinstance(one, ast.arg)}
    return used


def predictions_in(lesson):
    """The lesson's `predict` calls and what they lean on, and how many there are: no picture is drawn for them."""
    cells = [cell.source for cell in solved_notebook(lesson).cells if cell.cell_type == "code"]
    body = ast.parse("\n\n".join(cells)).body
    wanted = {id(one) for one in body if ast.unparse(one).startswith("predict(")}
    asked, needed, before = len(wanted), set(), -1
    while len(wanted) > before:
        before = len(wanted)
        needed |= {name for one in body if id(one) in wanted for name in used_by(one)}
        wanted |= {id(one) for one in body if not isinstance(one, ast.Expr) and made_by(one) & needed}
    always = (ast.Import, ast.ImportFrom)
    resets = [id(one) for one in body if ast.unparse(one) == "torch.compiler.reset()"]
    kept = [one for one in body if id(one) in {*wanted, *resets} or isinstance(one, always)]
    return ast.unparse(ast.Module(kept, [])), asked


@pytest.mark.parametrize("name", LESSONS)
def test_the_computed_answer_of_each_prediction_is_one_of_its_choices(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    answers = []

    def predict(question, choices, compute):
        with quiet():
            answers.append((question, str(compute()), [str(choice) for choice in choices]))

    monkeypatch.setattr(autograder, "predict", predict)
    code, asked = predictions_in(LESSONS[name])
    with quiet():
        namespace_of(code.replace("with fresh_cache():", "if True:"), f"lesson {name}")  # cold or not: equal choices
    end_ranks()
    assert len(answers) == asked >= 5
    assert [one for one in answers if one[1] not in one[2]] == []


def test_a_model_on_the_cpu_refuses_what_lies_elsewhere_as_it_refuses_what_lies_on_a_gpu():
    model, x = torch.nn.Linear(2, 2), torch.ones(1, 2).as_subclass(Elsewhere)
    with pytest.raises(RuntimeError, match="another device"):
        model(x)
    assert model(x.cpu()).shape == (x + x).shape
