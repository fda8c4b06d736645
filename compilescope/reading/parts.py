"""A Dynamo graph that the backend cut into several: what a node of a part comes from."""

from __future__ import annotations

import dataclasses
import re

from compilescope.facts import Graph, Node

_NUMBER = re.compile(r"_\d+$")


def with_origins_of_the_whole(graphs: tuple[Graph, ...]) -> tuple[Graph, ...]:
    """The graphs of a compile; those of several parts with origins that name nodes of the Dynamo graph.

    Each part has names of its own, and a ``linear``: the node of the Dynamo graph is the one of the same line, the
    same module and the same operation. A node for which there are several has no origins.
    """
    dynamo = next((graph for graph in graphs if graph.stage == "dynamo"), None)
    if dynamo is None or not any(graph.part for graph in graphs):
        return graphs
    of_place: dict[object, list[Node]] = {}
    for node in dynamo.calls():
        of_place.setdefault((node.source, node.module), []).append(node)

    def renamed(node: Node) -> Node:
        found = of_place.get((node.source, node.module), []) if node.source else []
        kinds = {_NUMBER.sub("", origin) for origin in node.origins}
        if kinds:
            found = [one for one in found if kinds & {_NUMBER.sub("", one.name), one.target.rpartition(".")[2]}]
        return dataclasses.replace(node, origins=(found[0].name,) if len(found) == 1 else ())

    return tuple(
        graph
        if graph is dynamo
        else dataclasses.replace(graph, nodes=tuple(renamed(n) if n.op == "call" else n for n in graph.nodes))
        for graph in graphs
    )
