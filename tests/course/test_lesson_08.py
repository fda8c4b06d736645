"""Lesson 8, beyond what holds for every lesson: its model, and what its exercises draw."""

import ast
import inspect

import pytest
import torch

from autograder.build import lesson_named, solved_notebook
from autograder.exercise import Draw
from autograder.exercises.capstone import planted, ready, served, tame, unwrap
from autograder.texts import small_text

LESSON = lesson_named("08_capstone")


def cells():
    return [cell.source for cell in solved_notebook(LESSON).cells if cell.cell_type == "code"]


def bare(tree):
    """Code without docstrings and types: what it does."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            node.body = [
                ast.Assign([one.target], one.value, lineno=0) if isinstance(one, ast.AnnAssign) else one
                for one in node.body
                if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
                and not (isinstance(one, ast.AnnAssign) and one.value is None)
            ]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
    return ast.unparse(tree)


@pytest.mark.parametrize("name", ["Block", "GPT"])
def test_checks_use_the_model_that_the_lesson_shows(name):
    shown = next(one for source in cells() for one in ast.parse(source).body if getattr(one, "name", "") == name)
    ours = ast.parse(inspect.getsource(getattr(planted, name)))
    said = bare(ours).replace(
        "scores = self.head(self.norm(x))\n        return scores", "return self.head(self.norm(x))"
    )
    assert bare(ast.Module([shown], [])) == said


def test_the_text_is_long_enough_for_the_batches_of_the_lesson():
    assert len(small_text()) > 150 * 7 + 1 + 8 * 16
    assert max(rows * length for rows, length in [(6, 40), (2, 60)]) < len(small_text())


@pytest.mark.parametrize("seed", range(20))
def test_the_first_two_shapes_of_a_stream_differ_in_both_sizes(seed):
    for module in (served, ready):
        first, second, *others = (ids.shape for ids in module.ask(Draw(seed))["stream"])
        assert first[0] != second[0]
        assert first[1] != second[1]
        assert all(min(shape) >= 2 and shape[1] <= 64 for shape in (first, second, *others))
        assert first[0] != first[1]
        assert len({length for _, length in (first, second, *others)}) == 7, "each length is new to a cache of masks"


def test_a_class_that_draws_more_numbers_than_the_model_has_the_weights_of_the_model():
    class More(planted.GPT):
        def __init__(self, letters, **sizes):
            torch.randn(5)
            super().__init__(letters, **sizes)
            self.table = torch.ones(3)
            self.norm = torch.nn.LayerNorm(1)

    asked = planted.size_drawn(Draw(0), depth=1)
    before, made = torch.get_rng_state(), planted.answered_of(asked, More, torch.device("cpu"))
    plain = planted.gpt_of(asked).state_dict()
    for name, weight in made.state_dict().items():
        assert name.startswith("norm.") or torch.equal(weight, plain[name])
    assert torch.equal(torch.get_rng_state(), before), "nobody else's numbers change"


@pytest.mark.parametrize("seed", range(20))
def test_inputs_of_tame_lie_on_both_sides_of_the_limit_and_beyond_it_in_two_places(seed):
    asked = tame.ask(Draw(seed))
    beyond = [int((x.abs() > asked["limit"]).sum()) for x in asked["inputs"]]
    assert beyond[0] >= 2
    assert beyond[1] == 0
    assert beyond[3] >= 2


@pytest.mark.parametrize("seed", range(10))
def test_wrappers_are_around_the_model_and_around_parts_of_it(seed):
    first, second = unwrap.ask(Draw(seed))["wrapped"]
    assert "model" in first
    assert len(second) >= 2
    assert {one for one in (*first, *second) if one.startswith("block")}
