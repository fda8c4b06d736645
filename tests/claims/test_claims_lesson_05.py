"""Lesson 5: what the running torch, and the recording from an H200, say about each claim of the source texts.

Each test is named after its row of the syllabus, ``test_row_NN_…``. What only a GPU can show is asserted of the
recording (`assets/recorded`), which names its torch; `tests/gpu` asserts it live.
"""

from unittest.mock import MagicMock

import pytest
import torch
from torch._inductor import cudagraph_trees as trees

from compilescope import mode_options, observe
from compilescope.recorded import recorded_modes
from compilescope.views.mode_frontier import frontier

MODES = recorded_modes("modes")
GRAPHS = recorded_modes("cuda_graphs")
NAMES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def graphs_of(workload):
    return GRAPHS.trial(workload, "reduce-overhead")


def fastest(workload):
    return min((one for one in MODES.of(workload) if one.steady_us), key=lambda one: one.steady_us)


def test_row_31_the_four_modes_exist_and_default_sets_nothing():
    assert set(NAMES) <= set(mode_options())
    assert mode_options()["default"] == {}


def test_row_31_reduce_overhead_and_max_autotune_use_cuda_graphs_and_the_fourth_does_not():
    graphs = {mode for mode in NAMES if mode_options()[mode].get("triton.cudagraphs")}
    assert graphs == {"reduce-overhead", "max-autotune"}


def test_row_31_both_max_autotune_modes_time_candidates():
    assert {mode for mode in NAMES if mode_options()[mode].get("max_autotune")} == {
        "max-autotune",
        "max-autotune-no-cudagraphs",
    }
    tuned = MODES.trial("prefill", "max-autotune-no-cudagraphs").autotuning
    assert any(one.kind == "algorithm" and len(one.choices) > 3 for one in tuned)
    assert not [one for one in MODES.trial("prefill", "default").autotuning if one.kind == "algorithm"]


def test_row_31_torch_compile_takes_a_mode_or_options_and_never_both():
    with pytest.raises(RuntimeError):
        torch.compile(torch.sin, mode="max-autotune", options={"triton.cudagraphs": False})


@pytest.mark.parametrize("mode", NAMES)
def test_row_31_the_options_of_a_mode_can_be_passed_as_options(mode):
    torch.compiler.reset()
    run = observe(torch.compile(lambda x: x + 1, options=mode_options()[mode]), torch.ones(4))
    assert torch.equal(run.result, torch.full((4,), 2.0))
    assert len(run.graphs) == 1


def test_row_31_a_cuda_graph_is_recorded_by_the_second_call_and_replayed_from_the_third():
    first, second, *others = graphs_of("replayed").calls
    assert (first.compiles, first.warmed_up, first.recorded, first.replayed) == (1, 1, 0, 0)
    assert (second.compiles, second.recorded, second.replayed) == (0, 1, 0)
    assert {(one.recorded, one.replayed) for one in others} == {(0, 1)}


def test_row_31_a_result_that_was_kept_is_overwritten_unless_it_is_copied_or_used():
    assert "overwritten" in graphs_of("kept").error
    assert [graphs_of(f"kept, {how}").error for how in ("cloned", "moved to the CPU", "reduced")] == ["", "", ""]


@pytest.mark.parametrize(
    ("state", "end", "told"),
    [
        ("WARMUP", "try_end_curr_warmup", True),
        ("RECORDING", "try_end_curr_recording", True),
        ("EXECUTION", "try_end_curr_execution", False),
    ],
)
def test_row_31_torch_puts_an_error_on_results_when_a_warm_up_or_a_recording_ends_and_on_none_of_a_replay(
    state, end, told
):
    """What the running torch's own bookkeeping does as the next call begins; tests/gpu shows what is read then."""
    manager = MagicMock(spec=trees.CUDAGraphTreeManager)
    manager.path_state = trees.ExecutionState[state]
    manager.in_recording, manager.in_warmup = state == "RECORDING", state == "WARMUP"
    manager.current_node = MagicMock(spec=trees.CUDAGraphNode)
    manager.can_start_new_generation.return_value = True
    manager.clear_current_path_state_and_set_to_none = lambda **how: (
        trees.CUDAGraphTreeManager.clear_current_path_state_and_set_to_none(manager, **how)
    )
    getattr(trees.CUDAGraphTreeManager, end)(manager, *([] if state == "EXECUTION" else [trees.FunctionID(0)]))
    assert manager.dealloc_current_path_weakrefs.called is told
    assert manager.current_node is None


def test_row_31_replays_that_were_kept_show_the_newest_numbers_without_an_error():
    assert graphs_of("kept, replays").error == "ValueError: no error, and [7.0, 7.0, 7.0] instead of [3.0, 5.0, 7.0]"


def test_row_31_marking_a_step_preserves_nothing_and_a_result_fed_back_is_overwritten():
    assert "overwritten" in graphs_of("kept, steps marked").error
    assert "overwritten" in graphs_of("fed back").error


