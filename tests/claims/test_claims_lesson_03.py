"""Lesson 3: what the running torch does about each claim of the source texts that the lesson teaches.

Each test is named after its row of the syllabus, ``test_row_NN_…``. Where versions differ, the test says from which on.
"""

import logging
import time

import pytest
import torch
import torch._dynamo as dynamo
from torch._dynamo.exc import Unsupported

from compilescope import observe
from compilescope.pretend import preview
from first_calls import first_call, refused, targets

VERSION = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
X = torch.linspace(0.1, 1.0, 8)
logger = logging.getLogger("tests.claims")


def talks(x):
    y = x.sin()
    print(end="")
    return y * 2


def clip(x, limit):
    norm = x.norm()
    if norm > limit:
        x = x * (limit / norm)
    return x.tanh()


def test_row_04_a_whole_epoch_is_given_up_for_its_log_line():
    def epoch(weight, batches):
        for x in batches:
            loss = (x * weight).square().mean()
            print(end="")
            weight = weight - 0.1 * loss
        return weight

    run = first_call(epoch, X, [X, X])
    assert run.graphs == ()
    assert [(one.function.rpartition(".")[2], one.kind) for one in run.not_compiled] == [("epoch", "break in loop")]


@torch.compiler.disable
def left_alone(x):
    return x.cos()


def calls_left_alone(x):
    return left_alone(x.sin()) * 2


def test_row_18_disable_leaves_a_function_with_all_it_calls_to_python():
    run = first_call(calls_left_alone, X)
    assert len(run.graphs) == 2
    assert not any("cos" in target for target in targets(run))
    assert [one.kind for one in run.not_compiled] == ["disabled"]
    assert refused(calls_left_alone, X, error=Unsupported, fullgraph=True).breaks[0].gb == "GB0098"


def test_row_18_error_on_graph_break_can_be_switched_off_for_some_lines():
    def strict_but_for_one(x):
        with dynamo.error_on_graph_break(True):
            y = x.sin()
            with dynamo.error_on_graph_break(False):
                y = left_alone(y)
            return y * 2

    def strict(x):
        with dynamo.error_on_graph_break(True):
            return talks(x)

    assert len(first_call(strict_but_for_one, X).graphs) == 2
    refused(strict, X, error=Unsupported)


def test_row_18_a_function_that_dynamo_does_not_read_runs_its_python_while_tracing_only():
    nonstrict_trace = getattr(torch.compiler, "nonstrict_trace", None) or dynamo.nonstrict_trace
    for door in (nonstrict_trace, torch.compiler.allow_in_graph):
        calls = []

        def smooth(x, calls=calls):
            calls.append(time.perf_counter())
            return (x + x.roll(1)) / 2

        inside = door(smooth)
        fast = torch.compile(lambda x, inside=inside: inside(x.sin()).cos(), backend="aot_eager", fullgraph=True)
        torch.compiler.reset()
        run = observe(fast, X)
        traced = len(calls)
        fast(X), fast(X)
        assert len(run.graphs) == 1
        assert "aten.roll.default" in targets(run, "inference")
        assert traced >= 1
        assert len(calls) == traced


def test_row_18_torch_compiler_offers_config_reset_disable_and_allow_in_graph():
    assert {"reset", "disable", "allow_in_graph"} <= set(torch.compiler.__all__)
    assert hasattr(torch.compiler, "config")


def test_row_18_nonstrict_trace_has_a_public_name_from_2_14_on():
    assert hasattr(torch.compiler, "nonstrict_trace") == (VERSION >= (2, 14))
    assert hasattr(dynamo, "nonstrict_trace")


def test_row_28_a_break_keeps_results_right_on_both_sides_of_the_branch():
    limit = torch.tensor(1.0)
    fast = torch.compile(clip, backend="aot_eager")
    torch.compiler.reset()
    for x, graphs in ((X * 10, 2), (X / 10, 1), (X * 10, 0), (X / 10, 0)):
        run = observe(fast, x, limit)
        assert len(run.graphs) == graphs
        torch.testing.assert_close(run.result, clip(x, limit))


def item(x):
    return x / x.abs().max().item()


def test_row_33_fullgraph_makes_a_break_an_error():
    run = refused(talks, X, error=Unsupported, fullgraph=True)
    assert run.graphs == ()
    assert run.breaks[0].gb == "GB0059"


def test_row_33_fullgraph_captures_item():
    assert [stop.gb for stop in first_call(item, X).breaks] == ["GB0124"]
    run = first_call(item, X, fullgraph=True)
    assert len(run.graphs) == 1
    assert "Tensor.item" in targets(run)


