"""Mutants: each a program, each one change away from the right answer, none twice."""

import ast

import pytest

from autograder.exercises import everything
from autograder.grading.mutate import mutants

CODE = """
import torch
def price(x, rate=0.5, *, exact=True):
    total = x + rate
    if total > 3 and exact:
        return torch.sin(total, out=None)
    return [v for v in x if v][0] - 1
price = torch.compile(price, backend="aot_eager", fullgraph=True)
"""


def test_each_mutant_is_another_program_and_says_what_was_done():
    found = mutants(CODE, most=999)
    texts = [one.code for one in found]
    assert len(set(texts)) == len(texts) > 30
    assert ast.unparse(ast.parse(CODE)) not in texts
    for one in found:
        compile(one.code, "mutant", "exec")
        assert one.what.startswith("line ")


@pytest.mark.parametrize(
    "change",
    [
        ("x + rate", "x - rate"), ("total > 3", "total >= 3"), (" and exact", " or exact"), ("rate=0.5", "rate=1.5"),
        ("exact=True", "exact=False"), ("total = x + rate", "pass"), (" if v]", "]"), (", fullgraph=True", ""),
        (', backend="aot_eager"', ""), ("torch.sin(total, out=None)", "total"),
    ],
)  # fmt: skip
def test_the_changes_that_a_check_must_notice_are_made(change):
    old, new = change
    wanted = ast.unparse(ast.parse(CODE.replace(old, new, 1)))
    assert wanted in [one.code for one in mutants(CODE, 999)]


def test_no_more_than_asked_for_and_always_the_same():
    assert len(mutants(CODE, 10)) == 10
    assert mutants(CODE, 10) == mutants(CODE, 10)


def test_the_right_answers_of_each_exercise_have_thirty_mutants_or_few_lines():
    for exercise in everything():
        count = sum(len(mutants(code, 999)) for code in exercise.alternatives)
        lines = sum(len(code.splitlines()) for code in exercise.alternatives)
        assert count >= min(30, lines), exercise.name
