"""Graph nodes joined with what the live graph knows of them: the learner's line, the module, the Dynamo nodes."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import Any

from compilescope.facts import Graph, Source
from compilescope.reading.stacks import learners_line, read_stack

NodeFacts = dict[str, dict[str, Any]]
_SELF = re.compile(r"^L\['\w+'\]\.?")
_ITEM = re.compile(r"\._modules\['([^']+)'\]|\['([^']+)'\]|\[(\d+)\]")


class Origins:
    """Joins the graphs of one compile; keeps what later stages need from earlier ones."""

    def __init__(self) -> None:
        self.dynamo_names: set[str] = set()
        self.of_sequence: dict[int, tuple[str, ...]] = {}
        self.read: dict[str, Source | None] = {}

    def join(self, graph: Graph, candidates: Iterable[NodeFacts]) -> Graph:
        """`graph` with source, module and origins in its nodes, where one of the `candidates` is this graph."""
        facts = _best(graph, candidates)
        if graph.stage == "dynamo":
            self.dynamo_names = {node.name for node in graph.nodes if node.op == "call"}
        if not facts:
            return graph
        if graph.stage != "dynamo":
            self._learn_sequences(facts)
        nodes = []
        for node in graph.nodes:
            known = facts.get(node.name)
            if known is None or node.op in ("placeholder", "output"):
                nodes.append(node)
                continue
            nodes.append(
                dataclasses.replace(
                    node,
                    source=self._line(known["stack"]) or node.source,
                    module=module_path(known["module"]),
                    origins=() if graph.stage == "dynamo" else self._origins(known),
                )
            )
        return dataclasses.replace(graph, nodes=tuple(nodes))

    def _learn_sequences(self, facts: NodeFacts) -> None:
        for known in facts.values():
            origins = self._named(known)
            if origins and known["sequence"] is not None and not known["is_backward"]:
                before = self.of_sequence.get(known["sequence"], ())
                self.of_sequence[known["sequence"]] = tuple(dict.fromkeys((*before, *origins)))

    def _named(self, known: dict[str, Any]) -> tuple[str, ...]:
        return tuple(name for name in known["origins"] if name in self.dynamo_names)

    def _origins(self, known: dict[str, Any]) -> tuple[str, ...]:
        return self._named(known) or self.of_sequence.get(known["sequence"], ())

    def _line(self, stack: str) -> Source | None:
        if stack not in self.read:
            self.read[stack] = learners_line(read_stack(stack))
        return self.read[stack]


def _best(graph: Graph, candidates: Iterable[NodeFacts]) -> NodeFacts | None:
    names = {node.name for node in graph.nodes if node.op == "call"}
    for facts in candidates:
        if names and len(names & facts.keys()) >= 0.9 * len(names):
            return facts
    return None


def module_path(text: str) -> str:
    """``layers.3.mlp`` from Dynamo's ``L['self'].layers.3.mlp`` or ``L['self']._modules['layers'][3].mlp``."""
    path = _SELF.sub("", text)
    return _ITEM.sub(lambda match: "." + next(part for part in match.groups() if part), path).strip(".")
