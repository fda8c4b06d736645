"""`measure` times one function, `compare_speed` two: warmed up, synchronized, and sure of it or silent.

`compilescope.compare` compares what two *runs* compiled; speed has its own word.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

from compilescope.bootstrap import median_interval
from compilescope.facts_timing import Speed, Timing, Verdict
from compilescope.stopwatch import Stopwatch, stopwatch_for
from compilescope.torch_internals.counters import graphs_captured
from compilescope.torch_internals.functions import is_compiled

WARMUP = 3
MOST_WARMUP = 12
SETTLED = 1.3
"""Warm-up ends when a call took about as long as the fastest one so far, within this factor, or after `MOST_WARMUP`."""
FEWEST, MOST = 10, 200
SHORTEST_SAMPLE = 1e-3
"""Seconds: functions that are faster are called several times in a sample, unless caches are flushed."""
CONFIDENCE = 0.99
TOO_WIDE = 2.0
"""No number when the upper end of the interval is more than this times the lower one."""


def measure(
    fn: Callable[..., Any], *args: Any, flush: bool = True, seconds: float = 1.0, watch: Stopwatch | None = None
) -> Timing:
    """Times of ``fn(*args)``, once it is warm: the median is what a call costs, `first` what the very first one cost.

    Args:
        fn: what to time. Its first call here is the first of `warmup`; call nothing before if you want that one.
        args: handed to `fn` at each call. A tensor on a GPU makes CUDA events the clock.
        flush: overwrite the caches before each sample, so that inputs come from memory, as in a large program. On a
            GPU the seconds are then those of its kernels alone; without it they hold what the host needs to launch.
        seconds: about how long to take samples (10 at least, 200 at most).
        watch: another clock, such as a test's.
    """
    clock = watch or stopwatch_for(args)
    call = _bound(fn, args)
    warmup = _warm(call, clock)
    calls = 1 if flush else max(1, min(1000, math.ceil(SHORTEST_SAMPLE / max(warmup[-1], 1e-9))))
    before, began = graphs_captured(), clock.now()
    samples: list[float] = []
    while len(samples) < FEWEST or (len(samples) < MOST and clock.now() - began < seconds):
        samples.append(_sample(call, calls, flush, clock))
    again = max(0, graphs_captured() - before)
    return Timing(_name(fn), clock.origin, tuple(samples), tuple(warmup), clock.clock, calls, flush, again)


def compare_speed(
    base: Callable[..., Any],
    other: Callable[..., Any],
    *args: Any,
    flush: bool = True,
    seconds: float = 4.0,
    precision: float = 0.05,
    watch: Stopwatch | None = None,
) -> Speed:
    """How many times as fast ``other(*args)`` is as ``base(*args)``, with an interval; or that it cannot be told.

    Both are called in turn, in random order within a pair, so that whatever slows the machine down slows both. Pairs
    are added until the interval is as narrow as `precision` asks, or `seconds` have gone by. It answers "faster" or
    "slower" where the whole interval lies on one side of 1, "as fast" where all of it is within `precision` of 1, and
    nothing else: then `verdict` is None. Where that is so, or the interval is wider than a factor of two, there is no
    number either: `times` is None and `refusal` says why.

    Args:
        base: what you have now.
        other: what you would have instead.
        args: handed to both.
        flush: as for `measure`.
        seconds: about how long to go on.
        precision: 0.05 asks for ±5 %.
        watch: another clock, such as a test's.
    """
    clock = watch or stopwatch_for(args)
    both = [_bound(base, args), _bound(other, args)]
    warmups = [_warm(call, clock) for call in both]
    slower = max(warmup[-1] for warmup in warmups)
    calls = 1 if flush else max(1, min(1000, math.ceil(SHORTEST_SAMPLE / max(slower, 1e-9))))
    order, before, began = random.Random(0), graphs_captured(), clock.now()
    samples: tuple[list[float], list[float]] = ([], [])
    interval = (0.0, math.inf)
    while len(samples[0]) < FEWEST or (len(samples[0]) < MOST and clock.now() - began < seconds):
        for which in order.sample((0, 1), 2):
            samples[which].append(_sample(both[which], calls, flush, clock))
        if len(samples[0]) >= FEWEST and len(samples[0]) % 5 == 0:
            interval = median_interval(_ratios(*samples), CONFIDENCE)
            if interval[1] <= interval[0] * (1 + precision):
                break
    ratios = _ratios(*samples)
    interval = median_interval(ratios, CONFIDENCE)
    again = max(0, graphs_captured() - before)
    first, second = (
        Timing(_name(fn), clock.origin, tuple(found), tuple(warmup), clock.clock, calls, flush, again)
        for fn, found, warmup in zip((base, other), samples, warmups, strict=True)
    )
    verdict = verdict_of(interval, precision)
    return Speed(first, second, ratios, interval, CONFIDENCE, verdict, _refusal(first, second, interval, verdict))


def verdict_of(interval: tuple[float, float], precision: float) -> Verdict | None:
    """What an interval of the ratio says; None if it allows more than one answer."""
    low, high = interval
    if low > 1:
        return "faster"
    if high < 1:
        return "slower"
    return "as fast" if low >= 1 / (1 + precision) and high <= 1 + precision else None


def _refusal(base: Timing, other: Timing, interval: tuple[float, float], verdict: Verdict | None) -> str:
    """Empty where the interval is good enough for a number."""
    low, high = interval
    if verdict and high <= TOO_WIDE * low:
        return ""
    what = f"Too noisy for a number: {other.name} is {verdict}," if verdict else f"Too noisy to tell: {other.name} is"
    return (
        f"{what} somewhere between {low:.2g} and {high:.2g} times as fast as {base.name} after {len(base.samples)} "
        "pairs. Close other programs, give it larger inputs, or allow more seconds"
    )


def _ratios(base: list[float], other: list[float]) -> tuple[float, ...]:
    return tuple(a / max(b, 1e-12) for a, b in zip(base, other, strict=True))


def _bound(fn: Callable[..., Any], args: tuple[Any, ...]) -> Callable[[], object]:
    if not callable(fn):
        raise TypeError(f"A function is timed, not its result: leave the call out, measure(f, x). This is {fn!r:.60}.")
    return lambda: fn(*args)


def _name(fn: Callable[..., Any]) -> str:
    """``relu``, or ``compiled relu``: the two are mostly what is compared."""
    name = str(getattr(fn, "__name__", None) or type(fn).__name__)
    return f"compiled {name}" if is_compiled(fn) else name


def _warm(call: Callable[[], object], clock: Stopwatch) -> list[float]:
    """Seconds of each warm-up call: until one is about as fast as the fastest, so that every compile is over."""
    found: list[float] = []
    while len(found) < MOST_WARMUP:
        found.append(clock.seconds(call, 1))
        if len(found) >= WARMUP and 1 / SETTLED <= found[-1] / max(min(found[:-1]), 1e-12) <= SETTLED:
            break
    return found


def _sample(call: Callable[[], object], calls: int, flush: bool, clock: Stopwatch) -> float:
    if flush:
        clock.flush()
    return clock.seconds(call, calls) / calls
