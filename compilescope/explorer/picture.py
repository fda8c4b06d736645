"""One graph as a picture: boxes, edges, outlines around fused nodes; still numbers, not yet SVG."""

from __future__ import annotations

from dataclasses import dataclass

from compilescope.explorer import labels
from compilescope.explorer.folding import Fold, folds
from compilescope.explorer.layout import Box, Line, Placed
from compilescope.explorer.links import Links, source_of
from compilescope.explorer.nested import opened
from compilescope.explorer.pieces import place_large
from compilescope.facts import Compile, Graph, Node, Source

HEIGHT = 36
_CHARACTER, _SMALL_CHARACTER = 7.3, 6.1
"""Width in pixels of a character of the label (12 px) and of the line below it (10 px), both monospace."""


@dataclass(frozen=True)
class Shape:
    """A node in its place: `x`, `y` is its center, in pixels."""

    node: Node
    label: str
    size: str
    x: int
    y: int
    width: int
    kernels: tuple[int, ...]
    saved: bool
    source: Source | None


@dataclass(frozen=True)
class Outline:
    """A box around the nodes of one kernel, a block that stands for equal ones, or a body of ``torch.cond``."""

    x: int
    y: int
    width: int
    height: int
    title: str
    kernel: int | None = None


@dataclass(frozen=True)
class Picture:
    """A placed graph; `edges` are (source, target, start, bends and end of its line)."""

    stage: str
    width: int
    height: int
    shapes: tuple[Shape, ...]
    edges: tuple[tuple[str, str, Line], ...]
    outlines: tuple[Outline, ...]
    folds: tuple[Fold, ...] = ()
    """Equal blocks of which only the first is drawn, in the order of the first outlines that have no kernel."""

    @property
    def hidden(self) -> dict[str, str]:
        """Nodes that are folded away, with the node that stands for them."""
        return {name: twin for fold in self.folds for name, twin in fold.hidden.items()}


def draw(graph: Graph, compiled: Compile, links: Links, *, fold: bool = True) -> Picture:
    """Place the nodes of `graph`; nodes of one kernel, or of one body, stand together; equal blocks are shown once."""
    inside = opened(graph)
    graph = inside.graph
    repeated = folds(graph) if fold else []
    hidden = {name: twin for f in repeated for name, twin in f.hidden.items()}
    saved = {s.name for s in compiled.saved} if graph.stage in ("forward", "post_grad") else set()
    nodes = _visible(graph, hidden)
    edges = _edges(nodes, hidden, saved)
    group_of = _groups(graph, nodes, links, repeated) | {name: f"body {room}" for name, room in inside.rooms.items()}
    boxes = [Box(n.name, _width(n), HEIGHT, group_of.get(n.name)) for n in nodes]
    placed = place_large(boxes, [*edges, *(pair for pair in inside.below if pair not in edges)])
    shapes = tuple(
        Shape(n, labels.label(n), labels.size_text(n), *placed.centers[n.name], _width(n),
              links.kernels_of(graph.stage, n.name), n.name in saved, source_of(n, compiled))
        for n in nodes
    )  # fmt: skip
    lines = tuple((a, b, line) for (a, b), line in zip(edges, placed.lines, strict=False))  # without those of `below`
    outlines = tuple(_outlines(shapes, group_of, placed, links, repeated, inside.titles))
    return Picture(graph.stage, placed.width, placed.height, shapes, lines, outlines, tuple(repeated))


def _visible(graph: Graph, hidden: dict[str, str]) -> list[Node]:
    if not hidden:
        return list(graph.nodes)
    used = {name for node in graph.nodes if node.name not in hidden for name in node.inputs}
    kept = [n for n in graph.nodes if n.name not in hidden]
    only_hidden = {name for node in graph.nodes if node.name in hidden for name in node.inputs} - used
    return [n for n in kept if n.op not in ("placeholder", "get_attr") or n.name not in only_hidden]


def _edges(nodes: list[Node], hidden: dict[str, str], saved: set[str]) -> list[tuple[str, str]]:
    names = {n.name for n in nodes}
    found: dict[tuple[str, str], None] = {}
    for node in nodes:
        inputs = node.inputs
        if node.op == "output" and saved:
            # The last outputs of a forward graph are what backward needs: a badge says so, lines would drown the rest.
            results = inputs[: max(1, len(inputs) - len(saved))]
            inputs = tuple(name for name in inputs if name in results or name not in saved)
        for name in inputs:
            source = hidden.get(name, name)
            if source in names and source != node.name:
                found[source, node.name] = None
    return list(found)


def _groups(graph: Graph, nodes: list[Node], links: Links, repeated: list[Fold]) -> dict[str, str]:
    group_of = {name: f"fold {i}" for i, fold in enumerate(repeated) for name in fold.shown}
    members: dict[int, list[str]] = {}
    for node in nodes:
        numbers = links.kernels_of(graph.stage, node.name)
        if len(numbers) == 1 and node.name not in group_of:
            members.setdefault(numbers[0], []).append(node.name)
    group_of |= {name: f"kernel {k}" for k, names in members.items() if len(names) > 1 for name in names}
    return group_of | _own_inputs(nodes, group_of)


def _own_inputs(nodes: list[Node], group_of: dict[str, str]) -> dict[str, str]:
    """Inputs that one group alone reads stand inside it: their lines would run around the whole picture."""
    readers: dict[str, set[str | None]] = {}
    for node in nodes:
        for name in node.inputs:
            readers.setdefault(name, set()).add(group_of.get(node.name))
    found = {}
    for node in nodes:
        if node.op in ("placeholder", "get_attr") and len(groups := readers.get(node.name, set())) == 1:
            (group,) = groups
            if group:
                found[node.name] = group
    return found


def _outlines(
    shapes: tuple[Shape, ...],
    group_of: dict[str, str],
    placed: Placed,
    links: Links,
    repeated: list[Fold],
    bodies: dict[str, str],
) -> list[Outline]:
    members: dict[str, list[Shape]] = {}
    for shape in shapes:
        if (group := group_of.get(shape.node.name)) in placed.groups:
            members.setdefault(str(group), []).append(shape)
    found = []
    for group, inside in members.items():
        kind, _, of = group.partition(" ")
        left, right = min(s.x - s.width // 2 for s in inside) - 10, max(s.x + s.width // 2 for s in inside) + 10
        top, bottom = min(s.y for s in inside) - HEIGHT // 2 - 22, max(s.y for s in inside) + HEIGHT // 2 + 9
        if kind == "kernel":
            title = labels.fused(links.kernels[int(of)][1])
            found.append(Outline(left, top, right - left, bottom - top, title, int(of)))
        else:
            title = bodies[of] if kind == "body" else repeated[int(of)].title
            found.append(Outline(left, top, right - left, bottom - top, title))
    return sorted(found, key=lambda outline: outline.title in bodies.values())  # frames of folds first, in their order


def _width(node: Node) -> int:
    """Even, so that halves are whole pixels; room for the kernel's number on the right."""
    text = max(len(labels.label(node)) * _CHARACTER, len(labels.size_text(node)) * _SMALL_CHARACTER)
    return 2 * round(max(56, text + 26) / 2)
