"""The clocks of lesson 2 on a real GPU: CUDA events, spans from the profiler, first calls."""

import time

import pytest
import torch

from autograder.exercise import Answer
from autograder.exercises.timing import stopwatch
from compilescope.lanes import record_spans
from compilescope.stopwatch import CudaStopwatch
from compilescope.timing import compare_speed, measure

pytestmark = pytest.mark.gpu


def chain(x):
    return torch.relu(x + 1) * 2


@pytest.fixture(autouse=True)
def _fresh(gpu):
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def test_a_call_returns_before_its_work_is_done():
    x = torch.randn(16384, 8192, device="cuda")
    chain(x)
    torch.cuda.synchronize()
    start = time.perf_counter()
    chain(x)
    returned = time.perf_counter() - start
    torch.cuda.synchronize()
    assert returned < time.perf_counter() - start


def test_a_tensor_on_the_gpu_makes_cuda_events_the_clock(report):
    x = torch.randn(4096, 4096, device="cuda")
    timing = measure(chain, x, seconds=0.1)
    report.append({"test": "measure", "sentence": timing.sentence()})
    assert timing.clock == "CUDA events"
    assert timing.origin.device == torch.cuda.get_device_name()
    fastest_memory = 20e12  # bytes a second; no GPU has as much
    assert timing.median > 2 * x.numel() * x.element_size() / fastest_memory


def test_flushing_leaves_nothing_of_the_input_in_the_l2_cache():
    watch = CudaStopwatch(torch.device("cuda"))
    assert watch._buffer.numel() > 2 * torch.cuda.get_device_properties(0).L2_cache_size


def test_after_a_flush_the_seconds_are_those_of_the_kernels_however_slow_the_host_is(report):
    def slow_host(x):
        time.sleep(0.002)
        return chain(x)

    x = torch.randn(4096, 4096, device="cuda")
    kernels = sum(span.seconds for span in record_spans(lambda: chain(x)) if span.lane == "device")
    found = {fn.__name__: measure(fn, x, seconds=0.3).median for fn in (chain, slow_host)}
    report.append({"test": "slow host", "kernels": kernels, **found})
    assert all(0.7 * kernels < median < 1.5 * kernels for median in found.values())


def test_eager_launches_three_kernels_and_compiled_one(report):
    x = torch.randn(4096, 4096, device="cuda")
    compiled = torch.compile(chain)
    for _ in range(3):
        chain(x), compiled(x)
    for fn, wanted in ((chain, ["add", "relu", "mul"]), (compiled, None)):
        spans = record_spans(lambda fn=fn: fn(x))
        kernels = [span.name for span in spans if span.lane == "device"]
        launches = [span for span in spans if span.name == "launch"]
        report.append({"test": "spans", "kernels": kernels, "launches": len(launches)})
        assert len(launches) == len(kernels)
        assert kernels == wanted if wanted else len(kernels) == 1
        assert any(span.name == "wait" for span in spans)


def test_the_fused_chain_is_faster_than_eager_where_memory_is_the_limit(report):
    x = torch.randn(16384, 8192, device="cuda")
    speed = compare_speed(chain, torch.compile(chain), x, seconds=1)
    report.append({"test": "compare_speed", "sentence": speed.sentence()})
    assert speed.verdict == "faster"


def test_a_function_is_as_fast_as_itself():
    x = torch.randn(8192, 8192, device="cuda")
    assert compare_speed(chain, chain, x, seconds=1).verdict == "as fast"


def test_the_exercise_sees_on_the_gpu_itself_whether_a_stopwatch_waited():
    def right(fn, synchronize, clock):
        synchronize()
        start = clock()
        fn()
        synchronize()
        return clock() - start

    def hasty(fn, synchronize, clock):
        start = clock()
        fn()
        return clock() - start

    assert stopwatch._on_the_gpu(Answer({"timed": right})) == {"when fn began": True, "when it returned": True}
    assert stopwatch._on_the_gpu(Answer({"timed": hasty})) == {"when fn began": False, "when it returned": False}
    torch.cuda.synchronize()
