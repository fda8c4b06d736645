"""What each call did with CUDA graphs: warmed up, recorded, replayed, or none; the reason for none; memory kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from compilescope.facts import CudaGraphs, GraphSkip, Origin, Run
from compilescope.facts_modes import ModeTable, TimedCall
from compilescope.text import count, seconds
from compilescope.views.card import card, color, escape, place, table
from compilescope.views.display import Display

_WORDS = (
    ("compiles", "◆", 0, "compiled"),
    ("warmed_up", "○", 7, "warmed up"),
    ("recorded", "●", 1, "recorded"),
    ("replayed", "▶", 2, "replayed"),
)
"""Fact of a call, its sign, color and word."""
_FOLDED = 3


def cuda_graphs(facts: ModeTable | Sequence[Run], workload: str = "", mode: str = "reduce-overhead") -> Display:
    """The calls of one trial of a table, or of runs observed one after the other (one call each).

    KeyError if the table has no such trial; ValueError for no runs.
    """
    if isinstance(facts, ModeTable):
        trial = facts.trial(workload, mode)
        return _drawn(trial.calls, trial.cuda_graphs, facts.origin, trial.error, trial.kept_bytes)
    if not facts:
        raise ValueError("cuda_graphs draws runs: pass a list of them, one for each call.")
    calls = tuple(_timed(run) for run in facts)
    skips = tuple(skip for run in facts for skip in (run.cuda_graphs or CudaGraphs()).skipped)
    known = any(run.cuda_graphs is not None for run in facts)
    return _drawn(calls, CudaGraphs(skipped=skips) if known else None, facts[0].origin, "", None)


def _timed(run: Run) -> TimedCall:
    graphs = run.cuda_graphs or CudaGraphs()
    spent = sum(call.seconds for call in run.calls)
    return TimedCall(spent, len(run.graphs), graphs.warmed_up, graphs.recorded, graphs.replayed)


def _drawn(
    calls: tuple[TimedCall, ...], graphs: CudaGraphs | None, origin: Origin, error: str, kept: int | None
) -> Display:
    if graphs is None:
        reason = "There are no CUDA graphs without a GPU."
        return card("No CUDA graphs", f"<p>{escape(reason)}</p>", reason, origin.sentence())
    recorded, replayed = (sum(getattr(call, name) for call in calls) for name in ("recorded", "replayed"))
    title = f"{count(recorded, 'graph')} recorded, {count(replayed, 'replay')}" if recorded else "No CUDA graph"
    rows = [_row(calls, first, found) for first, found in _stretches(calls)]
    body = table(["call", "did", "time (log scale)", "", "held for graphs"], rows, numbers=(3, 4))
    notes = [f"Skipped: {said}" for said in map(_skip, graphs.skipped)]
    notes += [f"Raised {error}"] if error else []
    notes += [f"The allocator keeps {_mib(kept)} more than before the first call."] if kept is not None else []
    body += "".join(
        f'<p><span class="bad">skipped</span> {escape(one.reason)} {place(one.source, {})}</p>'
        for one in graphs.skipped
    )
    body += "".join(f"<p>{escape(note)}</p>" for note in notes[len(graphs.skipped) :])
    lines = [f"{i}. {_did(call)} in {seconds(call.seconds)}{_held(call)}" for i, call in enumerate(calls, 1)]
    return card(title, body, "\n".join([*lines, *notes]), origin.sentence())


def _skip(skip: GraphSkip) -> str:
    return skip.reason + (f" (line {skip.source.line}, {skip.source.code.strip()})" if skip.source else "")


def _stretches(calls: tuple[TimedCall, ...]) -> list[tuple[int, list[TimedCall]]]:
    """(number of the first call, calls): long stretches of calls that did the same stay together."""
    found, number = [], 1
    for _, group in groupby(calls, key=_did):
        same = list(group)
        parts = [same] if len(same) > _FOLDED else [[call] for call in same]
        for part in parts:
            found.append((number, part))
            number += len(part)
    return found


def _did(call: TimedCall) -> str:
    said = [word for name, _, _, word in _WORDS if getattr(call, name)]
    return ", ".join(said) or "ran without a graph"


def _row(calls: tuple[TimedCall, ...], first: int, found: list[TimedCall]) -> list[str]:
    call = found[0]
    tags = [
        f'<span class="tag" {color(ink)}>{sign} {word}{_times(getattr(call, name))}</span>'
        for name, sign, ink, word in _WORDS
        if getattr(call, name)
    ] or ['<span class="mute">ran without a graph</span>']
    spent = sum(one.seconds for one in found) / len(found)
    share = _share(spent, [one.seconds for one in calls])
    bar = f'<div class="bar" {color(2 if call.replayed else 0)}><i style="width:{share:.0f}%"></i></div>'
    number = str(first) if len(found) == 1 else f"{first} to {first + len(found) - 1}"
    held = _mib(found[-1].pool_bytes)
    return [number, " ".join(tags), bar, ("Ø " if len(found) > 1 else "") + seconds(spent), held]


def _times(number: int) -> str:
    return f" ×{number}" if number > 1 else ""


def _held(call: TimedCall) -> str:
    return "" if call.pool_bytes is None else f", {_mib(call.pool_bytes)} held for graphs"


def _mib(value: int | None) -> str:
    """In the units of the allocator, which takes 2 MiB at least."""
    return "" if value is None else f"{value / 2**20:.0f} MiB"


def _share(spent: float, everything: list[float]) -> float:
    """Length of a bar in percent, on a logarithmic scale from the fastest call to the slowest."""
    low, high, here = (math.log10(max(value, 1e-7)) for value in (min(everything), max(everything), spent))
    return 100.0 if high <= low else 6 + 94 * (here - low) / (high - low)
