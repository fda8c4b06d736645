"""What several ranks did with one function, as frozen dataclasses: no torch, JSON in and out."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import cattrs

from compilescope.facts import Node, Run


@dataclass(frozen=True)
class Happening:
    """One thing that a rank did: ran a compiled graph, or a collective."""

    kind: Literal["forward", "backward", "inference", "collective"]
    name: str
    """Of a graph the compile id, ``0/0``; of a collective what a program calls it, ``all_reduce``."""
    part: int = 0
    """Which piece of the graph, where DDP cut it at its buckets."""
    inside: bool = False
    """A collective that a compiled graph holds; False if Python or the wrapper started it between graphs."""
    elements: int | None = None
    """How many numbers a collective moved; None where the backend does not say."""

    def words(self) -> str:
        """``forward 0/0, part 2`` or ``all_reduce of 270,920 numbers``."""
        if self.kind != "collective":
            return f"{self.kind} {self.name}" + (f", part {self.part}" if self.part else "")
        many = f" of {self.elements:,} numbers" if self.elements else ""
        return f"{self.name}{many}{' inside the graph' if self.inside else ''}"


@dataclass(frozen=True)
class Rank:
    """One rank: its compiles, what it ran in order, what it returned and printed."""

    rank: int
    run: Run
    flow: tuple[Happening, ...] = ()
    printed: str = ""
    seconds: float = 0.0
    result: Any = field(default=None, compare=False, repr=False)

    @property
    def pieces(self) -> int:
        """How many graphs the backend compiled: Dynamo's graphs, each cut where DDP's buckets are full."""
        return sum(one.parts for one in self.run.compiles)

    def last_step(self) -> tuple[Happening, ...]:
        """What happened since the forward pass last began again after a backward; the setup before it is left out.

        A collective that prepares a forward pass (an all-gather of weights) belongs to the step that it prepares.
        """
        begin, saw_backward = 0, False
        for index, one in enumerate(self.flow):
            if one.kind == "backward":
                saw_backward = True
            elif one.kind == "forward" and saw_backward:
                begin, saw_backward = index, False
        while begin and self.flow[begin - 1].name == "all_gather" and self.flow[begin - 1].kind == "collective":
            begin -= 1
        return self.flow[begin:]

    def collectives_in_graphs(self) -> tuple[Node, ...]:
        """The nodes of Dynamo's graphs that are collectives; what waits for one is not counted."""
        nodes = (node for _, node in self.run.walk_nodes("dynamo"))
        return tuple(node for node in nodes if "c10d_functional" in node.target and "wait" not in node.target)


@dataclass(frozen=True)
class Ranks:
    """All ranks of one call of ``on_ranks``, in order."""

    function: str
    world: int
    backend: str
    ranks: tuple[Rank, ...] = ()
    notes: tuple[str, ...] = ()

    def __getitem__(self, rank: int) -> Rank:
        """The facts of one rank."""
        return self.ranks[rank]

    def __iter__(self) -> Iterator[Rank]:
        return iter(self.ranks)

    def __len__(self) -> int:
        return len(self.ranks)

    @property
    def runs(self) -> tuple[Run, ...]:
        """Each rank's `Run`."""
        return tuple(one.run for one in self.ranks)

    @property
    def results(self) -> tuple[Any, ...]:
        """What the function returned on each rank."""
        return tuple(one.result for one in self.ranks)

    def to_json(self) -> str:
        """JSON text; `from_json` gives equal facts back, without results."""
        stored = {
            "function": self.function,
            "world": self.world,
            "backend": self.backend,
            "notes": list(self.notes),
            "ranks": [
                {
                    "rank": one.rank,
                    "run": json.loads(one.run.to_json()),
                    "flow": [dataclasses.asdict(happening) for happening in one.flow],
                    "printed": one.printed,
                    "seconds": one.seconds,
                }
                for one in self.ranks
            ],
        }
        return json.dumps(stored, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Ranks:
        """Facts from `to_json`'s text. Raises ValueError with a sentence if it is none."""
        try:
            stored = json.loads(text)
            ranks = tuple(
                Rank(
                    one["rank"],
                    Run.from_json(json.dumps(one["run"])),
                    cattrs.structure(one["flow"], tuple[Happening, ...]),
                    one["printed"],
                    one["seconds"],
                )
                for one in stored["ranks"]
            )
            return Ranks(stored["function"], stored["world"], stored["backend"], ranks, tuple(stored["notes"]))
        except (json.JSONDecodeError, cattrs.BaseValidationError, KeyError, TypeError) as error:
            raise ValueError("These are no recorded ranks: write them with Ranks.to_json().") from error


@dataclass(frozen=True)
class Placement:
    """One way to compile under DDP or FSDP2, measured: graphs and breaks of rank 0, and its times; None: not noted."""

    placement: str
    step_ms: float
    """Median of a forward and backward pass, milliseconds."""
    graphs: int | None = None
    pieces: int | None = None
    """Graphs that the backend compiled."""
    breaks: int | None = None
    first_s: float | None = None
    """Seconds of the first step."""
    quarter_ms: tuple[float, float] | None = None
    """The quartiles of the steps, milliseconds."""


@dataclass(frozen=True)
class PlacementTable:
    """A recording of placements side by side, and where it comes from."""

    device: str
    backend: str
    torch: str
    date: str
    rows: tuple[Placement, ...]

    def row(self, placement: str) -> Placement:
        """The row of that name; KeyError if there is none."""
        for one in self.rows:
            if one.placement == placement:
                return one
        raise KeyError(placement)

    def faster_than_plain(self) -> str:
        """Which has faster steps than plain DDP, compiled inside: ``inside``, ``one graph``, ``both``, ``neither``."""
        plain = self.row("DDP, not compiled").step_ms
        names = {"inside": "DDP, compiled inside", "one graph": "DDP, inside, optimize_ddp=False"}
        faster = [short for short, name in names.items() if self.row(name).step_ms < plain]
        return {0: "neither", 1: "".join(faster), 2: "both"}[len(faster)]

    def sentence(self) -> str:
        """Where it comes from, in one line."""
        when = f", {self.date}" if self.date else ""
        return f"recorded on {self.device}, {self.backend}, torch {self.torch}{when}"

    @staticmethod
    def from_json(text: str) -> PlacementTable:
        """The table from the text of a recording. Raises ValueError with a sentence if it is none."""
        try:
            return cattrs.structure(json.loads(text), PlacementTable)
        except (json.JSONDecodeError, cattrs.BaseValidationError, KeyError, TypeError) as error:
            raise ValueError("This is no recording of placements: benchmarks/placements.py writes one.") from error
