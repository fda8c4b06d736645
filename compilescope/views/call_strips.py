"""Several runs side by side, a row each: what became of each call, what that cost, and which guard failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compilescope.facts import Call, Run
from compilescope.text import count, describe_refusal
from compilescope.views.call_timeline import OUTCOMES
from compilescope.views.card import card, color, escape, table
from compilescope.views.display import Display

_STYLE = (
    ".cv .strips td:last-child,.cv .cures td:nth-last-child(3){width:99%}.cv .cures td:last-child{width:auto}"
    ".cv .cure{font:.94em var(--mono);white-space:nowrap}.cv .strips b{white-space:nowrap}"
)
"""The guard takes what width is left: signs and cures are read at a glance."""

Cures = Mapping[str, tuple[str, Run]]


def strips(runs: Mapping[str, Run], labels: Sequence[object] = (), cures: Cures | None = None) -> Display:
    """A row for each run, a sign for each of its calls.

    Args:
        runs: name of the row to its run.
        labels: what was passed in the first call, the second…: the heads of the columns. No run has more calls.
        cures: name of a row to what was changed, and the run after that change; shown beside the row.
    """
    if not runs:
        return card("No runs", "<p>Nothing was observed.</p>", "Nothing was observed.", "")
    cures = cures or {}
    heads = ["", *map(str, labels)] if labels else ["", "calls"]
    heads += ["guard that failed", "cure", "calls"] if cures else ["compiles", "guard that failed"]
    rows = [_row(name, run, len(labels), cures) for name, run in runs.items()]
    legend = "".join(_legend(outcome) for outcome in OUTCOMES if _has(outcome, runs, cures))
    numbers = tuple(i for i, head in enumerate(heads) if head == "compiles")
    kind = "strips cures" if cures else "strips"
    body = f'<style>{_STYLE}</style><div class="{kind}">{table(heads, rows, numbers=numbers)}</div>'
    body += f'<p class="mute">{legend}</p>'
    title = f"{count(len(runs), 'row')}, {count(sum(len(run.calls) for run in runs.values()), 'call')}"
    lines = [_line(name, run, cures) for name, run in runs.items()]
    if labels:
        lines.insert(0, f"calls: {', '.join(map(str, labels))}")
    lines.append(", ".join(f"{OUTCOMES[name][0]} {name}" for name in OUTCOMES if _has(name, runs, cures)))
    return card(title, body, "\n".join(lines), next(iter(runs.values())).origin.sentence())


def _row(name: str, run: Run, columns: int, cures: Cures) -> list[str]:
    dots = [_dot(i, call) for i, call in enumerate(run.calls, 1)]
    shown = [*dots, *[""] * (columns - len(dots))] if columns else [_together(dots)]
    title, why = f"<b>{escape(name)}</b>", escape(_why(run))
    if not cures:
        return [title, *shown, str(compiles(run)), why]
    what, cured = cures.get(name, ("", None))
    after = [_dot(i, call) for i, call in enumerate(cured.calls, 1)] if cured else []
    return [title, *shown, why, f'<span class="cure">{escape(what)}</span>' if what else "", _together(after)]


def compiles(run: Run) -> int:
    """How often Dynamo captured graphs of a frame: what the calls of this run cost."""
    return sum(bool(compiled.graphs) for compiled in run.compiles)


def _together(dots: list[str]) -> str:
    return f'<span style="display:inline-flex;gap:2px">{"".join(dots)}</span>'


def _dot(number: int, call: Call) -> str:
    sign, ink, _ = OUTCOMES[call.outcome]
    return f'<i class="dot" {color(ink)} role="img" aria-label="call {number}: {call.outcome}">{sign}</i>'


def _legend(outcome: str) -> str:
    sign, ink, meaning = OUTCOMES[outcome]
    return f'<i class="dot" {color(ink)}>{sign}</i> {escape(outcome)}: {escape(meaning)} &ensp; '


def _has(outcome: str, runs: Mapping[str, Run], cures: Cures) -> bool:
    every = [*runs.values(), *(run for _, run in cures.values())]
    return any(call.outcome == outcome for run in every for call in run.calls)


def _why(run: Run) -> str:
    """The guard that refused first; of several entries the newest is asked first."""
    return next((describe_refusal(call.refusals[0]) for call in run.calls if call.refusals), "")


def _signs(run: Run) -> str:
    return "".join(OUTCOMES[call.outcome][0] for call in run.calls)


def _line(name: str, run: Run, cures: Cures) -> str:
    said = f"{name}: {_signs(run)} {count(compiles(run), 'compile')}"
    if why := _why(run):
        said += f"; {why}"
    if name in cures:
        what, cured = cures[name]
        said += f"; cure: {what}: {_signs(cured)} {count(compiles(cured), 'compile')}"
    return said