def branch(x):
    return (x if x.sum() > 0 else -x) * 2


def logs(x):
    y = x * 2
    logger.info("so far")
    return y + 1


def clock(x):
    return x * 2 + 0 * time.perf_counter()


def size_branch(x):
    return (x if len(x) > 3 else -x) * 2


def array(x):
    return torch.from_numpy((x * 2).numpy().clip(0)) + 1


@pytest.mark.parametrize("fn", [branch, item, talks, logs, clock, calls_left_alone])
def test_row_36_values_the_world_outside_and_disabled_functions_break(fn):
    run = first_call(fn, X)
    assert len(run.graphs) == 2
    assert run.breaks[0].gb


@pytest.mark.parametrize("fn", [size_branch, array])
def test_row_36_sizes_and_numpy_do_not_break(fn):
    run = first_call(fn, X)
    assert len(run.graphs) == 1
    assert run.breaks == ()


def test_row_36_nothing_is_fused_across_a_break():
    def bright(image):
        return (image * 1.5).clamp(0, 1) ** 0.45

    def cut(image):
        image = (image * 1.5).clamp(0, 1)
        print(end="")
        return image**0.45

    def moved(fn):
        (run,) = preview(fn, torch.rand(512, 512))
        return len(run.kernels), sum(kernel.bytes_read + kernel.bytes_written for kernel in run.kernels)

    whole, halves = moved(bright), moved(cut)
    assert (whole[0], halves[0]) == (1, 2)
    assert halves[1] == 2 * whole[1]


def in_loop(x):
    x = x.sin()
    for _ in range(3):
        x = x * 2
        print(end="")
    return x + 1


class Quiet:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


def in_with(x):
    with Quiet():
        x = x * 2
        print(end="")
    return x + 1


def in_try(x):
    try:
        x = x * 2
        print(end="")
    except ValueError:
        pass
    return x + 1


@pytest.mark.parametrize("fn", [in_loop, in_with, in_try])
def test_row_36_a_break_in_a_loop_a_with_or_a_try_costs_the_whole_function(fn):
    run = first_call(fn, X)
    assert run.graphs == ()
    assert run.not_compiled[0].kind.startswith("break in ")


def in_no_grad(x):
    with torch.no_grad():
        x = x * 2
        print(end="")
        x = x.sin()
    return x + 1


def in_autocast(x):
    with torch.autocast("cpu"):
        x = x * 2
        print(end="")
        x = x.sin()
    return x + 1


@pytest.mark.parametrize("fn", [in_no_grad, in_autocast])
def test_row_36_a_break_in_a_context_of_pytorch_costs_only_the_graph(fn):
    assert len(first_call(fn, X).graphs) == 2


def test_row_36_explain_counts_minus_one_breaks_where_the_function_is_given_up():
    explained = dynamo.explain(in_loop)(X)
    assert (explained.graph_count, explained.graph_break_count) == (0, -1)
    explained = dynamo.explain(talks)(X)
    assert (explained.graph_count, explained.graph_break_count) == (2, 1)
    assert explained.break_reasons[0].user_stack[-1].line == 'print(end="")'


def test_row_36_a_break_in_a_called_function_splits_the_caller_too():
    def outer(x):
        return talks(x.cos()) + 1

    run = first_call(outer, X)
    assert len(run.graphs) == 4
    assert [stop.in_callee for stop in run.breaks] == [True, False]


def library_codes(x):
    return torch.tensor([len(str(value)) for value in x.tolist()])


def test_row_36_a_library_call_becomes_one_node_as_a_custom_op_with_a_fake():
    @torch.library.custom_op("claims::codes", mutates_args=())
    def codes(x: torch.Tensor) -> torch.Tensor:
        return library_codes(x)

    assert first_call(lambda x: library_codes(x.sin()) + 1, X).breaks
    run = refused(lambda x: codes(x.sin()) + 1, X)  # no fake: it raises, with or without fullgraph
    assert run.calls[0].outcome == "error"
    codes.register_fake(lambda x: torch.empty(x.shape, dtype=torch.int64))
    run = first_call(lambda x: codes(x.sin()) + 1, X, fullgraph=True)
    assert "claims.codes.default" in targets(run)
    assert set(torch.library.opcheck(codes, (X,)).values()) == {"SUCCESS"}


def test_row_36_a_log_line_outside_leaves_one_graph():
    def core(x):
        y = x.sin()
        return y * 2, y.mean()

    assert len(first_call(core, X, fullgraph=True).graphs) == 1
