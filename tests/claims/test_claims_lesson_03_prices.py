"""Lesson 3, what a remedy costs and where it does not hold: traps of `where`, `cond`, `while_loop` and the doors."""

import bisect
import contextlib
import io
import logging
import math
import re
import time
import warnings

import numpy as np
import pytest
import torch
import torch._dynamo as dynamo
from torch._higher_order_ops import while_loop

from compilescope import observe
from first_calls import first_call, refused, targets

X = torch.linspace(0.1, 1.0, 8)
LIMIT = torch.tensor(1.0)


def clip(x, limit):
    norm = x.norm()
    return (x * (limit / norm) if norm > limit else x).tanh()


def by_factor(x, limit):
    return (x * (limit / x.norm().clamp(min=limit))).tanh()


def by_cond(x, limit):
    norm = x.norm()
    return torch.cond(norm > limit, lambda x: x * (limit / norm), lambda x: x.clone(), (x,)).tanh()


def by_safe_where(x, limit):
    norm = x.norm()
    safe = torch.where(norm > limit, norm, 1)
    return torch.where(norm > limit, x * (limit / safe), x).tanh()


def by_late_clamp(x, limit):
    return (x * (limit / x.norm()).clamp(max=1)).tanh()


def by_where(x, limit):
    norm = x.norm()
    return torch.where(norm > limit, x * (limit / norm), x).tanh()


def gradient(fn, x):
    leaf = x.clone().requires_grad_()
    fn(leaf, LIMIT).sum().backward()
    return leaf.grad


def both_ways(fn):
    torch.compiler.reset()
    return fn, torch.compile(fn, backend="aot_eager", fullgraph=True)


@pytest.mark.parametrize("fn", [by_factor, by_cond, by_safe_where])
def test_a_clip_with_a_safe_divisor_has_the_gradients_of_the_branch_also_at_zero(fn):
    for one in both_ways(fn):
        assert gradient(one, torch.zeros(8)).tolist() == [1.0] * 8
        for x in (X * 10, X / 10):
            torch.testing.assert_close(gradient(one, x), gradient(clip, x))


@pytest.mark.parametrize("fn", [by_late_clamp, by_where])
def test_an_inf_on_the_side_not_taken_gives_a_nan_gradient(fn):
    for one in both_ways(fn):
        torch.testing.assert_close(one(torch.zeros(8), LIMIT), torch.zeros(8))  # the value is right
        assert gradient(one, torch.zeros(8)).isnan().all()


def on_h100(fn):
    torch.compiler.reset()
    fast = torch.compile(fn, backend="eager", fullgraph=True)
    return observe(fast, torch.ones(1000), LIMIT, on="h100").pretended[0]


def test_nothing_is_fused_across_a_cond_and_the_host_reads_the_predicate():
    one, several = on_h100(by_factor), on_h100(by_cond)
    assert len(one.graphs) == len(several.graphs) == 1
    assert (len(one.kernels), len(several.kernels)) == (1, 4)
    plain, branched = ("".join(code.text for code in run.compiles[0].code) for run in (one, several))
    assert (".item()" in plain, ".item()" in branched) == (False, True)
    sides = re.findall(r"def (?:true|false)_graph_0\(args\):.*?return", branched, re.DOTALL)
    assert [side.count(".run(") for side in sides] == [1, 1]  # so a call runs three of the four


def one_side_only(choose):
    """A cond with branches that every rule forbids: an alias, and another dtype."""
    return lambda x: torch.cond(choose(x), lambda x: x, lambda x: x.double(), (x,))


def test_the_rules_of_cond_hold_in_eager_for_a_tensor_and_not_for_a_python_bool():
    with pytest.raises(Exception):  # noqa: B017, PT011 - the type differs between the versions
        one_side_only(lambda x: x.sum() > 0)(X)
    assert one_side_only(lambda x: True)(X) is X
    assert one_side_only(lambda x: len(x) > 9)(X).dtype == torch.float64


def test_a_static_size_is_decided_while_tracing_and_a_dynamic_one_is_not():
    branch = lambda x: torch.cond(len(x) > 4, lambda x: x * 2, lambda x: x.double(), (x,))  # noqa: E731
    run = first_call(branch, X, fullgraph=True)
    assert targets(run) == ["operator.mul"]
    refused(branch, X, fullgraph=True, dynamic=True)


def test_the_doors_into_the_graph_run_their_python_again_with_backend_eager_only():
    nonstrict_trace = getattr(torch.compiler, "nonstrict_trace", None) or dynamo.nonstrict_trace
    for door in (nonstrict_trace, torch.compiler.allow_in_graph):
        for backend, each_call in (("eager", 1), ("aot_eager", 0)):
            calls = []

            def smooth(x, calls=calls):
                calls.append(time.perf_counter())
                return (x + x.roll(1)) / 2

            inside = door(smooth)
            fast = torch.compile(lambda x, inside=inside: inside(x.sin()).cos(), backend=backend, fullgraph=True)
            torch.compiler.reset()
            fast(X)
            traced = len(calls)
            fast(X), fast(X)
            assert len(calls) - traced == 2 * each_call


