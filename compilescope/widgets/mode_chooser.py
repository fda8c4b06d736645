"""Choose a mode: how often will it be called, how much may it keep? Totals come from a table of trials."""

from __future__ import annotations

import html
from dataclasses import dataclass

import ipywidgets
from IPython.display import display

from compilescope.facts_modes import ModeTable, Trial
from compilescope.text import count, seconds, size
from compilescope.views import mode_frontier
from compilescope.views.card import card, color, escape, table

_STEPS = tuple(int(step * 10**power) for power in range(8) for step in (1, 2, 5))
"""Numbers of calls that the slider offers."""
_ANY = -1
_LIMITS = (2**2, 2**4, 2**6, 2**8, 2**10, _ANY)
"""Memory in MiB that may be kept; `_ANY` for as much as it takes."""


@dataclass(frozen=True)
class Cost:
    """What one mode costs for a number of calls; `regret` is 0.1 for 10 % more than the cheapest that may be taken."""

    trial: Trial
    total_s: float
    allowed: bool
    regret: float


def costs(trials: tuple[Trial, ...], calls: int, most_bytes: int | None = None) -> tuple[Cost, ...]:
    """The trials by their total time; a mode that keeps more than `most_bytes`, or that failed, is not allowed."""

    def allowed(trial: Trial) -> bool:
        return trial.steady_us is not None and (most_bytes is None or (trial.kept_bytes or 0) <= most_bytes)

    least = min((trial.total_s(calls) for trial in trials if allowed(trial)), default=float("inf"))
    found = [Cost(one, one.total_s(calls), allowed(one), one.total_s(calls) / least - 1) for one in trials]
    return tuple(sorted(found, key=lambda cost: (not cost.allowed, cost.total_s)))


def mode_chooser(found: ModeTable, *workloads: str) -> None:
    """Display the chooser for these workloads of the table, or for all of its group ``modes``."""
    chooser = Chooser(found, *workloads)
    display({**chooser.box._repr_mimebundle_(), "text/plain": chooser.text}, raw=True)


class Chooser:
    """The widget. `costs` are those for what the controls say now; `text` says the best of them in words."""

    def __init__(self, found: ModeTable, *workloads: str) -> None:
        self._table = found
        names = workloads or tuple(one.name for one in found.group("modes"))
        wide = {"style": {"description_width": "9em"}, "layout": {"width": "32em"}}
        self.workload = ipywidgets.Dropdown(options=names, description="workload", **wide)
        self.calls = ipywidgets.SelectionSlider(
            options=[(f"{number:,}", number) for number in _STEPS], value=1000, description="calls", **wide
        )
        limits = [("any" if limit == _ANY else f"{limit} MiB", limit) for limit in _LIMITS]
        self.memory = ipywidgets.SelectionSlider(options=limits, value=_ANY, description="may keep", **wide)
        self.picture = ipywidgets.HTML()
        self.costs: tuple[Cost, ...] = ()
        self.text = ""
        for control in (self.workload, self.calls, self.memory):
            control.observe(self._draw, "value")
        self.frontier = ipywidgets.HTML()
        controls = ipywidgets.VBox([self.workload, self.calls, self.memory])
        self.box = ipywidgets.VBox([controls, self.picture, self.frontier])
        self._draw()

    def _draw(self, change: object = None) -> None:
        calls, limit = self.calls.value, self.memory.value
        trials = self._table.of(self.workload.value)
        self.costs = costs(trials, calls, None if limit == _ANY else limit * 2**20)
        best = self.costs[0]
        taken = f"{best.trial.mode}, {seconds(best.total_s)} for {count(calls, 'call')}"
        says = taken if best.allowed else "no mode fits"
        words = next(one.words for one in self._table.workloads if one.name == self.workload.value)
        self.text = f"{self.workload.value} ({words}): {says}"
        body = table(["mode", "start and calls together", "", "more than the best", "keeps"], self._rows(), (2, 3, 4))
        self.picture.value = card(self.text, body, self.text, self._table.origin.sentence()).html
        if change is None or getattr(change, "owner", None) is self.workload or not self.frontier.value:
            self.frontier.value = mode_frontier(self._table, self.workload.value).html

    def _rows(self) -> list[list[str]]:
        longest = max((one.total_s for one in self.costs if one.total_s < float("inf")), default=1.0)
        return [_row(one, i == 0, longest) for i, one in enumerate(self.costs)]


def _row(cost: Cost, first: bool, longest: float) -> list[str]:
    trial = cost.trial
    sign = "✓ " if first and cost.allowed else ""
    name = f"{sign}<code>{escape(trial.mode)}</code>"
    if trial.steady_us is None:
        return [name, f'<span class="mute">{escape(trial.error or "not measured")}</span>', "", "", ""]
    starts = min(trial.start_s or 0.0, cost.total_s)
    parts = (("w", starts), ("", cost.total_s - starts))
    bars = "".join(f'<i class="{kind}" style="width:{100 * part / longest:.1f}%"></i>' for kind, part in parts)
    said = html.escape(f"{seconds(starts)} of {seconds(cost.total_s)} is the start")
    bar = f'<div class="bar" {color(2 if first else 0)} role="img" aria-label="{said}">{bars}</div>'
    more = f"+{cost.regret:.0%}" if cost.allowed and not first else "" if cost.allowed else "keeps too much"
    return [name, bar, seconds(cost.total_s), more, size(trial.kept_bytes) if trial.kept_bytes is not None else ""]
