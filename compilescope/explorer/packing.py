"""The explorer's data on its way into the page: the same numbers in an order that compresses better."""

from __future__ import annotations

from typing import Any

from compilescope.explorer.picture import HEIGHT

_Y = 4
"""Where a node has the height of its center."""


def packed(content: dict[str, Any]) -> dict[str, Any]:
    """`content` with the columns of its pictures instead of their rows, and lines without the ends that nodes tell.

    A line that leaves and reaches its boxes elsewhere than in the middle of an edge is kept whole, behind a 0: it has
    an odd length, the others an even one. ``unpack`` in markup.js is the inverse.
    """
    return {**content, "pics": [_columns(one) if "e" in one else one for one in content["pics"]]}


def _columns(picture: dict[str, Any]) -> dict[str, Any]:
    nodes = picture["n"]
    edges = [[a, b, _line(line, nodes[a][_Y], nodes[b][_Y])] for a, b, line in picture["e"]]
    return {**picture, "n": list(zip(*nodes, strict=True)), "e": list(zip(*edges, strict=True))}


def _line(line: list[int], above: int, below: int) -> list[int]:
    x, top, *bends, bottom = line
    return [x, *bends] if (top, bottom) == (above + HEIGHT // 2, below - HEIGHT // 2) else [0, *line]
