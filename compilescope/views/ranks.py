"""Ranks side by side: what each compiled, and in which order its graphs and collectives ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files

from compilescope.facts import GraphBreak
from compilescope.facts_ranks import Happening, Rank, Ranks
from compilescope.text import count, describe_refusal
from compilescope.views.card import card, color, escape, table
from compilescope.views.display import Display

_MOST = 24
"""Happenings of one pass that are drawn; more are counted."""


@dataclass(frozen=True)
class _Lane:
    """One strip of the picture, one column of the table."""

    name: str
    rank: Rank


def side_by_side(ranks: Ranks | Mapping[str, Ranks]) -> Display:
    """The last step of each rank as a strip of graphs and collectives, and its facts in a column.

    With a mapping, such as ``{"inside": ranks, "outside": other}``, each name is one strip if all its ranks did the
    same, else one strip a rank.
    """
    lanes = list(_lanes(ranks))
    groups = [ranks] if isinstance(ranks, Ranks) else list(ranks.values())
    if not lanes:
        return card("No ranks", "<p>There is no rank to show.</p>", "There is no rank to show.", "")
    css = (files(__package__) / "ranks.css").read_text(encoding="utf-8")
    body = f"<style>{css}</style>" + "".join(_strip(lane, i) for i, lane in enumerate(lanes))
    rows = [(name, [value(lane.rank) for lane in lanes]) for name, value in _FACTS]
    rows = [(name, values) for name, values in rows if any(value not in ("", "0") for value in values)]
    body += table(["", *(lane.name for lane in lanes)], [_row(name, values) for name, values in rows])
    notes = list(dict.fromkeys(note for group in groups for note in group.notes))
    body += "".join(f'<p class="mute">{escape(note)}</p>' for note in notes)
    lines = [line for lane in lanes for line in _strip_text(lane)]
    lines += [f"{name}: " + " | ".join(values) for name, values in rows]
    origin = f"{groups[0].backend}, {lanes[0].rank.run.origin.sentence()}"
    return card(_title(ranks), body, "\n".join([*lines, *notes]), origin)


def _lanes(ranks: Ranks | Mapping[str, Ranks]) -> Iterator[_Lane]:
    if isinstance(ranks, Ranks):
        yield from (_Lane(f"rank {one.rank}", one) for one in ranks)
        return
    if not isinstance(ranks, Mapping):
        raise TypeError(f"side_by_side wants what on_ranks gave, or a dict of it, but got {type(ranks).__name__}.")
    for name, group in ranks.items():
        if len({_signature(one) for one in group}) == 1:
            yield _Lane(name, group[0])
        else:
            yield from (_Lane(f"{name}, rank {one.rank}", one) for one in group)


def _signature(rank: Rank) -> tuple[object, ...]:
    """What must be the same on each rank of a healthy job."""
    compiled = tuple((one.function, one.parts, len(one.refusals)) for one in rank.run.compiles)
    return compiled, tuple((one.kind, one.name, one.part, one.inside) for one in rank.flow)


def _title(ranks: Ranks | Mapping[str, Ranks]) -> str:
    if not isinstance(ranks, Ranks):
        return f"{count(len(ranks), 'placement')} side by side"
    if len(ranks) < 2:
        return f"rank 0 of {ranks.world}"
    alike = len({_signature(one) for one in ranks}) == 1
    return f"{len(ranks)} ranks: " + ("all did the same" if alike else "they did different things")


def _strip(lane: _Lane, number: int) -> str:
    passes = ""
    for name, chips in _passes(lane.rank):
        drawn = "".join(_chip(one, held, lane.rank) for one, held in _holding(chips)[:_MOST])
        passes += f'<div class="pass"><span>{name}</span>{drawn}{_rest(chips)}</div>'
    empty = "" if passes else '<p class="mute">no compiled graph ran, and no collective</p>'
    return f'<section class="lane" {color(number)}><b>{escape(lane.name)}</b>{passes}{empty}</section>'


def _rest(chips: list[Happening | GraphBreak]) -> str:
    return f'<span class="mute">… and {len(chips) - _MOST} more</span>' if len(chips) > _MOST else ""


def _passes(rank: Rank) -> list[tuple[str, list[Happening | GraphBreak]]]:
    """The last step, cut where forward ends and backward begins, with the breaks between its graphs."""
    step = rank.last_step()
    first = next((i for i, one in enumerate(step) if one.kind == "backward"), len(step))
    while first and first < len(step) and step[first - 1].kind == "collective" and not step[first - 1].inside:
        first -= 1  # what is gathered just before a backward graph is for it
    found = [(name, list(chips)) for name, chips in (("forward", step[:first]), ("backward", step[first:])) if chips]
    return [(name, list(_with_breaks(rank, chips)) if name == "forward" else list(chips)) for name, chips in found]


def _with_breaks(rank: Rank, chips: list[Happening]) -> Iterator[Happening | GraphBreak]:
    breaks = [one for one in rank.run.breaks if not one.in_callee]
    names = {one.name for one in chips}
    first = [stop for stop in breaks if stop.before is None and stop.after not in names]
    yield from first
    breaks = [stop for stop in breaks if stop not in first]
    for one in chips:
        before = [stop for stop in breaks if one.kind != "collective" and stop.after == one.name]
        yield from before
        breaks = [stop for stop in breaks if stop not in before]
        yield one
    if any(one.kind != "collective" for one in chips):
        yield from breaks


def _holding(chips: list[Happening | GraphBreak]) -> list[tuple[Happening | GraphBreak, list[Happening]]]:
    """Each thing with the collectives that are inside it: those of a compiled graph."""
    found: list[tuple[Happening | GraphBreak, list[Happening]]] = []
    for one in chips:
        if isinstance(one, Happening) and one.inside and found:
            found[-1][1].append(one)
        else:
            found.append((one, []))
    return found


def _chip(one: Happening | GraphBreak, held: list[Happening], rank: Rank) -> str:
    if isinstance(one, GraphBreak):
        return f'<span class="stop" title="{escape(one.reason)}">break {escape(one.gb or "")}</span>'
    if one.kind == "collective":
        many = f" {_short(one.elements)}" if one.elements else ""
        return f'<span class="move">⇄ {escape(one.name)}{many}</span>'
    inside = "".join(" " + _chip(collective, [], rank) for collective in held)
    return f'<span class="piece" {color(_ink(one, rank))}>{escape(_piece(one, rank))}{inside}</span>'


def _ink(one: Happening, rank: Rank) -> int:
    """The same color for a piece in forward and in backward."""
    pieces = list(dict.fromkeys((h.name, h.part) for h in rank.last_step() if h.kind != "collective"))
    return pieces.index((one.name, one.part)) if (one.name, one.part) in pieces else 0


def _piece(one: Happening, rank: Rank) -> str:
    """``graph 0/0`` or ``graph 0/0, part 2 of 3``."""
    parts = next((compiled.parts for compiled in rank.run.compiles if compiled.compile_id == one.name), 1)
    return f"graph {one.name}" + (f", part {one.part + 1} of {parts}" if parts > 1 else "")


def _short(number: int) -> str:
    """``360k`` for 360,600."""
    return f"{number / 1e6:.1f}M" if number >= 1e6 else f"{number / 1e3:.0f}k" if number >= 10_000 else f"{number:,}"


def _strip_text(lane: _Lane) -> Iterator[str]:
    for name, chips in _passes(lane.rank):
        words = [f"break {c.gb or ''}".strip() if isinstance(c, GraphBreak) else _words(c, lane.rank) for c in chips]
        yield f"{lane.name}, {name}: {' → '.join(words[:_MOST])}" + (" → …" if len(words) > _MOST else "")


def _words(one: Happening, rank: Rank) -> str:
    return one.words() if one.kind == "collective" else _piece(one, rank)


def _row(name: str, values: list[str]) -> list[str]:
    differ = ' <span class="bad">≠</span>' if len(set(values)) > 1 else ""
    return [escape(name) + differ, *(escape(value) for value in values)]


def _operations(rank: Rank) -> str:
    """Operations of each piece, as the backend got them."""
    sizes = [
        len(graph.calls())
        for compiled in rank.run.compiles
        for graph in compiled.graphs
        if graph.stage in ("forward", "inference")
    ]
    return " + ".join(map(str, sizes))


def _breaks(rank: Rank) -> str:
    stops = [one for one in rank.run.breaks if not one.in_callee]
    return f"{len(stops)}: {', '.join(one.gb or one.reason for one in stops)}" if stops else "0"


def _recompiles(rank: Rank) -> str:
    again = rank.run.recompiles
    return f"{len(again)}: {describe_refusal(again[0].refusals[0])}" if again else "0"


def _plain(rank: Rank) -> str:
    return ", ".join(dict.fromkeys(one.function for one in rank.run.not_compiled))


def _between(rank: Rank) -> str:
    return str(sum(one.kind == "collective" and not one.inside for one in rank.last_step()))


_FACTS: tuple[tuple[str, Callable[[Rank], str]], ...] = (
    ("graphs of Dynamo", lambda rank: str(len(rank.run.graphs))),
    ("graphs for the backend", lambda rank: str(rank.pieces)),
    ("forward operations in each", _operations),
    ("graph breaks", _breaks),
    ("recompiles", _recompiles),
    ("ran as plain Python", _plain),
    ("collectives in a graph", lambda rank: str(len(rank.collectives_in_graphs()))),
    ("collectives between graphs, last step", _between),
)
