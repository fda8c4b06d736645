"""Symptoms 14 to 20: torch.cond."""

import pytest
import torch

from compilescope import observe
from rows import TORCH, row

X = torch.ones(4)


def conditional(yes, no):
    def f(x):
        return torch.cond(x.sum() > 0, yes, no, (x,))

    return f


def accepted(yes, no, x=X, backend="aot_eager"):
    return observe(torch.compile(conditional(yes, no), backend=backend, fullgraph=True), x)


def refused(yes, no, x=X, f=None):
    """The graph-break numbers of a compile that raises."""
    with observe() as run, pytest.raises(Exception):  # noqa: B017, PT011 - the type differs between the versions
        torch.compile(f or conditional(yes, no), backend="aot_eager", fullgraph=True)(x)
    assert run.calls[0].outcome == "error"
    return [found.gb for found in run.breaks]


def has_cond(run):
    return any("cond" in node.target for graph in run.graphs for node in graph.calls())


@row("14")
def test_a_branch_that_returns_its_input_is_refused_and_a_clone_is_accepted():
    assert refused(lambda x: x, lambda x: x * 2) == ["GB0040"]
    torch.compiler.reset()
    assert has_cond(accepted(lambda x: x.clone(), lambda x: x * 2))


@row("14")
def test_it_is_refused_outside_a_compile_as_well():
    with pytest.raises(Exception):  # noqa: B017, PT011 - the type differs between the versions
        conditional(lambda x: x, lambda x: x * 2)(X)


@row("15")
def test_a_branch_that_changes_its_input_is_refused_with_gradients():
    x = torch.ones(4, requires_grad=True) * 1
    assert refused(lambda x: x.add_(1).clone(), lambda x: x * 2, x) == ["GB0041"]


@row("15")
def test_a_branch_that_changes_its_input_is_accepted_without_gradients_since_2_12():
    def f(x):
        with torch.no_grad():
            return torch.cond(x.sum() > 0, lambda x: x.add_(1).clone(), lambda x: x * 2, (x,))

    x = torch.ones(4)
    if TORCH < (2, 12):
        assert refused(None, None, x, f) == ["GB0041"]
        return
    with torch.no_grad():
        run = observe(torch.compile(f, backend="aot_eager", fullgraph=True), x)
    assert has_cond(run)
    assert x.tolist() == [2.0] * 4


@row("16")
def test_branches_of_different_dtype_are_refused_and_a_cast_is_accepted():
    assert refused(lambda x: x.double() * 2, lambda x: x * 3) == ["GB4315"]
    torch.compiler.reset()
    assert has_cond(accepted(lambda x: x.double() * 2, lambda x: x.double() * 3))


@row("17")
def test_branches_of_different_shape_are_merged_into_a_size_that_is_not_known():
    run = accepted(lambda x: x[:2] * 2, lambda x: x * 3)
    assert has_cond(run)
    assert run.result.shape == (2,)
    sizes = {size for graph in run.graphs for node in graph.nodes for size in node.shape or ()}
    assert any(isinstance(size, str) and size.startswith("u") for size in sizes)


@row("18")
def test_branches_with_a_different_number_of_outputs_are_refused():
    assert refused(lambda x: (x * 2, x * 3), lambda x: (x * 2,)) == ["GB0313"]


@row("19")
def test_branches_that_differ_in_requires_grad_are_accepted_and_the_gradient_flows():
    x = torch.ones(4, requires_grad=True)
    with observe() as run:
        f = torch.compile(conditional(lambda x: x * 2, lambda x: x.detach() * 3), backend="aot_eager", fullgraph=True)
        f(x).sum().backward()
    assert has_cond(run)
    assert x.grad.tolist() == [2.0] * 4
    assert run.compiles[0].graph("backward")


@row("20")
def test_a_predicate_of_several_elements_is_refused_and_any_is_accepted():
    def each(x):
        return torch.cond(x > 0, lambda x: x * 2, lambda x: x * 3, (x,))

    def any_of_them(x):
        return torch.cond((x > 0).any(), lambda x: x * 2, lambda x: x * 3, (x,))

    assert refused(None, None, X, each) == []  # it is the captured graph that raises
    torch.compiler.reset()
    assert has_cond(observe(torch.compile(any_of_them, backend="aot_eager", fullgraph=True), X))
