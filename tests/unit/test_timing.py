"""`measure` and `compare_speed` on clocks whose true times are known: no test here looks at a real clock."""

import dataclasses
import random
import types

import pytest
import torch

from compilescope.bootstrap import median_interval
from compilescope.clockwork import ClockworkGpu
from compilescope.facts import Origin
from compilescope.facts_timing import Measurements, Span, Speed, Timing
from compilescope.lanes import record_spans, spans_of
from compilescope.stopwatch import HostStopwatch, last_level_cache, stopwatch_for
from compilescope.timing import FEWEST, MOST, MOST_WARMUP, compare_speed, measure, verdict_of
from compilescope.views.lane_plot import describe_spans, lane_plot
from compilescope.views.time_plot import time_plot

ORIGIN = Origin("live", "CPU", "2.13.0")
PICTURE = 50_000


class FakeWatch:
    """A stopwatch on pretended time: each call says how long it took; `noise` is a factor drawn for each look."""

    clock, origin = "clockwork", ORIGIN

    def __init__(self, noise=lambda: 1.0):
        self.time, self.noise, self.flushes, self.log = 0.0, noise, 0, []

    def seconds(self, call, calls):
        spent = sum(call() for _ in range(calls)) * self.noise()
        self.time += spent
        self.log.append(calls)
        return spent

    def flush(self):
        self.flushes += 1

    def now(self):
        return self.time


def takes(seconds, first=(), name="work"):
    """A function that takes `seconds`, after calls that take each of `first`."""
    rest = iter(first)

    def fn(*args):
        return next(rest, seconds)

    fn.__name__ = name
    return fn


def noisy(seed, spread):
    drawn = random.Random(seed)
    return lambda: drawn.lognormvariate(0, spread)


def test_the_first_calls_are_kept_apart_and_are_in_no_median():
    timing = measure(takes(1e-3, first=(2.0, 0.5)), watch=FakeWatch())
    assert timing.warmup[:2] == (2.0, 0.5)
    assert timing.first == 2.0
    assert timing.median == pytest.approx(1e-3)
    assert timing.middle_half == pytest.approx((1e-3, 1e-3))


def test_warming_up_goes_on_until_the_times_settle():
    assert len(measure(takes(1e-3, first=(2.0, 1.0, 0.5, 0.2, 0.1)), watch=FakeWatch()).warmup) == 7
    falling = [2.0**-n for n in range(30)]
    assert len(measure(takes(1e-9, first=falling), watch=FakeWatch()).warmup) == MOST_WARMUP


def test_the_number_of_samples_keeps_within_its_limits_and_its_budget():
    assert len(measure(takes(10.0), watch=FakeWatch(), seconds=1).samples) == FEWEST
    assert len(measure(takes(1e-6), watch=FakeWatch(), seconds=1).samples) == MOST
    assert 45 <= len(measure(takes(0.02), watch=FakeWatch(), seconds=1).samples) <= 55


def test_short_functions_are_called_several_times_in_a_sample_unless_caches_are_flushed():
    kept, flushed = FakeWatch(), FakeWatch()
    timing = measure(takes(1e-5), watch=kept, flush=False)
    assert timing.calls == 100
    assert timing.median == pytest.approx(1e-5)
    assert (kept.flushes, timing.flushed) == (0, False)
    timing = measure(takes(1e-5), watch=flushed)
    assert (timing.calls, timing.flushed) == (1, True)
    assert flushed.flushes == len(timing.samples)


def test_a_compile_while_samples_are_taken_is_told():
    sizes = iter(range(4, 400))
    compiled = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)

    def grows():
        compiled(torch.ones(next(sizes)))
        return 1e-3

    torch.compiler.reset()
    timing = measure(grows, watch=FakeWatch(), seconds=0)
    torch.compiler.reset()
    assert timing.compiled_again > 0
    assert "while it was timed" in timing.sentence()


@pytest.mark.parametrize("true", [0.5, 1.3, 2.2])
@pytest.mark.parametrize("seed", range(5))
def test_the_interval_holds_the_true_ratio_in_spite_of_noise(true, seed):
    speed = compare_speed(takes(1e-3 * true), takes(1e-3), watch=FakeWatch(noisy(seed, 0.1)))
    assert speed.verdict == ("faster" if true > 1 else "slower")
    assert speed.interval[0] <= true * 1.05
    assert speed.interval[1] >= true / 1.05
    assert speed.times == pytest.approx(true, rel=0.1)


def test_in_four_hundred_comparisons_of_equals_hardly_one_finds_a_winner():
    verdicts = [
        compare_speed(takes(1e-3), takes(1e-3), watch=FakeWatch(noisy(seed, 0.2)), seconds=0.05).verdict
        for seed in range(400)
    ]
    assert sum(verdict in ("faster", "slower") for verdict in verdicts) <= 16
    assert set(verdicts) <= {"as fast", None, "faster", "slower"}


