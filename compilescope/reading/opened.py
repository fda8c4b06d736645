"""One compile while its records come in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from compilescope.facts import Code, Graph, GraphBreak, Refusal, Symbol
from compilescope.reading.origins import Origins


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
    code: list[Code] = field(default_factory=list)
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

    @property
    def name(self) -> str:
        """``Model.forward`` where known, else the name that Dynamo prints."""
        return self.shown or self.function

    @property
    def is_entry(self) -> bool:
        """True if the function's cache got an entry, or a graph was captured before the backend failed."""
        return bool(self.guards_text or self.graphs)