def test_error_on_graph_break_is_in_torch_dynamo_and_not_in_torch_compiler():
    assert hasattr(dynamo, "error_on_graph_break")
    assert not hasattr(torch.compiler, "error_on_graph_break")


def halve(x):
    start = x, torch.zeros((), dtype=torch.int64)
    return while_loop(lambda x, n: x.abs().max() > 1, lambda x, n: (x / 2, n + 1), start)


def reached_the_backend(run):
    graphs = [graph for one in run.compiles for graph in one.graphs if graph.stage == "forward"]
    return any("while_loop" in graph.text for graph in graphs)


def test_a_while_loop_with_gradients_needs_fullgraph():
    leaf = torch.tensor([3.0, 50.0], requires_grad=True)
    assert len(first_call(halve, leaf.detach()).graphs) == 1
    whole = first_call(halve, leaf, fullgraph=True)
    assert (len(whole.graphs), whole.breaks) == (1, ())
    whole.result[0].sum().backward()
    assert leaf.grad.tolist() == [1 / 64] * 2
    plain = first_call(halve, leaf)
    assert len(plain.graphs) == 3
    assert "GB0219" in [stop.gb for stop in plain.breaks]
    assert (reached_the_backend(whole), reached_the_backend(plain)) == (True, False)
    torch.testing.assert_close(plain.result, whole.result)


@pytest.mark.parametrize(
    ("fn", "graphs"),
    [
        (lambda x: x * math.sqrt(2.0) + 1, 1),
        (lambda x: torch.from_numpy(np.fft.fft(x.numpy()).real) + 1, 1),
        (lambda x: x * 2 + bisect.bisect([1, 2], 1.5), 2),
    ],
    ids=["math", "fft", "bisect"],
)
def test_a_c_library_breaks_where_dynamo_has_no_rule_for_it(fn, graphs):
    assert len(first_call(fn, X).graphs) == graphs


def in_finally(x):
    try:
        x = x.sin()
    finally:
        print(end="")
    return x + 1


def in_except(x):
    x = x.sin()
    try:
        raise ValueError
    except ValueError:
        print(end="")
    return x + 1


def talks(x):
    x = x * 2
    print(end="")
    return x + 1


def calls_what_talks(x):
    x = x.sin()
    for _ in range(3):
        x = talks(x)
    return x + 1


def test_a_break_in_finally_costs_the_graph_only_and_one_in_except_the_function():
    assert len(first_call(in_finally, X).graphs) == 2
    run = first_call(in_except, X)
    assert (run.graphs, [one.kind for one in run.not_compiled]) == ((), ["break in try"])


def test_what_a_loop_calls_is_compiled_though_the_function_of_the_loop_is_given_up():
    run = first_call(calls_what_talks, X)
    assert [one.function.rpartition(".")[2] for one in run.not_compiled] == ["calls_what_talks"]
    assert len(run.graphs) == 2
    assert not any("sin" in target for target in targets(run))


def test_a_function_is_given_up_without_a_warning():
    def in_loop(x):
        for _ in range(3):
            x = x * 2
            print(end="")
        return x

    told = io.StringIO()
    handler, logger = logging.StreamHandler(told), logging.getLogger("torch")
    handler.setLevel(logging.WARNING)
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert first_call(in_loop, X).graphs == ()
    finally:
        logger.removeHandler(handler)
    assert [one for one in caught if "_dynamo" in one.filename] == []
    assert told.getvalue() == ""


def test_capture_scalar_outputs_captures_item_without_fullgraph():
    item = lambda x: x / x.abs().max().item()  # noqa: E731
    assert len(first_call(item, X).graphs) == 2
    with dynamo.config.patch(capture_scalar_outputs=True):
        assert len(first_call(item, X).graphs) == 1


def prints(x):
    y = x * 2
    print(f"mean {y.mean():.2f}")
    return y + 1


def prints_in_a_loop(x):
    for number in range(2):
        x = x * 2
        print("round", number)
    return x


@pytest.mark.parametrize(
    ("fn", "before", "said"), [(prints, 2, ["mean 1.10"]), (prints_in_a_loop, 0, ["round 0", "round 1"])]
)
def test_a_reorderable_print_waits_for_the_end_of_its_graph(fn, before, said):
    assert len(first_call(fn, X).graphs) == before
    fast = torch.compile(fn, backend="aot_eager", fullgraph=True)
    torch.compiler.reset()
    with dynamo.config.patch(reorderable_logging_functions={print}):
        for graphs in (1, 0):
            with contextlib.redirect_stdout(io.StringIO()) as told:
                assert len(observe(fast, X).graphs) == graphs
            assert told.getvalue().splitlines() == said
