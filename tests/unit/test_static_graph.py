"""The stand-in for CUDA graphs: the same rules, without a GPU."""

import copy

import pytest
import torch

from compilescope.torch_internals.static_graph import StaticGraph


def make():
    return StaticGraph(lambda x: (x * 2).relu())


def numbers(value):
    return torch.full((3,), float(value))


def test_it_warms_up_records_and_replays_once_for_each_size():
    step = make()
    for size in (3, 3, 3, 5, 5, 3):
        step(torch.ones(size))
    assert step.did == ["warmed up", "recorded", "replayed", "warmed up", "recorded", "replayed"]


@pytest.mark.parametrize("calls", [1, 2, 3, 4])
def test_a_result_is_right_until_the_next_call(calls):
    step = make()
    for i in range(1, calls + 1):
        result = step(numbers(i))
        assert torch.equal(result, numbers(2 * i))


READS = {
    "add": lambda r: r + 1,
    "print": str,
    "item": lambda r: r.sum().item(),
    "list": lambda r: r.tolist(),
    "numpy": lambda r: r.numpy(),
    "index": lambda r: r[0],
    "stack": lambda r: torch.stack([r, r]),
    "clone": lambda r: r.clone(),
    "copy into": lambda r: torch.zeros(3).copy_(r),
    "in place": lambda r: r.add_(1),
    "detach": lambda r: r.detach(),
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("read", READS)
def test_whoever_reads_the_result_of_a_warm_up_or_a_recording_after_a_later_call_is_told(calls, read):
    step = make()
    for i in range(calls):
        result = step(numbers(i))
    step(numbers(9))
    with pytest.raises(RuntimeError, match="overwritten"):
        READS[read](result)
    assert result.shape == (3,)


@pytest.mark.parametrize("calls", [3, 4])
@pytest.mark.parametrize("read", READS)
def test_whoever_reads_the_result_of_a_replay_after_a_later_one_sees_the_newer_numbers_and_no_error(calls, read):
    step = make()
    for i in range(calls):
        result = step(numbers(i))
    step(numbers(9))
    assert str(READS[read](result)) == str(READS[read](numbers(18)))


def test_a_view_ends_with_its_result_and_of_a_replay_it_shows_the_newer_numbers():
    step = make()
    for i in range(4):
        result = step(numbers(i))
        views = result[0], result.view(3), result.detach(), result.chunk(2)[0]
        step(numbers(9))
        for view in views:
            if i == 0:  # each round calls twice: warmed up and recorded, then replays
                with pytest.raises(RuntimeError, match="overwritten"):
                    view.clone()
            else:
                assert view.unique().tolist() == [18]


def test_results_of_all_calls_read_at_the_end_are_two_errors_then_the_last_numbers_only():
    step, read = make(), []
    for one in [step(numbers(i)) for i in range(6)]:
        try:
            read.append(one[0].item())
        except RuntimeError:
            read.append("overwritten")
    assert read == ["overwritten", "overwritten", 10, 10, 10, 10]


def test_a_replay_kept_while_another_size_warms_up_ends_with_that_warm_up():
    step = make()
    for i in range(3):
        kept = step(numbers(i))
    step(torch.ones(5))
    assert kept.tolist() == [4, 4, 4]
    again = step(numbers(7))
    with pytest.raises(RuntimeError, match="overwritten"):
        kept.clone()
    step(numbers(8))
    assert again.tolist() == [16, 16, 16]


def test_calls_of_a_marked_step_keep_their_results_until_the_next_mark():
    step = make()
    torch.compiler.cudagraph_mark_step_begin()
    kept = [step(numbers(i)) for i in range(4)]
    assert [one[0].item() for one in kept] == [0, 2, 4, 6]
    torch.compiler.cudagraph_mark_step_begin()
    recorded = [step(numbers(i)) for i in range(4)]
    with pytest.raises(RuntimeError, match="overwritten"):
        kept[3].clone()
    torch.compiler.cudagraph_mark_step_begin()
    replayed = [step(numbers(i)) for i in range(4)]
    with pytest.raises(RuntimeError, match="overwritten"):
        recorded[0].clone()
    torch.compiler.cudagraph_mark_step_begin()
    assert step(numbers(7))[0].item() == replayed[0][0].item() == 14
    assert [one[0].item() for one in replayed[1:]] == [2, 4, 6]
    assert step.did == ["warmed up"] * 4 + ["recorded"] * 4 + ["replayed"] * 5


@pytest.mark.parametrize("calls", [3, 5])
def test_a_mark_before_each_call_preserves_nothing_and_one_from_before_counts_no_more(calls):
    torch.compiler.cudagraph_mark_step_begin()
    marked, plain = make(), make()
    for step, mark in ((plain, lambda: None), (marked, torch.compiler.cudagraph_mark_step_begin)):
        kept = []
        for i in range(calls):
            mark()
            kept.append(step(numbers(i)))
        for one in kept[:2]:
            with pytest.raises(RuntimeError, match="overwritten"):
                one.clone()
        assert {one[0].item() for one in kept[2:]} == {2 * (calls - 1)}


COPIES = {
    "clone": torch.clone,
    "cpu": torch.Tensor.cpu,
    "to cpu": lambda r: r.to("cpu"),
    "to device": lambda r: r.to(device=torch.device("cpu")),
    "compute": lambda r: r + 0,
    "stack": lambda r: torch.stack([r])[0],
}


@pytest.mark.parametrize("copy_of", COPIES)
def test_what_was_copied_or_computed_from_a_result_stays(copy_of):
    step = make()
    kept = [COPIES[copy_of](step(numbers(i))) for i in range(4)]
    assert [one[0].item() for one in kept] == [0, 2, 4, 6]
    assert {type(one) for one in kept} == {torch.Tensor}


@pytest.mark.parametrize("calls", [1, 2])
def test_a_result_of_a_warm_up_or_a_recording_fed_back_as_input_is_refused_as_on_a_gpu(calls):
    step = make()
    for _ in range(calls):
        result = step(numbers(1))
    with pytest.raises(RuntimeError, match="overwritten"):
        step(result)


def test_a_result_of_a_replay_fed_back_is_copied_to_the_static_input_first():
    step = make()
    for _ in range(3):
        result = step(numbers(1))
    for _ in range(3):
        result = step(result)
    assert result.tolist() == [16, 16, 16]


def test_an_input_may_change_after_the_call_and_several_results_come_back_as_they_were():
    step = StaticGraph(lambda x: {"sum": x.sum(), "parts": (x + 1, x * 2)})
    for i in range(3):
        x = numbers(i)
        found = step(x)
        x.zero_()
        assert found["sum"].item() == 3 * i
        assert found["parts"][1].tolist() == [2.0 * i] * 3


def test_it_counts_the_bytes_of_its_static_inputs_and_results():
    step = make()
    for size in (3, 3, 5, 5):
        step(torch.ones(size))
    assert step.kept_bytes == 2 * 4 * (3 + 5)
