"""Symptoms 1 to 8: graph breaks, and what takes them away."""

import logging
import warnings

import pytest
import torch
import torch._dynamo as dynamo
from torch._dynamo.exc import Unsupported

from compilescope import observe
from rows import TORCH, row

X = torch.ones(4)
logger = logging.getLogger("tests.symptoms")


def compiled(fn, **options):
    return torch.compile(fn, backend="eager", **options)


def refused(fn, *args):
    """The run of a fullgraph compile that raises."""
    with observe() as run, pytest.raises(Unsupported):
        compiled(fn, fullgraph=True)(*args)
    return run


def targets(run):
    return [node.target for graph in run.graphs for node in graph.calls()]


def branch(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


@row("1")
def test_a_branch_on_a_tensors_value_makes_two_graphs_and_is_refused_by_fullgraph():
    run = observe(compiled(branch), X)
    assert len(run.graphs) == 2
    (found,) = run.breaks
    assert (found.gb, found.source.code) == ("GB0170", "if x.sum() > 0:")
    assert found.before == run.compiles[0].compile_id
    assert found.after == run.compiles[1].compile_id
    assert run.compiles[1].is_resume
    torch.compiler.reset()
    run = refused(branch, X)
    assert [found.gb for found in run.breaks] == ["GB0170"]
    assert not run.graphs
    assert run.calls[0].outcome == "error"


@row("1")
def test_where_in_place_of_the_branch_is_one_graph():
    run = observe(compiled(lambda x: torch.where(x.sum() > 0, x + 1, x - 1), fullgraph=True), X)
    assert len(run.graphs) == 1
    assert not run.breaks


def half(x):
    return x * x.sum().item()


def halves(x):
    return x * sum(x.tolist())


@row("2", "3")
def test_item_breaks_by_default_and_not_with_fullgraph():
    run = observe(compiled(half), X)
    assert len(run.graphs) == 2
    assert run.breaks[0].source.code == "return x * x.sum().item()"
    torch.compiler.reset()
    run = observe(compiled(half, fullgraph=True), X)
    assert len(run.graphs) == 1
    assert "Tensor.item" in targets(run)


@row("2")
def test_item_does_not_break_with_capture_scalar_outputs():
    with dynamo.config.patch(capture_scalar_outputs=True):
        run = observe(compiled(half), X)
    assert len(run.graphs) == 1
    assert not run.breaks


@row("4")
def test_tolist_of_floats_breaks_where_item_would_not():
    run = observe(compiled(halves), X)
    assert run.breaks[0].source.code == "return x * sum(x.tolist())"
    torch.compiler.reset()
    run = refused(halves, X)
    assert run.breaks[0].gb == "GB0109"


@row("4")
def test_tolist_of_integers_behaves_like_item():
    whole = torch.tensor([1, 2])
    run = observe(compiled(halves), whole)
    assert run.breaks
    torch.compiler.reset()
    run = observe(compiled(halves, fullgraph=True), whole)
    assert len(run.graphs) == 1


def in_for(x):
    for _ in range(3):
        x = x + 1
        print(end="")
    return x


def in_try(x):
    try:
        x = x + 1
        print(end="")
    except ValueError:
        x = x - 1
    return x


@row("5")
@pytest.mark.parametrize(("fn", "kind"), [(in_for, "break in loop"), (in_try, "break in try")])
def test_a_break_inside_a_block_makes_the_whole_frame_plain_python(fn, kind):
    run = observe(compiled(fn), X)
    assert len(run.graphs) == 0
    (found,) = run.not_compiled
    assert (found.function, found.kind) == (fn.__name__, kind)
    assert found.source.code == 'print(end="")'
    assert found.remedy
    assert run.calls[0].outcome == "never compiled"


class Quiet:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


def in_own_with(x):
    with Quiet():
        x = x + 1
        print(end="")
    return x


@row("5")
def test_a_break_inside_a_with_of_your_own_makes_the_whole_frame_plain_python():
    run = observe(compiled(in_own_with), X)
    assert len(run.graphs) == 0
    assert [found.kind for found in run.not_compiled] == ["break in with"]


def after_for(x):
    for _ in range(3):
        x = x + 1
    print(end="")
    return x * 2


@row("5")
def test_the_same_break_after_the_loop_leaves_graphs():
    assert len(observe(compiled(after_for), X).graphs) == 2


def talks(x):
    y = x * 2
    print(end="")
    return y + 1


def calls_talks(x):
    y = torch.sin(x)
    return torch.cos(talks(y))


@row("6")
def test_a_break_in_a_called_function_splits_the_caller_too():
    run = observe(compiled(calls_talks), X)
    assert len(run.graphs) == 4
    outer, inner = run.breaks
    assert (outer.in_callee, inner.in_callee) == (True, False)
    assert {outer.source.code, inner.source.code} == {'print(end="")'}
    assert {one.function for one in run.compiles if one.graphs} >= {"calls_talks", "talks"}


def logs(x):
    y = x + 1
    logger.info("so far")
    return y * 2


def warns(x):
    y = x + 1
    warnings.warn("so far", stacklevel=1)
    return y * 2


@row("7")
@pytest.mark.parametrize("fn", [talks, logs, warns])
def test_print_logging_and_warnings_are_refused_by_fullgraph(fn):
    run = refused(fn, X)
    (found,) = run.breaks
    assert found.gb
    assert found.source.code in ('print(end="")', 'logger.info("so far")', 'warnings.warn("so far", stacklevel=1)')


def says(x):
    y = x * 2
    print("half way", y)
    return y + 1


@row("7")
def test_print_can_be_moved_behind_the_graph():
    with dynamo.config.patch(reorderable_logging_functions={print}):
        run = observe(compiled(says), X)
    assert len(run.graphs) == 1
    assert not run.breaks


@row("7")
def test_print_with_keywords_can_be_moved_up_to_2_13_only():
    with dynamo.config.patch(reorderable_logging_functions={print}):
        run = observe(compiled(talks), X)
    if TORCH < (2, 14):
        assert len(run.graphs) == 1
    else:
        assert len(run.graphs) == 2
        assert run.breaks[0].gb == "GB0296"


@row("7")
def test_a_logging_function_can_be_left_out():
    with dynamo.config.patch(ignore_logging_functions={logger.info}):
        run = observe(compiled(logs, fullgraph=True), X)
    assert len(run.graphs) == 1


def talks_in_eager_only(x):
    y = x + 1
    if not torch.compiler.is_compiling():
        print(end="")
    return y * 2


@row("7")
def test_print_under_is_compiling_leaves_one_graph():
    assert len(observe(compiled(talks_in_eager_only, fullgraph=True), X).graphs) == 1


@torch.compiler.disable
def plain(x):
    return x * 2


def calls_plain(x):
    return plain(x + 1) - 1


def may_break(x):
    with dynamo.error_on_graph_break(False):
        return plain(x + 1) - 1


@row("8")
def test_a_disabled_function_is_refused_by_fullgraph():
    run = refused(calls_plain, X)
    assert run.breaks[0].source.code == "return plain(x + 1) - 1"
    assert run.breaks[0].gb


@dynamo.error_on_graph_break(True)
def strict_but_for_plain(x):
    y = torch.sin(x)
    with dynamo.error_on_graph_break(False):
        y = plain(y)
    return y - 1


@row("8")
def test_error_on_graph_break_lets_one_region_break():
    run = observe(compiled(strict_but_for_plain), X)
    assert len(run.graphs) == 2
    assert run.calls[0].outcome == "first compile"