def test_row_31_a_changed_argument_is_the_reason_for_which_a_graph_is_skipped():
    trial = graphs_of("mutates its input")
    (skip,) = trial.cuda_graphs.skipped
    assert "mutated" in skip.reason
    assert skip.source.code == "x.add_(1)"
    assert sum(one.recorded for one in trial.calls) == 0
    assert [
        work.name for work in GRAPHS.group("skips") if not any(call.recorded for call in graphs_of(work.name).calls)
    ] == ["mutates its input"]


def test_row_32_reduce_overhead_wins_where_launches_are_what_takes_time():
    eager, replayed = (MODES.trial("decode", mode) for mode in ("eager", "reduce-overhead"))
    assert replayed.launches < eager.launches / 10
    assert replayed.kernels > replayed.launches
    assert replayed.steady_us < eager.steady_us / 2


def test_row_32_at_the_price_of_memory():
    assert MODES.trial("decode", "reduce-overhead").pool_bytes > 0
    assert MODES.trial("decode", "default").pool_bytes == 0
    held = [one.pool_bytes for one in graphs_of("16, 32, 48, 64 MiB").calls]
    assert held == sorted(held)
    assert held[-1] > 2 * held[2]


def test_row_32_each_size_keeps_its_input_and_results_share_one_pool():
    base = graphs_of("1 MiB").pool_bytes - 2 * 2**20
    kept = graphs_of("16, 32, 48, 64 MiB").pool_bytes - base
    assert kept == pytest.approx((16 + 32 + 48 + 64 + 64) * 2**20, rel=0.1)


def test_row_32_max_autotune_is_slowest_to_compile():
    for workload in ("decode", "prefill", "small network"):
        tuned = [one.first_s for one in MODES.of(workload) if one.mode.startswith("max-autotune")]
        assert min(tuned) > 2 * MODES.trial(workload, "default").first_s


def test_row_32_and_not_fastest_to_run():
    chain = {one.mode: one.steady_us for one in MODES.of("pointwise chain")}
    assert chain["max-autotune"] > 1.3 * chain["default"], "the copy of a large input costs more than a launch"
    tuned, replayed = (MODES.trial("decode", mode) for mode in ("max-autotune", "reduce-overhead"))
    assert tuned.total_s(100_000) > replayed.total_s(100_000)
    assert len({fastest(work.name).mode for work in MODES.group("modes")}) > 1
    assert all("eager" in [one.mode for one in frontier(MODES.of(work.name))] for work in MODES.group("modes"))


def test_row_32_precision_is_no_mode_and_costs_digits():
    exact, rounded = (MODES.trial(name, "eager") for name in ("fp32 highest", "fp32 high"))
    assert rounded.rounding > 100 * exact.rounding
    assert rounded.steady_us < exact.steady_us
    for work in MODES.group("precision"):
        errors = [one.rounding for one in MODES.of(work.name) if one.rounding]
        assert max(errors) < 2 * min(errors)


def test_in_the_small_network_products_take_the_time_and_only_tuning_helps():
    eager, graph = MODES.trial("small network", "eager"), MODES.trial("small network", "reduce-overhead")
    assert graph.launches < eager.launches / 4
    assert graph.steady_us > eager.steady_us
    for mode in ("max-autotune", "max-autotune-no-cudagraphs"):
        tuned = MODES.trial("small network", mode)
        (product,) = (one for one in tuned.autotuning if one.kind == "algorithm")
        times = {one.name: one.time_us for one in product.choices if one.time_us is not None}
        assert min(times.values()) < times["mm"] / 2
        assert tuned.steady_us < eager.steady_us


def test_for_decode_max_autotune_and_reduce_overhead_cannot_be_told_apart():
    tuned, plain = MODES.trial("decode", "max-autotune"), MODES.trial("decode", "reduce-overhead")
    assert tuned.steady_low_us < plain.steady_us < tuned.steady_high_us


def test_templates_win_every_product_of_prefill_alone_and_the_whole_call_is_slower():
    tuned, plain = MODES.trial("prefill", "max-autotune"), MODES.trial("prefill", "reduce-overhead")
    products = [one for one in tuned.autotuning if one.kind == "algorithm"]
    assert products
    assert all(one.chosen.startswith("triton_") for one in products)
    assert plain.steady_high_us < tuned.steady_low_us


def test_an_open_size_is_tuned_once():
    trial = MODES.trial("changing batch", "max-autotune")
    assert sum(call.compiles for call in trial.calls) == 2  # the size that came first, then any
    assert len({one.subject for one in trial.autotuning if one.kind == "algorithm"}) == 2


def test_tuning_tries_more_configurations_of_a_kernel_than_the_default():
    def most(mode):
        tables = [one for one in MODES.trial("decode", mode).autotuning if one.kind == "configuration"]
        return max(len(one.choices) for one in tables)

    assert 2 <= most("default") < most("max-autotune-no-cudagraphs")


def test_a_mode_changes_last_digits_and_medium_gives_what_high_gives():
    small, decode = ({one.mode: one.rounding for one in MODES.of(name)} for name in ("small network", "decode"))
    assert small["max-autotune"] > small["eager"]
    assert decode["default"] < decode["eager"]
    high, medium = (MODES.trial(f"fp32 {name}", "eager").rounding for name in ("high", "medium"))
    assert 0.9 < medium / high < 1.1
