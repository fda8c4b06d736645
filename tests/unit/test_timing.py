"""`measure` and `compare_speed` on clocks whose true times are known: no test here looks at a real clock."""

import random

import pytest
import torch

from compilescope.bootstrap import median_interval
from compilescope.facts import Origin
from compilescope.stopwatch import HostStopwatch, last_level_cache, stopwatch_for
from compilescope.timing import FEWEST, MOST, MOST_WARMUP, compare_speed, measure, verdict_of

ORIGIN = Origin("live", "CPU", "2.13.0")


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
