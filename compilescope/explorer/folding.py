"""Equal blocks that follow each other, as in 24 layers of one kind: found by what they compute, shown once."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from compilescope.facts import Graph, Node

SMALLEST_GRAPH = 60
"""Graphs with fewer computing nodes are shown whole."""
SMALLEST_BLOCK = 3
FEWEST_BLOCKS = 3
_FAR = 16
"""Inputs from further back than this many nodes count as "from outside" when blocks are looked for."""


@dataclass(frozen=True)
class Fold:
    """`count` equal blocks of which the first is shown; `hidden` maps each node of the others to its twin there."""

    title: str
    count: int
    shown: tuple[str, ...]
    hidden: dict[str, str]


def folds(graph: Graph) -> list[Fold]:
    """The repeated blocks of `graph`, in order; empty for small graphs and where nothing repeats."""
    calls = graph.calls()
    if len(calls) < SMALLEST_GRAPH:
        return []
    index = {node.name: i for i, node in enumerate(calls)}
    found: list[Fold] = []
    _search(calls, index, 0, len(calls), found)
    return sorted(found, key=lambda fold: index[fold.shown[0]])


def _search(calls: Sequence[Node], index: dict[str, int], first: int, last: int, found: list[Fold]) -> None:
    best = _best(calls, index, first, last)
    if best is None:
        return
    start, period, count = best
    shown = tuple(node.name for node in calls[start : start + period])
    end = start + period * count
    hidden = {calls[i].name: shown[(i - start) % period] for i in range(start + period, end)}
    found.append(Fold(_title(calls, start, period, count), count, shown, hidden))
    _search(calls, index, first, start, found)
    _search(calls, index, end, last, found)


def _best(calls: Sequence[Node], index: dict[str, int], first: int, last: int) -> tuple[int, int, int] | None:
    """(start, nodes in a block, number of blocks) of the repetition that saves the most nodes."""
    marks = [_mark(calls[i], i, index) for i in range(first, last)]
    places: dict[Hashable, list[int]] = defaultdict(list)
    for i, mark in enumerate(marks):
        places[mark].append(i)
    steps = Counter(b - a for spots in places.values() for a, b in pairwise(spots))
    best: tuple[int, int, int] | None = None
    saved = 0
    for period, _ in steps.most_common(12):
        if period < SMALLEST_BLOCK:
            continue
        start, length = _longest_run([a == b for a, b in zip(marks, marks[period:], strict=False)])
        start, count = _aligned(calls, index, first + start, first + start + length + period, period, first)
        if count >= FEWEST_BLOCKS and (count - 1) * period > saved:
            best, saved = (start, period, count), (count - 1) * period
    return best


def _aligned(
    calls: Sequence[Node], index: dict[str, int], start: int, end: int, period: int, first: int
) -> tuple[int, int]:
    """Start and number of the blocks once they begin where a module begins and the block before is tried as well."""
    for shift in range(period):
        here = start + shift
        if here and calls[here].module and _block_of(calls[here].module) != _block_of(calls[here - 1].module):
            start = here
            break
    count = (end - start) // period
    shape = _block(calls, index, start, period)
    count = next((n for n in range(1, count) if _block(calls, index, start + n * period, period) != shape), count)
    if start - period >= first and _block(calls, index, start - period, period) == shape:
        return start - period, count + 1
    return start, count


def _mark(node: Node, place: int, index: dict[str, int]) -> Hashable:
    """What the node computes and from where, so that equal nodes of equal blocks have equal marks."""
    back = tuple(min(place - index[name], _FAR) if name in index else 0 for name in node.inputs)
    return node.target, node.dtype, node.shape, back


def _block(calls: Sequence[Node], index: dict[str, int], start: int, period: int) -> list[Hashable]:
    """The block's nodes; an input from outside the block counts only as such."""
    return [
        (n.target, n.dtype, n.shape, tuple(i - index[x] if index.get(x, -1) >= start else -1 for x in n.inputs))
        for i, n in enumerate(calls[start : start + period], start)
    ]


def _longest_run(flags: Sequence[bool]) -> tuple[int, int]:
    best = here = start = 0
    for i, flag in enumerate(flags):
        here = here + 1 if flag else 0
        if here > best:
            best, start = here, i - here + 1
    return start, best


def _block_of(module: str) -> str:
    """``layers.3`` for ``layers.3.mlp``: the module up to its first number."""
    match = re.match(r"^(?:.*?\.)??\d+(?=\.|$)|^.*?\.\d+(?=\.|$)", module)
    return match.group(0) if match else module


def _title(calls: Sequence[Node], start: int, period: int, count: int) -> str:
    first = _block_of(calls[start].module)
    last = _block_of(calls[start + period * (count - 1)].module)
    if first and last and first != last:
        return f"×{count} · {first} … {last.rpartition('.')[2]}"
    return f"×{count} · equal blocks"
