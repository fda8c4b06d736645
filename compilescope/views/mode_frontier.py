"""What each mode costs to start against what it costs from then on: one panel a workload, the frontier as a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compilescope.facts_modes import ModeTable, Trial
from compilescope.text import seconds, size
from compilescope.views.display import Display
from compilescope.views.figure import COLORS, MARKS, figure_card, new_figure

_SHORT = {"max-autotune-no-cudagraphs": "max-autotune, no graphs"}
_MOST_COLUMNS = 3


def mode_frontier(table: ModeTable, *workloads: str) -> Display:
    """Workloads as panels (all of the group ``modes``, or those named): start-up seconds against steady time.

    On the line lie the modes that no other beats in both. Raises KeyError for a workload that is not in the table.
    """
    names = workloads or tuple(one.name for one in table.group("modes"))
    trials = {name: [one for one in table.of(name) if one.steady_us is not None] for name in names}
    every = list(dict.fromkeys(["eager", *table.options, *(one.mode for one in table.trials)]))
    modes = [mode for mode in every if any(one.mode == mode for one in table.trials)]  # a mark is a mode's own
    figure, panels = _panels(len(names))
    for axes, name in zip(panels, names, strict=False):
        _panel(axes, name, trials[name], modes)
    handles, labels = _legend(panels, modes)
    if labels:
        figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    text = "\n".join(line for name in names for line in _lines(table, name))
    return figure_card(figure, _title(trials), text, table.origin.sentence())


def _title(trials: dict[str, list[Trial]]) -> str:
    best = {name: min(found, key=lambda one: one.steady_us or 0).mode for name, found in trials.items() if found}
    if not best:
        return "No mode reached its steady state"
    named = [f"{mode} in {name}" for name, mode in best.items()] if len(trials) > 1 else best.values()
    return f"Fastest in steady state: {', '.join(named)}"


def frontier(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that no other beats both in start and in steady state, by start."""
    found: list[Trial] = []
    for trial in sorted((one for one in trials if one.steady_us), key=lambda one: (one.start_s or 0, one.steady_us)):
        if not found or (trial.steady_us or 0) < (found[-1].steady_us or 0):
            found.append(trial)
    return found


def _panels(number: int) -> tuple[Any, list[Any]]:
    columns = min(number, _MOST_COLUMNS)
    rows = -(-number // columns)
    figure, _ = new_figure(max(5.2, 2.9 * columns + 0.6), 2.25 * rows + 0.8)
    figure.clear()
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
    for spare in panels[number:]:
        spare.set_visible(False)
    return figure, panels


def _panel(axes: Any, name: str, trials: Sequence[Trial], modes: list[str]) -> None:
    axes.set_title(name, fontsize=9.5, loc="left")
    if not trials:
        axes.text(0.5, 0.5, "not measured", ha="center", fontsize=8, transform=axes.transAxes)
        return
    line = frontier(trials)
    axes.step(
        [one.start_s for one in line], [(one.steady_us or 0) / 1e3 for one in line], where="post", color="#999", lw=1
    )
    for trial in trials:
        i = modes.index(trial.mode)
        beaten = {"mfc": "white"} if trial not in line else {}
        axes.plot(
            trial.start_s, (trial.steady_us or 0) / 1e3, MARKS[i % len(MARKS)], color=COLORS[i % len(COLORS)], ms=7,
            label=_SHORT.get(trial.mode, trial.mode), **beaten,
        )  # fmt: skip
    axes.set(xscale="log", yscale="log")
    axes.set_xlabel("start, s", fontsize=8)
    axes.set_ylabel("a call, ms", fontsize=8)
    axes.margins(0.15)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_formatter(lambda value, _: "")
        axis.set_tick_params(which="both", labelsize=7.5)
    _narrow(axes.xaxis, [one.start_s or 0 for one in trials])
    _narrow(axes.yaxis, [(one.steady_us or 0) / 1e3 for one in trials])


def _narrow(axis: Any, values: Sequence[float]) -> None:
    """Numbers between the powers of ten on a logarithmic axis that spans less than two of them, and only there."""
    from matplotlib.ticker import MaxNLocator

    if not values or max(values) >= 100 * min(values):
        axis.set_ticks([], minor=True)
    elif max(values) < 2 * min(values):  # perhaps no power of ten at all
        axis.set_ticks([], minor=True)
        axis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    else:
        digits = "25" if max(values) >= 10 * min(values) else "23457"
        axis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in digits else "")


def _legend(panels: Sequence[Any], modes: list[str]) -> tuple[list[Any], list[str]]:
    found: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    labels = [_SHORT.get(mode, mode) for mode in modes if _SHORT.get(mode, mode) in found]
    return [found[label] for label in labels], labels


def _lines(table: ModeTable, name: str) -> list[str]:
    trials = table.of(name)
    best = frontier(trials)
    said = [f"{name}:"]
    for one in trials:
        if one.steady_us is None:
            began = f"starts in {seconds(one.start_s)}, no steady state" if one.start_s else "not measured"
            said.append(f"  {one.mode}: {one.error or began}")
            continue
        kept = f", keeps {size(one.kept_bytes)}" if one.kept_bytes is not None else ""
        mark = " (frontier)" if one in best else ""
        costs = f"starts in {seconds(one.start_s or 0)}, {seconds(one.steady_us / 1e6)} a call"
        said.append(f"  {one.mode}: {costs}{kept}{mark}")
    tried, every = {one.mode for one in trials}, dict.fromkeys(one.mode for one in table.trials)
    return [*said, *(f"  {mode}: not tried" for mode in every if mode not in tried)]
