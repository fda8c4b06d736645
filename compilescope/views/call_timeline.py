"""The calls of a run in order: which compiled, which came from the cache, and which guard refused the others."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby

from compilescope.facts import Call, Refusal, Run
from compilescope.text import count, describe_call, describe_not_compiled, describe_refusal, seconds
from compilescope.views.card import card, color, escape, place, table
from compilescope.views.display import Display

OUTCOMES = {
    "hit": ("●", 2, "answered by code compiled before"),
    "first compile": ("◆", 0, "nothing in the cache yet"),
    "recompile": ("↻", 1, "a guard refused: compiled once more"),
    "gave up": ("■", 4, "the limit is reached: plain Python from here on"),
    "never compiled": ("○", 7, "ran as plain Python"),
    "error": ("!", 4, "the call raised"),
}
"""Outcome to sign, color and meaning."""
_FOLDED_HITS = 4


def timeline(run: Run) -> Display:
    """What became of each call; open a row for the guards that refused, with the value then and now."""
    rows = [_row(run, first, calls) for first, calls in _stretches(run.calls)]
    body = table(["call", "outcome", "time (log scale)", "", "why"], rows, numbers=(3,)) if rows else ""
    if not rows:
        body = "<p>No call of a compiled function was observed.</p>"
    missed = [describe_not_compiled(one) for one in run.not_compiled]
    body += "".join(f"<p>{escape(line)}</p>" for line in missed)
    lines = [f"{i}. {describe_call(call)}" for i, call in enumerate(run.calls, 1)] or ["No call was observed."]
    return card(_title(run), body, "\n".join([*lines, *missed]), run.origin.sentence())


def _title(run: Run) -> str:
    many = {"hit": "hits", "first compile": "first compiles", "recompile": "recompiles", "error": "errors"}
    counts = [(name, sum(call.outcome == name for call in run.calls)) for name in OUTCOMES]
    parts = [f"{n} {many.get(name, name) if n > 1 else name}" for name, n in counts if n]
    return f"{count(len(run.calls), 'call')}: {', '.join(parts)}" if parts else "No calls"


def _stretches(calls: tuple[Call, ...]) -> Iterator[tuple[int, list[Call]]]:
    """(number of the first call, calls): long stretches of hits stay together, every other call stands alone."""
    number = 1
    for outcome, group in groupby(calls, key=lambda call: (call.outcome, call.function)):
        found = list(group)
        if outcome[0] == "hit" and len(found) > _FOLDED_HITS:
            yield number, found
        else:
            yield from ((number + i, [call]) for i, call in enumerate(found))
        number += len(found)


def _row(run: Run, first: int, calls: list[Call]) -> list[str]:
    call = calls[0]
    sign, ink, meaning = OUTCOMES[call.outcome]
    number = str(first) if len(calls) == 1 else f"{first} to {first + len(calls) - 1}"
    spent = sum(one.seconds for one in calls) / len(calls)
    share = _share(spent, [one.seconds for one in run.calls])
    name = f"{number}. <code>{escape(call.function)}</code> {place(call.source, run.sources)}"
    tag = f'<span class="tag" {color(ink)}>{sign} {escape(call.outcome)}</span>'
    if len(calls) > 1:
        tag += f" ×{len(calls)}"
    bar = f'<div class="bar" {color(ink)}><i style="width:{share:.0f}%"></i></div>'
    return [name, tag, bar, ("Ø " if len(calls) > 1 else "") + seconds(spent), _why(call, meaning, run.sources)]


def _share(spent: float, everything: list[float]) -> float:
    """Length of a bar in percent, on a logarithmic scale from the fastest call to the slowest."""
    low, high, here = (math.log10(max(value, 1e-7)) for value in (min(everything), max(everything), spent))
    return 100.0 if high <= low else 6 + 94 * (here - low) / (high - low)


def _why(call: Call, meaning: str, sources: dict[str, str]) -> str:
    if not call.refusals or call.outcome == "hit":
        compiled = f" → {', '.join(call.compile_ids)}" if call.compile_ids else ""
        return f'<span class="mute">{escape(meaning)}{escape(compiled)}</span>'
    rows = [_refusal(refusal, sources) for refusal in call.refusals]
    inner = table(["entry", "guard", "compiled for", "this call", "from"], rows)
    return f"<details><summary>{escape(describe_refusal(call.refusals[0]))}</summary>{inner}</details>"


def _refusal(refusal: Refusal, sources: dict[str, str]) -> list[str]:
    cells = (refusal.expression, refusal.expected or "", refusal.actual or "")
    coded = [f"<code>{escape(cell)}</code>" if cell else "" for cell in cells]
    return [escape(refusal.compile_id), *coded, place(refusal.source, sources)]
