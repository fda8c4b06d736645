"""timing_2: the median and the spread of the calls that come after the warm-up."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.judging import called
from compilescope.clockwork import ClockworkGpu

T = TypeVar("T")
LABEL = "steady_time(fn, clock, warmup, repeats)"
METHODS = (
    "linear",
    "lower",
    "higher",
    "midpoint",
    "nearest",
    "weibull",
    "hazen",
    "median_unbiased",
    "averaged_inverted_cdf",
)
"""Ways to take a quartile between two samples; each of them is a right one."""


def ask(draw: Draw) -> Values:
    """Seconds of each call: the warm-up slow, then a fifth of the calls disturbed by another program.

    Less than a quarter, so that whichever way one takes the quartiles, no disturbed call moves them.
    """
    warmup, repeats = draw.size(2, 5), 2 * draw.size(8, 15) + 1
    base = draw.size(200, 900) * 1e-6
    steady = [base * (1 + i / repeats / 10) for i in range(repeats)]
    for at in _shuffled(range(repeats), draw)[: repeats // 5]:
        steady[at] *= draw.number(2, 8)
    steady = _shuffled(steady, draw)
    slow = [draw.number(2, 4), *(draw.number(0.1, 0.9) for _ in range(warmup - 1))]
    return {"warmup": warmup, "repeats": repeats, "calls": slow + steady}


def _shuffled(values: Iterable[T], draw: Draw) -> list[T]:
    return sorted(values, key=lambda _: draw.size(0, 10**6))


def probe(answer: Answer, asked: Values) -> Values:
    """Both numbers that came back, and how often the function was called."""
    gpu, durations, calls = ClockworkGpu(), asked["calls"], [0]

    def fn() -> None:
        gpu.work(durations[min(calls[0], len(durations) - 1)])
        calls[0] += 1

    found = called(LABEL, answer.steady_time, fn, gpu.clock, asked["warmup"], asked["repeats"])
    if not isinstance(found, (tuple, list)) or len(found) != 2 or not all(_is_number(one) for one in found):
        raise NotYet(LABEL, f"returned {str(found)[:40]}", "(median, spread) is wanted", "Look at the docstring.")
    return {"median": float(found[0]), "spread": float(found[1]), "calls": calls[0]}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.floating)) and not isinstance(value, bool)


def judge(asked: Values, found: Values) -> str:
    """As many calls as asked for; the median of the last `repeats`, and the width of their middle half."""
    wanted = asked["warmup"] + asked["repeats"]
    if found["calls"] != wanted:
        ran = f"{LABEL.split('(')[0]}(…, {asked['warmup']}, {asked['repeats']})"
        raise NotYet(ran, f"called fn {found['calls']} times", f"{wanted} are wanted", "Look at both loops.")
    steady = asked["calls"][asked["warmup"] :]
    median = statistics.median(steady)
    _compare("the median is", found["median"], median, median, _why_median(asked, found["median"]))
    widths = [_width(steady, method) for method in METHODS]
    look = "Look at the quarters: how wide is the middle half?"
    _compare("the spread is", found["spread"], min(widths), max(widths), look)
    return f"{median * 1e6:.0f} µs, in spite of {asked['repeats'] // 5} disturbed calls"


def _width(values: list[float], method: Any) -> float:
    low, high = np.quantile(values, [0.25, 0.75], method=method)
    return float(high - low)


def _compare(what: str, said: float, low: float, high: float, look: str) -> None:
    if not low - 1e-9 <= said <= high + 1e-9:
        raise NotYet(LABEL, f"says {what} {said * 1e6:,.0f} µs", f"{low * 1e6:,.0f} µs is right", look)


def _why_median(asked: Values, said: float) -> str:
    steady = asked["calls"][asked["warmup"] :]
    if abs(said - statistics.mean(steady)) <= 1e-9:
        return "A mean follows the few disturbed calls; a median does not."
    if said > max(steady) or abs(said - statistics.median(asked["calls"])) <= 1e-9:
        return "Look at which calls are in it: the warm-up is not."
    return "Look at which of the sorted samples you take, and what lies between the looks at the clock."


_START = "import statistics\nimport numpy as np\n"
_RIGHT = """
def steady_time(fn, clock, warmup=3, repeats=20):
    for _ in range(warmup):
        fn()
    samples = []
    for _ in range(repeats):
        start = clock()
        fn()
        samples.append(clock() - start)
    low, middle, high = statistics.quantiles(samples, n=4)
    return middle, high - low
"""

EXERCISE = Exercise(
    name="timing_2",
    lesson="02_timing",
    points=2,
    asks_for=("steady_time",),
    check=Check(ask, probe, judge),
    hints=(
        "Two loops: one whose times you throw away, one whose times you keep, each call with its own two looks.",
        "Take the median, since one disturbed call must not count. The spread is the distance between the quartiles.",
        "low, middle, high = statistics.quantiles(samples, n=4), where samples has one entry for each repeat.",
    ),
    known_mistakes=(
        KnownMistake(_START + _RIGHT.replace("return middle,", "return statistics.mean(samples),"), "A mean follows"),
        KnownMistake(  # one look before all, one after: a mean again
            _START
            + """
def steady_time(fn, clock, warmup=3, repeats=20):
    for _ in range(warmup):
        fn()
    start = clock()
    for _ in range(repeats):
        fn()
    return (clock() - start) / repeats, 0.0
""",
            "A mean follows",
        ),
        KnownMistake(  # the warm-up is timed like the rest
            _START
            + _RIGHT.replace("    for _ in range(warmup):\n        fn()\n", "").replace(
                "(repeats)", "(warmup + repeats)"
            ),
            "the warm-up is not",
        ),
        KnownMistake(_START + _RIGHT.replace("    for _ in range(warmup):\n        fn()\n", ""), "called fn"),
        KnownMistake(_START + _RIGHT.replace("range(warmup)", "range(1)"), "called fn"),
        KnownMistake(_START + _RIGHT.replace("return middle,", "return min(samples),"), "sorted samples"),
        KnownMistake(_START + _RIGHT.replace("high - low", "max(samples) - min(samples)"), "the spread is"),
        KnownMistake(_START + _RIGHT.replace("high - low", "statistics.stdev(samples)"), "the spread is"),
        KnownMistake(_START + _RIGHT.replace("return middle, high - low", "return middle"), "(median, spread)"),
        KnownMistake(
            "import time\n" + _START + _RIGHT.replace("clock()", "time.perf_counter()"),
            "the median is",
        ),
    ),
    alternatives=(
        _START + _RIGHT,
        _START
        + """
def steady_time(fn, clock, warmup=3, repeats=20):
    def once(_):
        start = clock()
        fn()
        return clock() - start

    samples = np.array([once(i) for i in range(warmup + repeats)])[warmup:]
    return float(np.median(samples)), float(np.percentile(samples, 75) - np.percentile(samples, 25))
""",
        """
import torch

def steady_time(fn, clock, warmup=3, repeats=20):
    looks = []
    for _ in range(warmup):
        fn()
    for _ in range(repeats):
        looks.append(clock())
        fn()
        looks.append(clock())
    seconds = torch.tensor(looks, dtype=torch.float64).view(-1, 2).diff(dim=1).flatten().sort().values
    return seconds[len(seconds) // 2].item(), (seconds.quantile(0.75) - seconds.quantile(0.25)).item()
""",
    ),
)
