"""Lesson 2, beyond what holds for every lesson: what its exercises draw."""

import pytest

from autograder.exercise import Draw
from autograder.exercises.timing import break_even, choose, lies, moved, steady

SEEDS = range(30)


def one_by_one(case, most=10**6):
    """`break_even.paid_after` by adding up each call."""
    mine = theirs = 0
    for n in range(1, most + 1):
        mine += case["warmup"][n - 1] if n <= len(case["warmup"]) else case["compiled"]
        theirs += case["eager"]
        if mine <= theirs:
            return n
    return None


def test_the_break_even_of_the_check_is_that_of_adding_up_each_call():
    for seed in range(3):
        for case in break_even.ask(Draw(seed))["cases"]:
            assert break_even.paid_after(case) == one_by_one(case)


@pytest.mark.parametrize("kind", lies.LIES)
def test_what_is_wrong_with_a_benchmark_can_be_told_from_its_spans_alone(kind):
    assert {lies.lie_of(lies.time_line(kind, Draw(seed))) for seed in SEEDS} == {kind}


def test_each_check_of_the_lies_has_every_answer_once_and_in_an_order_of_its_own():
    orders = [tuple(lies.lie_of(lies.spans_of(one)) for one in lies.ask(Draw(seed))["benchmarks"]) for seed in SEEDS]
    assert {tuple(sorted(order)) for order in orders} == {tuple(sorted(lies.LIES))}
    assert len(set(orders)) > 10


def test_the_bytes_of_one_kernel_are_those_predicted_and_several_kernels_move_more():
    for seed in range(2):
        runs = moved.ask(Draw(seed))
        for name, run in runs.items():
            predicted, counted = moved.fused_bytes(run.graphs[0]), moved.moved_by(run.pretended[0].kernels)
            assert (len(run.pretended[0].kernels) == 1) == (name == "one kernel")
            assert counted == predicted if name == "one kernel" else counted > predicted
            assert moved.eager_bytes(run.graphs[0]) > counted


def test_neither_greedy_way_finds_the_best_choice():
    for seed in range(5):
        for program in choose.ask(Draw(seed))["programs"]:
            parts, startup = program["parts"], program["startup"]
            names, least = choose.best(parts, startup)
            assert sum(part["first"] for part in parts if part["name"] in names) <= startup
            assert all(choose.total(parts, way(parts, startup)) > least for way in (choose.by_gain, choose.by_rate))


def test_a_mean_the_fastest_call_and_a_median_with_the_warm_up_are_all_far_from_the_median():
    for seed in SEEDS:
        asked = steady.ask(Draw(seed))
        calls = asked["calls"][asked["warmup"] :]
        median = sorted(calls)[len(calls) // 2]
        with_warmup = sorted(asked["calls"])
        wrong = (sum(calls) / len(calls), min(calls), with_warmup[len(with_warmup) // 2])
        assert all(abs(one - median) > 1e-7 for one in wrong)
