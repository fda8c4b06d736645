"""A time line with two lanes: what the host did, and what the device did meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compilescope.facts import Origin
from compilescope.facts_timing import Span
from compilescope.text import count, seconds
from compilescope.views.display import Display
from compilescope.views.figure import COLORS, figure_card, new_figure

_HOST = {"launch": COLORS[0], "wait": "#c9ced6", "compile": COLORS[4]}
_HATCH = {"wait": "///", "compile": "xx"}
_KEY = {"wait": "striped: the host waits", "compile": "crossed: it compiles", "clock": "line: a look at the clock"}
_MOST_NAMED = 12


def lane_plot(rows: Mapping[str, Sequence[Span]], origin: Origin | str) -> Display:
    """One pair of lanes, host and device, for each row, on one time axis; a look at the clock is a vertical line.

    `origin` is where the spans are from: a recording's Origin, or a few words.
    """
    if not any(rows.values()):
        raise ValueError("There are no spans to draw: record some with record_spans(call), or run a ClockworkGpu.")
    figure, axes = new_figure(7.6, 0.5 + 0.95 * len(rows))
    scale, unit = _unit(max(span.end for spans in rows.values() for span in spans))
    ticks: dict[float, str] = {}
    for i, (name, spans) in enumerate(rows.items()):
        top = -2.6 * i
        ticks |= {top: f"{name}: host" if name else "host", top - 1: "device"}
        _draw_lanes(axes, spans, top, scale)
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.set_ylim(-2.6 * len(rows) + 1.0, 0.9)
    drawn = {span.name for spans in rows.values() for span in spans}
    key = "; ".join(words for name, words in _KEY.items() if name in drawn)
    axes.set_xlabel(f"{unit} ({key})" if key else unit, fontsize=9)
    text = "\n".join(f"{name}: {describe_spans(spans)}".removeprefix(": ") for name, spans in rows.items())
    said = origin if isinstance(origin, str) else origin.sentence()
    return figure_card(figure, "What the host does, and what the device does", text, said)


def describe_spans(spans: Sequence[Span]) -> str:
    """Like ``3 launches, over on the host after 18 µs; 3 kernels, over on the device after 97 µs; clock: 18 µs``."""
    launches = [one for one in spans if one.name == "launch"]
    kernels = [one for one in spans if one.lane == "device"]
    looks = [one.start for one in spans if one.name == "clock"]
    said = "nothing launched, nothing ran on the device"
    if launches or kernels:
        over = f", over on the host after {seconds(launches[-1].end)}" if launches else ""
        said = ("1 launch" if len(launches) == 1 else f"{len(launches)} launches") + over
        done = f", over on the device after {seconds(max(one.end for one in kernels))}" if kernels else ""
        said += f"; {count(len(kernels), 'kernel')}{done}"
    if len(looks) > 1:
        said += f"; clock: {seconds(looks[-1] - looks[0])}"
    return said + "."


def _draw_lanes(axes: Any, spans: Sequence[Span], top: float, scale: float) -> None:
    kernels = [span for span in spans if span.lane == "device"]
    for i, span in enumerate(kernels):
        left, width = span.start * scale, span.seconds * scale
        axes.barh(top - 1, width, left=left, height=0.7, color=COLORS[2], edgecolor="white", lw=0.8)
        if len(kernels) <= _MOST_NAMED:
            name = span.name if len(span.name) < 12 else f"kernel {i + 1}"
            axes.text(
                left + width / 2, top - 1, name, ha="center", va="center", fontsize=8, color="white", clip_on=True
            )
    for span in spans:
        if span.name == "clock":
            axes.plot([span.start * scale] * 2, [top + 0.6, top - 1.5], color="#1c1e21", lw=1.4)
        elif span.lane == "host":
            ink, hatch = _HOST.get(span.name, COLORS[7]), _HATCH.get(span.name, "")
            axes.barh(
                top,
                span.seconds * scale,
                left=span.start * scale,
                height=0.7,
                color=ink,
                hatch=hatch,
                edgecolor="white",
            )


def _unit(longest: float) -> tuple[float, str]:
    if longest < 1e-3:
        return 1e6, "µs"
    return (1e3, "ms") if longest < 1 else (1.0, "s")
