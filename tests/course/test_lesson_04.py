"""Lesson 4, beyond what holds for every lesson: what its exercises draw."""

import pytest
import torch
from torch._dynamo import maybe_mark_dynamic

from autograder.exercise import Draw
from autograder.exercises.guards import predicting, serving, specializing
from autograder.judge import namespace_of
from compilescope import observe


@pytest.mark.parametrize("seed", range(6))
def test_eight_sequences_of_one_draw_need_all_rules(seed):
    sequences = predicting.ask(Draw(seed))["sequences"]
    numbers = [len(predicting.compiling_calls(calls)) for calls in sequences]
    assert len(sequences) == 8
    assert len(set(numbers)) >= 4
    for rule in (len, lambda calls: len({tuple(call) for call in calls}), lambda calls: 2):
        assert [rule(calls) for calls in sequences] != numbers


def symbol_of(line, rows):
    source = f"def fn(x):\n    y = x.sin()\n    {line}\n    return y.sum(0)\n"
    x = torch.randn(rows, specializing.WIDTH)
    maybe_mark_dynamic(x, 0)
    torch.compiler.reset()
    run = observe(torch.compile(namespace_of(source)["fn"], backend="aot_eager"), x)
    return next(one for one in run.compiles[0].symbols if "[0]" in one.subject)


@pytest.mark.parametrize("line", specializing.SPECIALIZING)
def test_each_guilty_line_fixes_the_rows_and_is_the_line_that_the_symbol_names(line):
    symbol = symbol_of(line.format(n=11), 11)
    assert symbol.specialized_to == 11
    assert symbol.specialized_by.code == line.format(n=11)


@pytest.mark.parametrize("line", specializing.HARMLESS)
def test_a_harmless_line_leaves_the_rows_open(line):
    assert symbol_of(line, 11).specialized_to is None


@pytest.mark.parametrize("seed", range(8))
def test_no_draw_has_two_equal_sizes_that_would_share_a_symbol(seed):
    draw = Draw(seed)
    assert all(len(x) != specializing.WIDTH for x in specializing.ask(draw)["inputs"])
    asked = serving.ask(draw)
    assert asked["width"] > asked["largest"]
