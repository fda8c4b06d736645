"""Times as dots: each call of one or several functions, or the pair ratios of a comparison."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from compilescope.facts_timing import Speed, Timing
from compilescope.text import count, seconds
from compilescope.views.display import Display
from compilescope.views.figure import COLORS, MARKS, figure_card, new_figure

_MOST_DOTS = 40


def time_plot(*found: Timing | Speed) -> Display:
    """Timings: every call in order, warm-up hollow, on a logarithmic scale. One Speed: its pairs and its interval.

    Raises TypeError for anything else, and for a mixture.
    """
    if len(found) == 1 and isinstance(found[0], Speed):
        return _speed_plot(found[0])
    timings = [one for one in found if isinstance(one, Timing)]
    if not found or len(timings) != len(found):
        raise TypeError("time_plot draws timings, time_plot(measure(f, x), measure(g, x)), or one compare_speed(…).")
    return _call_plot(timings)


def _call_plot(timings: Sequence[Timing]) -> Display:
    figure, axes = new_figure(7.6, 2.9)
    for i, timing in enumerate(timings):
        ink, mark, warm = COLORS[i % len(COLORS)], MARKS[i % len(MARKS)], len(timing.warmup)
        axes.plot(
            range(1, warm + 1), timing.warmup, mark, mfc="white", mec=ink, ms=7, mew=1.5, ls="-", lw=0.6, color=ink
        )
        shown = _thinned(timing.samples)
        axes.plot([warm + 1 + at for at, _ in shown], [one for _, one in shown], mark, color=ink, ms=3, alpha=0.7)
        last = warm + len(timing.samples)
        axes.plot([warm + 1, last], [timing.median] * 2, color=ink, lw=1.5)
        slower = timing.median >= max(one.median for one in timings)
        label = f" {timing.name}: {seconds(timing.median)}"
        axes.annotate(
            label, (last, timing.median), color=ink, va="bottom" if slower else "top", fontsize=9, annotation_clip=False
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    _plain_axes(axes)
    axes.set_xlabel("call (hollow: warm-up, in no median)", fontsize=9)
    axes.margins(x=0.02)
    title = " and ".join(f"{one.name} {seconds(one.median)}" for one in timings)
    text = "\n".join(one.sentence() + "." for one in timings)
    return figure_card(figure, f"Median of a call: {title}", text, timings[0].origin.sentence())


def _speed_plot(speed: Speed) -> Display:
    figure, axes = new_figure(7.6, 1.7)
    drawn = [ratio for _, ratio in _thinned(speed.ratios)]
    noise = random.Random(0)
    axes.plot(drawn, [noise.uniform(0.55, 1.3) for _ in drawn], "o", color=COLORS[0], ms=4, alpha=0.5)
    low, high = speed.interval
    axes.plot([low, high], [0.2, 0.2], color=COLORS[1], lw=5, solid_capstyle="butt")
    axes.annotate("interval of the median", (high, 0.2), xytext=(6, -3), textcoords="offset points", fontsize=8)
    axes.axvline(1, color="#5a6068", lw=1, ls="--")
    axes.annotate("as fast", (1, 1.45), ha="center", fontsize=8, color="#5a6068", annotation_clip=False)
    axes.set_ylim(0, 1.4)
    axes.set_xlim(*_ratio_limits(speed))
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(f"times as fast as {speed.base.name}: {count(len(speed.ratios), 'pair')}", fontsize=9)
    title = f"{speed.other.name}: {speed.verdict}, no number" if speed.verdict else "No answer"
    if speed.times:
        title = f"{speed.other.name}: {speed.times:.2f} times as fast as {speed.base.name}"
    return figure_card(figure, title, speed.sentence() + ".", speed.base.origin.sentence())


def _ratio_limits(speed: Speed) -> tuple[float, float]:
    """Room for 1, the interval, and eight tenths of the pairs: an odd pair does not squeeze the rest."""
    ordered = sorted(speed.ratios)
    cut = len(ordered) // 10
    low = min(1.0, speed.interval[0], ordered[cut])
    high = max(1.0, speed.interval[1], ordered[-1 - cut])
    room = 0.08 * max(high - low, 0.2)
    return low - room, high + 3 * room


def _thinned(values: Sequence[float]) -> list[tuple[int, float]]:
    """(index, value) of at most `_MOST_DOTS` values, evenly spread, so that a picture stays small."""
    step = max(1, -(-len(values) // _MOST_DOTS))
    return list(enumerate(values))[::step]


def _plain_axes(axes: Any) -> None:
    """Powers of ten written as calls and as times: ``100``, ``10 ms``."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _power(value)))
    low, high = axes.get_ylim()
    if high < 100 * low:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.minorticks_off()


def _power(value: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= 0.999 * size:
            return f"{value / size:g} {unit}"
    return f"{value / 1e-9:g} ns"
