"""What the first call costs against a model's depth: one line for each way of compiling it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from compilescope.facts import Origin, Run
from compilescope.facts_modes import ModeTable
from compilescope.text import count, seconds
from compilescope.views.display import Display
from compilescope.views.figure import COLORS, MARKS, figure_card, new_figure

Measured = Mapping[str, Mapping[int, float | Run]]
"""Way of compiling (``whole``, ``regional``…) to depth in blocks to seconds of the first call, or the Run of it."""


def depth_cost(found: ModeTable | Measured, origin: Origin | str = "") -> Display:
    """Seconds of the first call against depth; the text says how many seconds each further block costs.

    Args:
        found: ``recorded_modes("depth")``, or your own: ``{"whole": {2: run, 4: run}, "regional": {2: 1.3, 4: 1.3}}``.
        origin: where your own numbers are from; by default the origin of the runs among them.

    Raises ValueError if there is nothing to draw, TypeError for a depth or a cost that is no number.
    """
    table = found if isinstance(found, ModeTable) else None
    lines = _from_table(table) if table else {way: _costs(way, one) for way, one in _mapping(found).items()}
    lines = {way: costs for way, costs in lines.items() if costs}
    if not lines:
        raise ValueError('There is no first call to draw: depth_cost({"whole": {2: run}}) wants at least one.')
    where = table.origin if table else origin or _origin(found)
    return figure_card(
        _figure(lines),
        _title(lines),
        "\n".join([*_sentences(lines), *(_missing(table) if table else ())]),
        where.sentence() if isinstance(where, Origin) else where or "your own measurements",
    )


def seconds_a_block(costs: Mapping[int, float]) -> float | None:
    """Slope of the least-squares line through (depth, seconds); None for fewer than two depths."""
    if len(costs) < 2:
        return None
    center, level = sum(costs) / len(costs), sum(costs.values()) / len(costs)
    spread = sum((depth - center) ** 2 for depth in costs)
    return sum((depth - center) * (cost - level) for depth, cost in costs.items()) / spread


def _mapping(found: object) -> Measured:
    if isinstance(found, Mapping) and all(isinstance(one, Mapping) for one in found.values()):
        return found
    raise TypeError('depth_cost wants a recorded table, or costs by way and depth: {"whole": {2: run, 4: run}}.')


def _costs(way: str, given: Mapping[int, float | Run]) -> dict[int, float]:
    costs = {}
    for depth, cost in given.items():
        spent = sum(call.seconds for call in cost.calls) if isinstance(cost, Run) else cost
        if any(isinstance(one, bool) or not isinstance(one, int | float) for one in (depth, spent)):
            raise TypeError(
                f"{way}: a depth is a number of blocks, and its cost is seconds or the Run of a first call."
            )
        costs[depth] = float(spent)
    return dict(sorted(costs.items()))


def _from_table(table: ModeTable) -> dict[str, dict[int, float]]:
    lines: dict[str, dict[int, float]] = {}
    for workload in table.workloads:
        depth = _depth(workload.words)
        firsts = [one.first_s for one in table.trials if one.workload == workload.name and one.first_s is not None]
        if depth is not None and firsts:
            lines.setdefault(workload.group, {})[depth] = firsts[0]
    return {way: dict(sorted(costs.items())) for way, costs in lines.items()}


def _depth(words: str) -> int | None:
    number = re.match(r"\d+", words)
    return int(number[0]) if number else None


def _missing(table: ModeTable) -> list[str]:
    done = {one.workload for one in table.trials if one.first_s is not None}
    left = [one.name for one in table.workloads if one.name not in done]
    return [f"Not measured: {', '.join(left)}."] if left else []


def _origin(found: object) -> Origin | None:
    runs = [one for costs in _mapping(found).values() for one in costs.values() if isinstance(one, Run)]
    return runs[0].origin if runs else None


def _title(lines: Mapping[str, Mapping[int, float]]) -> str:
    slopes = {way: slope for way, costs in lines.items() if (slope := seconds_a_block(costs)) is not None}
    if not any(slope > 0 for slope in slopes.values()):
        return "Seconds of the first call"
    steepest = sorted(slopes.keys() - {"eager"}, key=lambda way: -slopes[way])[:3]
    return "Each further block: " + ", ".join(f"{_each(slopes[way])} {way}" for way in steepest)


def _each(slope: float) -> str:
    """The seconds of a further block; clocks give a little less than none, too."""
    return seconds(slope) if slope > 0 else "nothing"


def _sentences(lines: Mapping[str, Mapping[int, float]]) -> list[str]:
    said = []
    for way, costs in lines.items():
        points = ", ".join(f"{seconds(cost)} at {depth}" for depth, cost in costs.items())
        slope = seconds_a_block(costs)
        each = "" if slope is None else "; nothing more for a further block"
        if slope is not None and slope > 0:
            each = f"; about {seconds(slope)} for each further block"
        said.append(f"{way}: {points} {count(max(costs), 'block').partition(' ')[2]}{each}.")
    return said


def _figure(lines: Mapping[str, Mapping[int, float]]) -> Any:
    figure, axes = new_figure(7.6, 3.0)
    for i, (way, costs) in enumerate(lines.items()):
        ink = COLORS[i % len(COLORS)]
        axes.plot(list(costs), list(costs.values()), MARKS[i % len(MARKS)] + "-", color=ink, ms=6, lw=1.4, label=way)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.set_xticks(sorted({depth for costs in lines.values() for depth in costs}))
    axes.set_xlabel("blocks", fontsize=9)
    axes.set_ylabel("first call, s", fontsize=9)
    axes.legend(frameon=False, fontsize=9)
    return figure
