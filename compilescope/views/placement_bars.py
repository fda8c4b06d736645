"""Placements of compile under DDP and FSDP2, as bars: the first step, and every later one."""

from __future__ import annotations

from compilescope.facts_ranks import Placement, PlacementTable
from compilescope.text import count
from compilescope.views.card import card, color, escape, table
from compilescope.views.display import Display


def placement_bars(measured: PlacementTable) -> Display:
    """One row a placement: graphs, breaks, seconds of the first step, milliseconds of a step beside the plain one."""
    longest = max(one.step_ms for one in measured.rows)
    rows = [_row(measured, one, longest) for one in measured.rows]
    heads = ["placement", "graphs", "breaks", "first step", "", "each step", "beside not compiled"]
    body = table(heads, rows, numbers=(1, 2, 3, 5))
    lines = [_line(measured, one) for one in measured.rows]
    return card(f"{count(len(rows), 'placement')} measured", body, "\n".join(lines), measured.sentence())


def _plain(measured: PlacementTable, one: Placement) -> Placement:
    return measured.row(f"{one.placement.split(',')[0]}, not compiled")


def _beside(measured: PlacementTable, one: Placement) -> tuple[str, str]:
    """(style class, words): how a step compares with the one that is not compiled; within 2 % it is the same."""
    plain = _plain(measured, one)
    if one is plain:
        return "mute", ""
    share = one.step_ms / plain.step_ms - 1
    if abs(share) < 0.02:
        return "mute", "the same"
    return ("bad", f"▲ {share:.0%} slower") if share > 0 else ("good", f"▼ {-share:.0%} faster")


def _row(measured: PlacementTable, one: Placement, longest: float) -> list[str]:
    kind, said = _beside(measured, one)
    ink = 7 if one is _plain(measured, one) else 1 if kind == "bad" else 2
    bar = f'<div class="bar" {color(ink)}><i style="width:{100 * one.step_ms / longest:.0f}%"></i></div>'
    first = "" if one.first_s is None else f"{one.first_s:.1f} s"
    counts = ["" if number is None else str(number) for number in (one.pieces, one.breaks)]
    cells = [one.placement, *counts, first]
    return [*map(escape, cells), bar, f"{one.step_ms:.1f} ms", f'<span class="{kind}">{escape(said)}</span>']


def _line(measured: PlacementTable, one: Placement) -> str:
    facts = [
        count(number, noun) for number, noun in ((one.pieces, "graph"), (one.breaks, "break")) if number is not None
    ]
    facts += [] if one.first_s is None else [f"first step {one.first_s:.1f} s"]
    facts += [f"{one.step_ms:.1f} ms a step", _beside(measured, one)[1]]
    return f"{one.placement}: " + ", ".join(fact for fact in facts if fact)
