"""Where boxes and edges go: the layered layout of graphlay, in whole pixels."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import graphlay

_SPACING = {
    "layer_gap": 22.0,
    "node_gap": 14.0,
    "dummy_gap": 8.0,
    "port_gap": 8.0,
    "stub": 6.0,
    "compound_padding": 6.0,
    "compound_header": 16.0,
}
_OPTIONS = {
    "direction": "topbottom",
    "routing": {"style": "diagonal"},
    "spacing": _SPACING,
    "coords": {"branch_bands": False},
    "compaction": {"mode": "priority"},
}
"""From top to bottom, and narrow: a pane is higher than it is wide."""

_SEEN = 1.5
"""Pixels that a bend must stand off its line to be drawn."""

Line = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Box:
    """A box to place. `group` joins boxes that shall stand together."""

    name: str
    width: float
    height: float
    group: str | None = None


@dataclass(frozen=True)
class Placed:
    """Centers of the boxes and bends of the edges, in pixels, from the top left corner."""

    width: int
    height: int
    centers: dict[str, tuple[int, int]]
    lines: tuple[Line, ...] = ()
    """Start, bends and end of each edge, in the order the edges were given."""
    groups: frozenset[str] = frozenset()
    """The groups that do stand together."""


def place(boxes: list[Box], edges: list[tuple[str, str]], margin: int = 22) -> Placed:
    """Lay `boxes` out from top to bottom; the same input always gives the same picture."""
    if not boxes:
        return Placed(0, 0, {})
    groups = separable(boxes, edges)
    found = graphlay.layout(_request(boxes, edges, groups), options=_OPTIONS)
    tops = found.nodes[: len(boxes)]
    points = [point for edge in found.edges for point in edge["points"]]
    left = min([n["center"]["x"] - n["size"]["width"] / 2 for n in tops] + [p["x"] for p in points]) - margin
    top = min([n["center"]["y"] - n["size"]["height"] / 2 for n in tops] + [p["y"] for p in points]) - margin
    right = max([n["center"]["x"] + n["size"]["width"] / 2 for n in tops] + [p["x"] for p in points]) + margin
    bottom = max([n["center"]["y"] + n["size"]["height"] / 2 for n in tops] + [p["y"] for p in points]) + margin
    centers = {
        box.name: (round(n["center"]["x"] - left), round(n["center"]["y"] - top))
        for box, n in zip(boxes, tops, strict=True)
    }
    lines = tuple(straightened([(p["x"] - left, p["y"] - top) for p in edge["points"]]) for edge in found.edges)
    return Placed(round(right - left), round(bottom - top), centers, lines, frozenset(groups))


def separable(boxes: list[Box], edges: list[tuple[str, str]]) -> list[str]:
    """The groups that can stand together, each in a place of its own.

    A group that needs a value made from its own values by another one cannot: color alone then shows it.
    """
    group_of = {box.name: box.group for box in boxes}
    groups = list(dict.fromkeys(box.group for box in boxes if box.group))
    while stuck := _in_a_circle(group_of, edges):
        alone = [name for name in stuck if _in_a_circle(_only(group_of, name), edges)]
        sizes = Counter(group for group in group_of.values() if group in stuck)
        given_up = alone or [min(stuck, key=lambda name: (sizes[name], name))]
        groups = [name for name in groups if name not in given_up]
        group_of = {name: None if group in given_up else group for name, group in group_of.items()}
    return groups


def _only(group_of: dict[str, str | None], kept: str) -> dict[str, str | None]:
    return {name: group if group == kept else None for name, group in group_of.items()}


def _in_a_circle(group_of: dict[str, str | None], edges: list[tuple[str, str]]) -> list[str]:
    """Groups on a circle, or between two, once each group is shrunk to a point."""
    point = {name: ("group", group) if group else ("box", name) for name, group in group_of.items()}
    arrows = {(point[a], point[b]) for a, b in edges if point[a] != point[b]}
    left = set(point.values())
    for flipped in (False, True):
        arrows = {(b, a) if flipped else (a, b) for a, b in arrows if a in left and b in left}
        left = _never_ready(left, arrows)
    return [name for kind, name in left if kind == "group"]


_Point = tuple[str, str]


def _never_ready(points: set[_Point], arrows: set[tuple[_Point, _Point]]) -> set[_Point]:
    """The points that stay when those without an arrow to them are taken away again and again."""
    after: dict[_Point, list[_Point]] = {}
    waiting = dict.fromkeys(points, 0)
    for a, b in arrows:
        after.setdefault(a, []).append(b)
        waiting[b] += 1
    ready = [p for p, count in waiting.items() if count == 0]
    while ready:
        done = ready.pop()
        del waiting[done]
        for b in after.get(done, ()):
            waiting[b] -= 1
            if waiting[b] == 0:
                ready.append(b)
    return set(waiting)


def _request(boxes: list[Box], edges: list[tuple[str, str]], groups: list[str]) -> graphlay.Graph:
    graph = graphlay.Graph()
    index = {name: len(boxes) + i for i, name in enumerate(groups)}
    for box in boxes:
        parent: dict[str, Any] = {"parent": index[box.group]} if box.group in index else {}
        graph.node(box.name, width=box.width, height=box.height, **parent)
    for name in groups:
        graph.node(("group", name), width=8, height=8)
    for source, target in edges:
        graph.edge(source, target)
    return graph


def straightened(points: Sequence[tuple[float, float]]) -> Line:
    """The line in whole pixels without bends that nobody sees."""
    kept = [points[0]]
    for point, after in itertools.pairwise(points[1:]):
        if _off(point, kept[-1], after) > _SEEN:
            kept.append(point)
    return tuple((round(x), round(y)) for x, y in [*kept, points[-1]])


def _off(point: tuple[float, float], start: tuple[float, float], end: tuple[float, float]) -> float:
    """Distance of `point` from the straight line between the other two."""
    (x, y), (ax, ay), (bx, by) = point, start, end
    length = ((bx - ax) ** 2 + (by - ay) ** 2) ** 0.5 or 1.0
    return abs((bx - ax) * (ay - y) - (ax - x) * (by - ay)) / length
