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


@pytest.mark.parametrize("calls", [1, 2, 3])
@pytest.mark.parametrize("read", READS)
def test_whoever_reads_a_result_after_a_later_call_is_told(calls, read):
    step = make()
    for i in range(calls):
        result = step(numbers(i))
    step(numbers(9))
    with pytest.raises(RuntimeError, match="overwritten"):
        READS[read](result)
    assert result.shape == (3,)


def test_a_view_of_a_result_is_overwritten_with_it():
    step = make()
    step(numbers(1))
    first, flat = (result := step(numbers(2)))[0], result.view(3)
    step(numbers(3))
    for view in (first, flat):
        with pytest.raises(RuntimeError, match="overwritten"):
            view.clone()


def test_what_was_computed_from_a_result_stays():
    step = make()
    kept = [step(numbers(i)).clone() for i in range(4)]
    assert [one[0].item() for one in kept] == [0, 2, 4, 6]
    assert {type(one) for one in kept} == {torch.Tensor}


def test_a_result_fed_back_as_input_is_refused_as_on_a_gpu():
    step = make()
    with pytest.raises(RuntimeError, match="overwritten"):
        step(step(numbers(1)))


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