def test_quiet_comparisons_stop_early_and_noisy_ones_go_on():
    quiet = compare_speed(takes(2e-3), takes(1e-3), watch=FakeWatch())
    noisier = compare_speed(takes(2e-3), takes(1e-3), watch=FakeWatch(noisy(1, 0.3)))
    assert len(quiet.ratios) == FEWEST
    assert FEWEST < len(noisier.ratios) <= MOST


def test_too_much_noise_gets_a_sentence_and_no_number():
    speed = compare_speed(takes(1.1e-3, name="old"), takes(1e-3, name="new"), watch=FakeWatch(noisy(3, 1.5)), seconds=0)
    assert speed.verdict is None
    assert speed.times is None
    assert speed.sentence().startswith("Too noisy to tell: new is somewhere between")
    assert "Close other programs" in speed.sentence()


def test_a_direction_that_is_clear_gets_no_number_while_the_interval_is_wide():
    watch = FakeWatch(noisy(3, 1.0))
    speed = compare_speed(takes(1e-3, name="old"), takes(1e-1, name="new"), watch=watch, seconds=0)
    assert speed.verdict == "slower"
    assert speed.times is None
    assert speed.sentence().startswith("Too noisy for a number: new is slower, somewhere between 0.0")


@pytest.mark.parametrize(
    ("interval", "wanted"),
    [
        ((2.1, 2.3), "faster"),
        ((0.4, 0.5), "slower"),
        ((0.98, 1.03), "as fast"),
        ((0.9, 1.1), None),
        ((1.01, 2.5), "faster"),
        ((0.0, float("inf")), None),
    ],
)
def test_a_verdict_needs_an_interval_that_allows_one_answer_only(interval, wanted):
    assert verdict_of(interval, 0.05) == wanted


def test_both_orders_occur_within_pairs():
    order = []
    base, other = (lambda: order.append("a") or 1e-3), (lambda: order.append("b") or 1e-3)
    compare_speed(base, other, watch=FakeWatch(noisy(0, 0.3)))
    pairs = [tuple(order[i : i + 2]) for i in range(len(order) - 40, len(order), 2)]
    assert {("a", "b"), ("b", "a")} == set(pairs)


def test_the_bootstrap_interval_holds_the_median_and_is_the_same_each_time():
    values = [random.Random(5).lognormvariate(0, 0.2) for _ in range(40)] + [9.0]
    low, high = median_interval(values)
    assert low <= sorted(values)[20] <= high
    assert (low, high) == median_interval(values)
    with pytest.raises(ValueError, match="measure at least one pair"):
        median_interval([])


def test_a_result_instead_of_a_function_gets_a_sentence():
    with pytest.raises(TypeError, match="leave the call out"):
        measure(torch.ones(3), watch=FakeWatch())


def test_a_compiled_function_is_named_so():
    def double(x):
        return 1e-3

    compiled = torch.compile(double, backend="eager")
    assert compare_speed(double, compiled, 1, watch=FakeWatch()).sentence().startswith("compiled double is as fast as")


def test_tensors_on_the_cpu_are_timed_by_the_host():
    assert isinstance(stopwatch_for([torch.ones(2), 3]), HostStopwatch)


