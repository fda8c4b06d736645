"""Graphs of many hundred boxes: cut at their waists, laid out piece by piece, stacked.

The layered layout's time grows much faster than the graph (300 boxes 0.1 s, 2000 boxes 4 s). A compiled graph is long
and thin, and between two layers of a model only a value or two passes: there it is cut.
"""

from __future__ import annotations

import itertools
from functools import lru_cache

from compilescope.explorer.layout import Box, Line, Placed, place, straightened

LARGE = 320
"""Up to this many boxes the graph is laid out as a whole."""
_FEWEST, _MOST = 50, 160
_GAP = 8
_GROUP_COST = 60
"""A kernel is cut in two only where every other place would cut more than this many edges."""


def place_large(boxes: list[Box], edges: list[tuple[str, str]]) -> Placed:
    """As `layout.place`, for any number of boxes; edges that run past several pieces go along the right side."""
    return _place_large(tuple(boxes), tuple(edges))


@lru_cache(maxsize=64)  # the targets of one run share most of their graphs
def _place_large(given: tuple[Box, ...], passed: tuple[tuple[str, str], ...]) -> Placed:
    boxes, edges = list(given), list(passed)
    if len(boxes) <= LARGE:
        return place(boxes, edges)
    order = _order(boxes, edges)
    cuts = _cuts(order, edges)
    piece_of = {box.name: i for i, (a, b) in enumerate(itertools.pairwise(cuts)) for box in order[a:b]}
    inner = [[e for e in edges if piece_of[e[0]] == piece_of[e[1]] == i] for i in range(len(cuts) - 1)]
    placed = [place(order[a:b], inner[i]) for i, (a, b) in enumerate(itertools.pairwise(cuts))]
    offsets = _stack(placed, [e for e in edges if piece_of[e[0]] != piece_of[e[1]]], piece_of)
    return _joined({box.name: box for box in boxes}, edges, placed, inner, offsets, piece_of)


def _order(boxes: list[Box], edges: list[tuple[str, str]]) -> list[Box]:
    """The boxes in the order given, inputs moved to where they are first read."""
    index = {box.name: i for i, box in enumerate(boxes)}
    first_reader: dict[str, int] = {}
    targets = {b for _, b in edges}
    for a, b in edges:
        first_reader[a] = min(first_reader.get(a, len(boxes)), index[b])
    key = {b.name: index[b.name] if b.name in targets else first_reader.get(b.name, 0) - 0.5 for b in boxes}
    return sorted(boxes, key=lambda box: key[box.name])


def _cuts(order: list[Box], edges: list[tuple[str, str]]) -> list[int]:
    """Positions in `order` where a piece ends and the next begins, with 0 and the end."""
    position = {box.name: i for i, box in enumerate(order)}
    change = [0] * (len(order) + 1)
    for a, b in edges:
        change[position[a] + 1] += 1
        change[position[b] + 1] -= 1
    spans: dict[str, tuple[int, int]] = {}
    for i, box in enumerate(order):
        if box.group:
            spans[box.group] = (spans.get(box.group, (i, i))[0], i)
    for first, last in spans.values():
        change[first + 1] += _GROUP_COST
        change[last + 1] -= _GROUP_COST
    crossing, total = [], 0
    for step in change:
        total += step
        crossing.append(total)
    cuts = [0]
    while len(order) - cuts[-1] > _MOST + _FEWEST:
        window = range(cuts[-1] + _FEWEST, cuts[-1] + _MOST + 1)
        cuts.append(min(window, key=lambda i: (crossing[i], -i)))
    return [*cuts, len(order)]


def _stack(placed: list[Placed], crossing: list[tuple[str, str]], piece_of: dict[str, int]) -> list[tuple[int, int]]:
    """Where each piece goes: below the one before, with the value that passes on a straight line."""
    passes = {piece_of[b]: (a, b) for a, b in reversed(crossing) if piece_of[b] == piece_of[a] + 1}
    offsets, x, y = [(0, 0)], 0, placed[0].height + _GAP
    for i, piece in enumerate(placed[1:], 1):
        if i in passes:
            a, b = passes[i]
            x = offsets[i - 1][0] + placed[i - 1].centers[a][0] - piece.centers[b][0]
        offsets.append((x, y))
        y += piece.height + _GAP
    left = min(x for x, _ in offsets)
    return [(x - left, y) for x, y in offsets]


def _joined(
    box_of: dict[str, Box],
    edges: list[tuple[str, str]],
    placed: list[Placed],
    inner: list[list[tuple[str, str]]],
    offsets: list[tuple[int, int]],
    piece_of: dict[str, int],
) -> Placed:
    centers = {
        name: (x + dx, y + dy)
        for piece, (dx, dy) in zip(placed, offsets, strict=True)
        for name, (x, y) in piece.centers.items()
    }
    right = max(dx + piece.width for piece, (dx, _) in zip(placed, offsets, strict=True))
    height = max(dy + piece.height for piece, (_, dy) in zip(placed, offsets, strict=True))
    drawn: dict[tuple[str, str], Line] = {}
    for piece, own, (dx, dy) in zip(placed, inner, offsets, strict=True):
        for edge, line in zip(own, piece.lines, strict=True):
            drawn[edge] = tuple((x + dx, y + dy) for x, y in line)
    lanes = 0
    for edge in edges:
        if edge in drawn:
            continue
        (ax, ay), (bx, by) = centers[edge[0]], centers[edge[1]]
        half = box_of[edge[0]].height / 2
        if piece_of[edge[1]] == piece_of[edge[0]] + 1 and by - ay < 160:
            drawn[edge] = straightened([(ax, ay + half), (bx, by - half)])
        else:
            lane = right + 6 + 5 * (lanes % 8)
            lanes += 1
            start, end = ax + box_of[edge[0]].width / 2, bx + box_of[edge[1]].width / 2
            drawn[edge] = straightened([(start, ay), (lane, ay + 12), (lane, by - 12), (end, by)])
    lines = tuple(drawn[edge] for edge in edges)
    groups = frozenset().union(*(piece.groups for piece in placed))
    return Placed(right + (52 if lanes else 0), height, centers, lines, groups)
