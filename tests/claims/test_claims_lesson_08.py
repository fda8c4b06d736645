"""Lesson 8: what the running torch does about each claim of the source texts that the lesson teaches.

Each test is named after its row of the syllabus, ``test_row_NN_…``.
"""

import torch
from torch import nn

from autograder.exercises.capstone.planted import GPT
from autograder.judging import eager_operations
from compilescope import observe
from compilescope.clauses import operations
from compilescope.recorded import recorded_modes

LETTERS = 12


def gpt(depth=3, limit=None):
    torch.manual_seed(0)
    return GPT(LETTERS, width=8, depth=depth, limit=limit)


def ids(rows=3, length=7):
    return torch.arange(rows * length).reshape(rows, length) % LETTERS


def first_call(model, *args):
    torch.compiler.reset()
    with torch.no_grad():
        return observe(model, *args)


def whole(model, **options):
    model.compile(backend="aot_eager", **options)
    return model


def by_block(model):
    for block in model.blocks:
        block.compile(backend="aot_eager")
    return model


def test_row_01_the_highest_function_that_makes_no_trouble_is_one_graph_with_everything_in_it():
    model = gpt(depth=1)
    model(ids())  # makes the mask
    model.calls = torch.tensor(0)
    assert len(first_call(whole(model), ids()).graphs) == 1
    with torch.no_grad():
        assert eager_operations(model, ids()) == ()
        below = by_block(gpt(depth=1))
        below(ids())
        assert "aten::embedding" in eager_operations(below, ids())


def test_row_01_with_a_branch_on_a_value_in_its_blocks_the_same_place_leaves_the_forward_in_plain_python():
    run = first_call(whole(gpt(limit=30.0)), ids())
    assert [one.function for one in run.not_compiled] == ["GPT.forward"]
    assert len(run.graphs) > 1
    assert run.breaks


def test_row_01_a_fault_that_ran_as_plain_python_compiles_again_once_the_break_is_cured():
    model = whole(gpt(depth=1))
    model.calls = torch.tensor(0)
    torch.compiler.reset()
    with torch.no_grad(), observe() as run:
        for length in (7, 9, 11, 13):
            model(ids(3, length))
    assert [bool(call.compile_ids) for call in run.calls] == [True] * 4


def test_row_21_each_place_of_the_list_compiles_and_a_whole_model_traces_each_block():
    traced = {
        (place.__name__, depth): operations(first_call(place(gpt(depth)), ids()))
        for place in (whole, by_block)
        for depth in (1, 2)
    }
    shared = gpt(2)
    for block in shared.blocks:
        block.number = torch.tensor(block.number)
    block = operations(first_call(by_block(shared), ids()))
    assert traced["whole", 2] > traced["whole", 1]
    assert traced["by_block", 2] > traced["by_block", 1]
    assert block < traced["by_block", 2]
    assert block < traced["whole", 1]


def test_row_21_the_step_and_a_function_that_takes_the_model_compile_too():
    def scores_of(model, ids):
        return model(ids)

    run = first_call(torch.compile(scores_of, backend="aot_eager"), gpt(depth=1), ids())
    assert len(run.graphs) == 1

    def step(model, optimizer, ids):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
        loss.backward()
        optimizer.step()

    model = gpt(depth=1)
    torch.compiler.reset()
    run = observe(torch.compile(step, backend="aot_eager"), model, torch.optim.SGD(model.parameters(), lr=0.1), ids())
    assert len(run.graphs) >= 2


def test_row_45_compile_on_wins_for_some_workloads_and_loses_for_others():
    table = recorded_modes("modes")
    modes = {}
    for one in table.trials:
        modes.setdefault(one.workload, {})[one.mode] = one.steady_us
    pairs = {name: (of["eager"], of["default"]) for name, of in modes.items() if {"eager", "default"} <= set(of)}
    slower = [name for name, (eager, default) in pairs.items() if default > eager]
    assert len(slower) >= 3
    assert len(slower) < len(pairs)


def test_compile_pays_where_kernels_become_fewer():
    table = recorded_modes("modes")
    fewer = {}
    for name in {one.workload for one in table.trials}:
        eager, default = (table.trial(name, mode) for mode in ("eager", "default"))
        fewer[name] = (eager.kernels / default.kernels, eager.steady_us / default.steady_us)
    gains = {name: gain for name, (_, gain) in fewer.items()}
    assert all(gains[name] > 1.2 for name in ("pointwise chain", "decode", "prefill"))
    assert all(fewer[name][0] < 1.1 for name, gain in gains.items() if gain < 1)


def test_the_mean_of_the_first_calls_calls_compile_slower_also_where_it_wins():
    table = recorded_modes("modes")

    def mean(workload, mode):
        calls = table.trial(workload, mode).calls
        return sum(call.seconds for call in calls) / len(calls)

    for workload in ("decode", "prefill", "pointwise chain"):
        eager, compiled = (table.trial(workload, mode) for mode in ("eager", "default"))
        assert compiled.steady_us < eager.steady_us
        assert mean(workload, "default") > mean(workload, "eager")


def test_max_autotune_is_done_first_only_where_a_process_lives_very_many_calls():
    table = recorded_modes("modes")

    def first(calls):
        return min(table.of("decode"), key=lambda trial: trial.total_s(calls)).mode

    assert first(10_000) == "reduce-overhead"
    assert first(10_000_000) == "max-autotune"


def test_row_45_the_switch_turns_compile_off_without_a_change_of_the_model():
    model = whole(gpt(depth=1))
    with torch.compiler.set_stance("force_eager"):
        assert first_call(model, ids()).graphs == ()
    assert len(first_call(model, ids()).graphs) == 1
