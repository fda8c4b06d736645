"""One compile while its records come in."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from typing import Any

from compilescope.facts import Code, Graph, GraphBreak, Refusal, Symbol
from compilescope.reading.origins import Origins

_AOT_NUMBER = re.compile(r"AOT ID: \['(\d+)_")


@dataclass
class Opened:
    """What the records of one compile id have told so far."""

    compile_id: str
    function: str = ""
    shown: str = ""
    """The function's name for a reader, with its class: ``Model.forward``; empty if nobody told it."""
    backend: str = ""
    file: str = ""
    line: int = 0
    attempts: int = 1
    metrics: dict[str, Any] = field(default_factory=dict)
    graphs: dict[str, Graph] = field(default_factory=dict)
    """Stage to graph: the Dynamo graph, and the part that the backend compiles now."""
    earlier_parts: list[Graph] = field(default_factory=list)
    backwards: list[Graph] = field(default_factory=list)
    """Post-grad graphs of backwards whose code is there."""
    code: list[Code] = field(default_factory=list)
    part_of: dict[str, int] = field(default_factory=dict)
    """Number that AOTAutograd gave a graph and its backward to the part that they are."""
    guards_text: str = ""
    refusals: tuple[Refusal, ...] = ()
    symbols: dict[str, Symbol] = field(default_factory=dict)
    breaks: list[GraphBreak] = field(default_factory=list)
    caches: dict[str, str] = field(default_factory=dict)
    provenance: dict[str, tuple[str, ...]] = field(default_factory=dict)
    not_fused: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    """Number of the generated module, and what Inductor's scheduler said of two nodes."""
    bytecode_before: str = ""
    bytecode_after: str = ""
    origins: Origins = field(default_factory=Origins)
    gave_up: bool = False
    """Dynamo said that it skips the whole function."""
    done: bool = False

    def begin_graph(self, stage: str) -> None:
        """Make room for a graph: Dynamo's starts all over, a second one of AOTAutograd's starts the next part."""
        if stage == "dynamo":
            self.graphs.clear()
            self.earlier_parts.clear()
            self.backwards.clear()
            self.part_of.clear()
        elif stage in ("joint", "inference") and self.graphs.keys() & {"joint", "inference"}:
            done = [graph for graph in self.graphs.values() if graph.stage != "dynamo"]
            self.earlier_parts += [dataclasses.replace(graph, part=self.part) for graph in done]
            for graph in done:
                del self.graphs[graph.stage]

    def add_code(self, code: Code) -> None:
        """Take generated code. A backward may be compiled long after its forward, and after the other parts."""
        number = _AOT_NUMBER.search(code.text)
        part = self.part_of.setdefault(number[1], self.part) if number else self.part
        if code.which == "backward" and (graph := self.graphs.pop("post_grad_backward", None)):
            self.backwards.append(dataclasses.replace(graph, part=part))
        self.code.append(dataclasses.replace(code, part=part))

    @property
    def part(self) -> int:
        """Number of the part that the backend compiles now."""
        return 1 + max((graph.part for graph in self.earlier_parts), default=-1)

    def all_graphs(self) -> tuple[Graph, ...]:
        """The Dynamo graph, then the stages of each part."""
        dynamo = [graph for graph in self.graphs.values() if graph.stage == "dynamo"]
        last = [dataclasses.replace(g, part=self.part) for g in self.graphs.values() if g.stage != "dynamo"]
        return (*dynamo, *sorted((*self.earlier_parts, *last, *self.backwards), key=lambda graph: graph.part))

    @property
    def name(self) -> str:
        """``Model.forward`` where known, else the name that Dynamo prints."""
        return self.shown or self.function

    @property
    def is_entry(self) -> bool:
        """True if the function's cache got an entry, or a graph was captured before the backend failed."""
        return bool(self.guards_text or self.graphs)
