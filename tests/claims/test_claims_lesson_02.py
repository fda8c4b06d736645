"""Lesson 2: what the running torch does about each claim of the source texts that the lesson teaches.

Each test is named after its row of the syllabus, ``test_row_NN_…``. Facts of a GPU come from the recording of the
published demonstration, ``relu_chain``; no test here looks at a clock.
"""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the course writes it so
from torch import nn
from torch._inductor.utils import fresh_cache

from autograder.judging import eager_operations
from compilescope import observe
from compilescope.pretend import preview
from compilescope.recorded import recorded, recorded_times

DEMONSTRATED, LARGER = "4096 x 4096", "32768 x 8192"


def shift(x):
    return torch.relu(x + 1) * 2


def moved(fn, *args):
    """Bytes that the kernels of `fn` for a pretended H100 read and write."""
    kernels = [kernel for run in preview(fn, *args) for kernel in run.kernels]
    return sum((kernel.bytes_read + kernel.bytes_written) * kernel.launches for kernel in kernels)


@pytest.fixture(scope="module")
def h200():
    return recorded_times("relu_chain")


def test_row_03_one_larger_region_moves_fewer_bytes_and_leaves_fewer_launches_to_python():
    def first(x):
        return torch.sin(x) * 2

    def second(x):
        return torch.tanh(x) + 1

    x = torch.randn(64, 64)
    assert moved(lambda x: second(first(x)), x) == moved(first, x) == moved(second, x)
    part = torch.compile(first, backend="aot_eager")
    whole = torch.compile(lambda x: second(first(x)), backend="aot_eager")
    for fn in (whole, part):
        fn(x)
    assert eager_operations(whole, x) == ()
    assert len(eager_operations(lambda x: second(part(x)), x)) == 2


def test_row_05_the_first_call_pays_and_the_rest_find_it_compiled():
    class Scorer(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 1)

        def forward(self, x):
            return F.gelu(self.layer(x))

    torch.compiler.reset()
    model = Scorer()
    model.compile(backend="aot_eager")
    with torch.no_grad(), observe() as run:
        for _ in range(4):
            model(torch.randn(5, 8))
    assert [call.outcome for call in run.calls] == ["first compile", "hit", "hit", "hit"]


def test_row_23_eager_dispatches_each_operation_and_goes_through_memory_for_each():
    x = torch.randn(256, 256)
    assert eager_operations(shift, x) == ("aten::add", "aten::relu", "aten::mul")
    compiled = torch.compile(shift, backend="aot_eager")
    compiled(x)
    assert eager_operations(compiled, x) == ()
    assert moved(shift, x) == 2 * x.nbytes
    assert sum(moved(fn, x) for fn in (lambda x: x + 1, torch.relu, lambda x: x * 2)) == 3 * moved(shift, x)


def test_row_23_how_much_it_gains_depends_on_the_model_and_on_the_size(h200):
    speeds = h200.speeds
    assert speeds["ten operations"].times > 1.5 * speeds[DEMONSTRATED].times
    assert speeds["one operation"].verdict != "faster" or speeds["one operation"].times < 1.1
    assert speeds["matrix product"].verdict != "faster" or speeds["matrix product"].times < 1.1
    assert speeds["64 x 64, called in a row"].verdict == "slower"


def test_row_29_the_first_call_and_each_recompile_pay_and_nothing_else_does():
    torch.compiler.reset()
    compiled = torch.compile(shift, backend="aot_eager", dynamic=False)
    with observe() as run:
        for size in (4, 4, 4, 8, 8):
            compiled(torch.ones(size))
    assert [call.outcome for call in run.calls] == ["first compile", "hit", "hit", "recompile", "hit"]


def test_row_29_under_cuda_graphs_the_second_call_is_slow_too(h200):
    seconds = h200.numbers
    assert seconds["CUDA graph, call 2"] > 20 * seconds["CUDA graph, call 6"]
    assert seconds["cold, call 2"] < 0.1 * seconds["CUDA graph, call 2"]


def test_row_29_reset_forgets_the_process_and_leaves_the_folder_so_the_next_start_is_no_cold_one():
    compiled = torch.compile(shift)
    caches = []
    with fresh_cache():
        for _ in range(2):
            torch.compiler.reset()
            with observe(caches="use") as run:
                compiled(torch.ones(64))
            caches.append(run.compiles[0].caches["fx_graph"])
    assert caches == ["miss", "hit"]


def test_row_39_the_first_compiled_call_takes_many_times_the_first_eager_one(h200):
    seconds = h200.numbers
    assert seconds["cold, call 1"] > 10 * seconds["eager, call 1"]
    assert seconds["cold, call 1"] > 1000 * seconds["cold, call 6"]
    assert seconds["cached, call 1"] < seconds["cold, call 1"]


def test_row_40_three_operations_move_three_times_the_bytes_of_one_kernel_and_no_kernel_beats_a_copy(h200):
    kernel = recorded("relu_chain").kernels[0]
    size = h200.numbers[f"bytes {DEMONSTRATED}"]
    assert kernel.bytes_read == kernel.bytes_written == size
    for name in (DEMONSTRATED, LARGER):
        assert 2.3 < h200.speeds[name].times < 3.3
        assert h200.speeds[name].other.median > 0.9 * h200.timings[f"copy {name}"].median


def test_row_40_events_round_one_call_show_less_than_the_kernels_could_and_less_so_for_a_larger_input(h200):
    def published(size):
        return h200.numbers[f"published eager {size}"] / h200.numbers[f"published compiled {size}"]

    assert published(DEMONSTRATED) < published(LARGER) < 3.1
    assert h200.speeds[DEMONSTRATED].times < h200.speeds[LARGER].times
    assert published(DEMONSTRATED) < h200.speeds[DEMONSTRATED].times
