"""Graphs that call graphs, ``torch.cond``, ``while_loop``, ``scan``: their bodies drawn in place, each in its frame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from compilescope.facts import Graph, Node

_TITLES = {
    "cond": ("if true", "if false"),
    "while_loop": ("as long as", "each round"),
    "while_loop_stack_output": ("as long as", "each round"),
    "scan": ("each step",),
    "associative_scan": ("each pair",),
    "map_impl": ("each row",),
}
_PREFIX = "higher_order."


@dataclass(frozen=True)
class Opened:
    """A graph whose bodies stand where they were fetched; `rooms` has the frame of each of their nodes."""

    graph: Graph
    rooms: dict[str, str] = field(default_factory=dict)
    """Node to the name of its body: nodes of ``cond_true_0`` are called ``cond_true_0.mul``."""
    titles: dict[str, str] = field(default_factory=dict)
    """Name of a body to what stands on its frame: ``if true``."""
    below: tuple[tuple[str, str], ...] = ()
    """(predicate, node of a branch): to be drawn below it, although it gets no value from it."""


def opened(graph: Graph) -> Opened:
    """`graph` with the bodies of its calls, one level deep; itself where it has none.

    A body stands once, at the first call of it; its inputs are the values that this call hands on, where one belongs
    to each.
    """
    bodies = {body.name: body for body in graph.inner if body.calls()}
    fetches = [node for node in graph.nodes if node.op == "get_attr" and node.target in bodies]
    if not fetches:
        return Opened(graph)
    first = {node.target: node.name for node in reversed(fetches)}
    fetched = {name: bodies[target] for target, name in first.items()}
    uses = Counter(n.target for node in graph.nodes for n in fetches if n.name in node.inputs)
    found: dict[str, list[Node]] = {}
    titles: dict[str, str] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        mine = [name for name in node.inputs if name in fetched]
        for place, name in enumerate(mine):
            if name not in found:
                titles[name] = _title(node, place, fetched[name].name, uses[fetched[name].name])
                found[name] = _body(name, fetched[name], _handed_on(node, fetched))
                nodes += [inside for inside in found[name] if inside.op != "output"]
        if node.name not in fetched:
            nodes.append(_call(node, mine, found))
    rooms = {inside.name: name for name, body in found.items() for inside in body if inside.op != "output"}
    return Opened(replace(graph, nodes=tuple(nodes)), rooms, titles, tuple(_below(graph, fetched, found)))


def _below(graph: Graph, fetched: dict[str, Graph], found: dict[str, list[Node]]) -> Iterator[tuple[str, str]]:
    """Each predicate with the nodes that begin its branches: the eye decides first, then looks at the sides."""
    for node in graph.nodes:
        if node.target == _PREFIX + "cond" and node.inputs[:1] and node.inputs[0] not in fetched:
            for body in (found[name] for name in node.inputs if name in found):
                own = {inside.name for inside in body}
                yield from ((node.inputs[0], one.name) for one in body if one.op == "call" and not own & {*one.inputs})


def _handed_on(call: Node, fetched: dict[str, Graph]) -> tuple[str, ...]:
    """The values that a call gives to its bodies."""
    values = [name for name in call.inputs if name not in fetched]
    return tuple(values[1:] if call.target == _PREFIX + "cond" else values)


def _body(name: str, body: Graph, values: tuple[str, ...]) -> list[Node]:
    """Nodes of a body under names of its own, its inputs replaced by `values` if there is one for each."""
    inputs = [node.name for node in body.nodes if node.op == "placeholder"]
    given = dict(zip(inputs, values, strict=True)) if len(inputs) == len(values) else {}
    names = {node.name: given.get(node.name, f"{name}.{node.name}") for node in body.nodes}
    return [
        replace(node, name=names[node.name], inputs=tuple(dict.fromkeys(names[one] for one in node.inputs)))
        for node in body.nodes
        if node.name not in given
    ]


def _call(node: Node, mine: list[str], found: dict[str, list[Node]]) -> Node:
    """The call with what its bodies return as inputs; what it only hands on to them comes through them."""
    if not mine:
        return node
    results = [value for name in mine for value in found[name][-1].inputs]
    through = {value for name in mine for inside in found[name] for value in inside.inputs}
    kept = [name for name in node.inputs if name not in mine and (name not in through or name in results)]
    if node.target == _PREFIX + "cond" and node.inputs[0] not in mine:  # it decides, also where a branch reads it
        kept = list(dict.fromkeys([node.inputs[0], *kept]))
    return replace(node, inputs=tuple(dict.fromkeys([*kept, *results])))


def _title(call: Node, place: int, name: str, users: int) -> str:
    known = _TITLES.get(call.target.removeprefix(_PREFIX), ())
    title = known[place] if place < len(known) else name
    return f"{title}, in {users} calls" if users > 1 else title
