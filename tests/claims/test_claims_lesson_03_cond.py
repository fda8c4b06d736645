"""Lesson 3, branches and loops in the graph: what the running torch does about each claim that the lesson teaches."""

import pytest
import torch
from torch._dynamo.exc import Unsupported
from torch._higher_order_ops import scan, while_loop

from compilescope import observe
from first_calls import first_call, refused, targets

VERSION = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
X = torch.linspace(0.1, 1.0, 8)


def clip(x, limit):
    norm = x.norm()
    if norm > limit:
        x = x * (limit / norm)
    return x.tanh()


def test_row_41_a_branch_on_a_value_makes_two_graphs_and_is_refused_by_fullgraph():
    run = first_call(clip, X * 10, torch.tensor(1.0))
    assert len(run.graphs) == 2
    assert run.compiles[1].is_resume
    (stop,) = run.breaks
    assert (stop.gb, stop.source.code) == ("GB0170", "if norm > limit:")
    run = refused(clip, X * 10, torch.tensor(1.0), error=Unsupported, fullgraph=True)
    assert run.breaks[0].gb == "GB0170"
    assert any("torch.cond" in hint for hint in run.breaks[0].hints)


def clip_by_cond(x, limit):
    norm = x.norm()
    return torch.cond(norm > limit, lambda x: x * (limit / norm), lambda x: x.clone(), (x,)).tanh()


def test_row_42_cond_keeps_one_graph_with_both_branches_for_both_sides():
    fast = torch.compile(clip_by_cond, backend="aot_eager", fullgraph=True)
    torch.compiler.reset()
    limit = torch.tensor(1.0)
    for x, graphs in ((X * 10, 1), (X / 10, 0)):
        run = observe(fast, x, limit)
        assert len(run.graphs) == graphs
        torch.testing.assert_close(run.result, clip(x, limit))
    torch.compiler.reset()
    (graph,) = observe(fast, X, limit).graphs
    assert [len(body.calls()) for body in graph.inner] == [2, 1]


def test_row_42_the_old_import_gives_the_same_function():
    from functorch.experimental import control_flow

    assert control_flow.cond is torch.cond


def test_row_42_gradients_flow_through_the_branch_that_ran_also_into_closures():
    weight = torch.full((8,), 2.0, requires_grad=True)

    def loss(x):
        return torch.cond(x.sum() > 0, lambda x: x * weight, lambda x: -x, (x,)).sum()

    run = first_call(loss, X, fullgraph=True)
    run.result.backward()
    torch.testing.assert_close(weight.grad, X)
    torch.compiler.reset()
    with observe() as run:
        torch.compile(loss, backend="aot_eager")(-X).backward()
    assert "higher_order.cond" in targets(run, "backward")
    torch.testing.assert_close(weight.grad, X)  # the other side gives nothing


def test_row_42_a_branch_computes_only_the_side_that_is_chosen():
    run = first_call(clip_by_cond, X, torch.tensor(1.0))
    assert "higher_order.cond" in targets(run, "inference")
    assert not any("where" in target for target in targets(run, "inference"))


def positive(x):
    return x.sum() > 0


def cond_of(yes, no, predicate=positive):
    return lambda x: torch.cond(predicate(x), yes, no, (x,))


def test_row_43_dtype_and_structure_must_be_the_same():
    assert refused(cond_of(lambda x: x.double() * 2, lambda x: x * 3), X).calls[0].outcome == "error"
    run = refused(cond_of(lambda x: (x * 2, x.sum()), lambda x: (-x,)), X)
    assert [stop.gb for stop in run.breaks] == ["GB0313"]


def test_row_43_shapes_may_differ_and_one_side_may_be_without_gradient():
    run = first_call(cond_of(lambda x: x[:2] * 2, lambda x: x * 3), X, fullgraph=True)
    assert run.result.shape == (2,)
    leaf = X.clone().requires_grad_()
    first_call(cond_of(lambda x: x * 2, lambda x: x.detach() * 3), leaf).result.sum().backward()
    assert leaf.grad.tolist() == [2.0] * 8


def test_row_43_the_predicate_is_one_element():
    assert refused(cond_of(lambda x: x * 2, lambda x: x * 3, lambda x: x > 0), X).calls[0].outcome == "error"
    any_of = cond_of(lambda x: x * 2, lambda x: x * 3, lambda x: (x > 0).any())
    assert len(first_call(any_of, X, fullgraph=True).graphs) == 1


def test_row_44_a_branch_must_not_return_an_input_or_its_view_a_clone_is_accepted():
    for alias, other in ((lambda x: x, lambda x: x * 2), (lambda x: x.view(2, 4), lambda x: x.view(2, 4) * 2)):
        run = refused(cond_of(alias, other), X)
        assert [stop.gb for stop in run.breaks] == ["GB0040"]
    assert len(first_call(cond_of(lambda x: x.clone(), lambda x: x * 2), X, fullgraph=True).graphs) == 1


def test_row_44_the_rules_hold_without_compile_too():
    with pytest.raises(Exception):  # noqa: B017, PT011 - the type differs between the versions
        cond_of(lambda x: x, lambda x: x * 2)(X)


def test_row_44_a_branch_may_change_its_input_without_gradients_from_2_12_on():
    changing = cond_of(lambda x: x.add_(1).clone(), lambda x: x * 3)
    assert [stop.gb for stop in refused(changing, X.clone()).breaks] == ["GB0041"]
    x = X.clone()
    with torch.no_grad():
        if VERSION < (2, 12):
            refused(changing, x)
            return
        first_call(changing, x)
    torch.testing.assert_close(x, X + 1)


def averages(xs):
    def step(mean, x):
        mean = 0.9 * mean + 0.1 * x
        return mean, mean.clone()

    return scan(step, torch.zeros(xs.shape[1]), xs)[1]


def averages_unrolled(xs):
    mean, means = torch.zeros(xs.shape[1]), []
    for x in xs:
        mean = 0.9 * mean + 0.1 * x
        means.append(mean)
    return torch.stack(means)


def test_row_42_scan_holds_the_body_once_a_python_loop_once_a_round():
    sizes = {}
    for rows in (5, 10):
        xs = torch.randn(rows, 3)
        runs = [first_call(fn, xs) for fn in (averages, averages_unrolled)]
        torch.testing.assert_close(runs[0].result, runs[1].result)
        sizes[rows] = [len(run.graphs[0].calls()) for run in runs]
    assert sizes[5][0] == sizes[10][0]
    assert sizes[10][1] > 1.8 * sizes[5][1]


def test_row_42_while_loop_runs_as_often_as_the_values_ask():
    def halve(x):
        def too_large(x, rounds):
            return x.max() > 1

        return while_loop(too_large, lambda x, n: (x / 2, n + 1), (x, torch.zeros((), dtype=torch.int64)))

    fast = torch.compile(halve, backend="aot_eager", fullgraph=True)
    torch.compiler.reset()
    runs = [observe(fast, torch.tensor([value, 0.5])) for value in (3.0, 50.0)]
    assert [int(run.result[1]) for run in runs] == [2, 6]
    assert [len(run.graphs) for run in runs] == [1, 0]