def test_the_largest_cache_of_the_cpu_is_read_from_the_system(tmp_path):
    for index, size in enumerate(("32K", "1024K", "33M", "what")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(size + "\n")
    assert last_level_cache(tmp_path) == 33 * 2**20
    assert last_level_cache(tmp_path / "none") == 64 * 2**20


def test_the_host_stopwatch_calls_as_often_as_it_is_told():
    calls = []
    assert HostStopwatch().seconds(lambda: calls.append(1), 5) > 0
    assert len(calls) == 5


def three_kernels(gpu):
    x = gpu.buffer("x")
    for name in ("add", "relu", "mul"):
        x = gpu.launch(name, 30e-6, x)
    return x


def test_a_clockwork_launch_returns_at_once_and_synchronize_waits_for_the_last_kernel():
    gpu = ClockworkGpu(launch=5e-6)
    three_kernels(gpu)
    assert gpu.clock() == pytest.approx(15e-6)
    gpu.synchronize()
    assert gpu.clock() == pytest.approx(5e-6 + 90e-6)
    assert gpu.busy == pytest.approx(90e-6)
    gpu.synchronize()
    assert gpu.clock() == max(span.end for span in gpu.spans if span.lane == "device")


def test_a_clockwork_device_waits_for_a_slow_host():
    gpu = ClockworkGpu(launch=50e-6)
    three_kernels(gpu)
    gpu.synchronize()
    assert gpu.clock() == pytest.approx(3 * 50e-6 + 30e-6)


def test_a_clockwork_compile_costs_once_and_leaves_out_what_nobody_uses():
    gpu = ClockworkGpu()
    whole, dropped = (
        gpu.compiled(lambda: three_kernels(gpu), 1.0),
        gpu.compiled(lambda: three_kernels(gpu) and None, 1.0),
    )
    for _ in range(2):
        whole()
        dropped()
    assert [span.name for span in gpu.spans].count("compile") == 2
    assert [span.name for span in gpu.spans if span.lane == "device"] == ["add", "relu", "mul"] * 2
    assert [span.reads for span in gpu.spans if span.lane == "device"][:2] == [("x",), ("add(x)",)]


def event(name, start, end, device="CPU", annotation=False):
    times = types.SimpleNamespace(start=start, end=end)
    kind = f"DeviceType.{device}"
    return types.SimpleNamespace(name=name, time_range=times, device_type=kind, is_user_annotation=annotation)


def test_spans_of_a_profile_begin_at_the_first_launch_after_the_mark():
    add = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctorOnSelf_add<float>>(int)"
    events = [
        event("cudaLaunchKernel", 1, 2),
        event("compilescope: observed", 10, 99),
        event("compilescope: observed", 12, 99, "CUDA", annotation=True),
        event("cudaLaunchKernel", 20, 25),
        event(add, 26, 60, "CUDA"),
        event("Memset (Device)", 27, 28, "CUDA"),
        event("aten::add", 15, 27),
        event("cudaDeviceSynchronize", 28, 61),
        event("cudaDeviceSynchronize", 80, 81),
    ]
    spans = spans_of(events)
    assert [(span.lane, span.name) for span in spans] == [("host", "launch"), ("device", "add"), ("host", "wait")]
    assert [span.start for span in spans] == pytest.approx([0, 6e-6, 8e-6])
    assert spans[1].seconds == pytest.approx(34e-6)


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a GPU")
def test_spans_without_a_gpu_are_a_sentence():
    with pytest.raises(RuntimeError, match="every call is over when it returns"):
        record_spans(lambda: None)


def timing(name, median, samples=300):
    drawn = random.Random(1)
    return Timing(name, ORIGIN, tuple(median * drawn.lognormvariate(0, 0.1) for _ in range(samples)), (2.9, median))


def test_the_picture_of_times_says_both_medians_and_stays_small():
    view = time_plot(timing("eager", 98e-6), timing("compiled", 44e-6), timing("third", 1e-3))
    assert "eager 98 µs and compiled 4" in view.title
    assert "first call 2.90 s" in view.text
    assert ORIGIN.sentence() in view.text
    assert len(view.html) + len(view.text) < PICTURE


def test_the_picture_of_a_comparison_says_its_interval_or_why_there_is_none():
    ratios = tuple(2 + i / 100 for i in range(200))
    speed = Speed(timing("a", 2e-3), timing("b", 1e-3), ratios, (2.9, 3.1), verdict="faster")
    view = time_plot(speed)
    assert "b: 3.00 times as fast as a" in view.title
    assert "2.90 to 3.10" in view.text
    assert len(view.html) + len(view.text) < PICTURE
    refused = Speed(timing("a", 2e-3), timing("b", 1e-3), ratios, (0.5, 3), refusal="Too noisy to tell")
    assert time_plot(refused).title == "No answer"
    assert time_plot(dataclasses.replace(refused, verdict="faster")).title == "b: faster, no number"
    assert "Too noisy to tell" in time_plot(refused).text


def test_a_picture_of_something_else_is_refused_with_a_sentence():
    for wrong in ((), (1.5,), (timing("a", 1.0), "b")):
        with pytest.raises(TypeError, match="time_plot draws timings"):
            time_plot(*wrong)


def test_the_picture_of_lanes_is_the_same_each_time_and_names_where_it_is_from():
    gpu = ClockworkGpu()
    gpu.clock()
    three_kernels(gpu)
    gpu.synchronize()
    gpu.clock()
    views = [lane_plot({"eager": gpu.spans}, "clockwork") for _ in range(2)]
    assert views[0] == views[1]
    assert "clockwork" in views[0].text
    assert "between the first and the last look at the clock: 95 µs" in views[0].text
    assert len(views[0].html) < PICTURE
    with pytest.raises(ValueError, match="no spans to draw"):
        lane_plot({"eager": ()}, "clockwork")


def test_one_launch_is_not_called_launches():
    spans = (Span("host", "launch", 0.0, 5e-6), Span("device", "fused", 5e-6, 30e-6))
    said = "1 launch, over on the host after 5 µs; 1 kernel, over on the device after 35 µs."
    assert describe_spans(spans) == said


def test_measurements_survive_json_to_five_digits():
    found = Measurements(
        ORIGIN,
        {"a": timing("a", 1e-3)},
        {"s": Speed(timing("a", 2e-3), timing("b", 1e-3), (2.0,), (1.9, 2.1), verdict="faster")},
        {"eager": (Span("host", "launch", 0.0, 5e-6),)},
        {"bytes": 67108864.0},
    )
    once = Measurements.from_dict(found.to_dict())
    assert once == Measurements.from_dict(once.to_dict())
    assert once.timings["a"].samples == pytest.approx(found.timings["a"].samples, rel=1e-4)
    recorded = once.from_origin(Origin("recorded", "NVIDIA H200", "2.11.0", date="2026-11-29"))
    assert {one.origin.kind for one in (*recorded.timings.values(), recorded.speeds["s"].base)} == {"recorded"}
    with pytest.raises(ValueError, match="record them again"):
        Measurements.from_dict({"timings": 3})
