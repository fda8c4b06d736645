"""Lesson 1, beyond what holds for every lesson: what its exercises draw."""

import pytest
import torch

from autograder.exercise import Draw
from autograder.exercises.basic import kernel, report, ways
from autograder.judging import eager_operations


@pytest.mark.parametrize("seed", range(4))
def test_each_draw_of_five_ways_has_some_that_compile_and_some_that_do_not(seed):
    makers = [ways.MAKERS[name] for name in ways.five_ways(Draw(seed))]
    graphs = [ways.graphs_of(maker, torch.randn(3, ways.WIDTH)) for maker in makers]
    assert len(makers) == 5
    assert 1 <= graphs.count(0) <= 2


def test_metrics_of_one_draw_are_fresh_functions():
    asked = {"metrics": ["volatility"], "share": 0.5}
    prices = torch.rand(4, 30) + 1
    first, second = (report.metrics_of({**asked, "days": days})[0] for days in (200, 300))
    assert not torch.equal(first(prices), second(prices))


def test_loads_and_stores_are_counted_in_code_and_not_in_its_comments():
    source = "def f(p):\n    # tl.load(p)\n    x = tl.load(p)\n    tl.store(p, tl.load(p) + x)\n"
    assert kernel.memory_operations(source) == (2, 1)


def test_what_a_graph_computes_is_not_counted_as_eager():
    compiled = torch.compile(lambda x: x.sin() + 1, backend="aot_eager")
    x = torch.randn(4)
    compiled(x)
    assert eager_operations(compiled, x) == ()
    assert eager_operations(lambda x: compiled(x).cos(), x) == ("aten::cos",)
