"""Everything one compile did, as frozen dataclasses: no torch, JSON in and out.

Every fact is measured by `compilescope.observe` (or read from a trace by `Run.from_trace`) and drawn by the views.
A fact that a torch version cannot give is `None`, and `Run.missing` says why.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import cattrs
from cattrs.gen import make_dict_unstructure_fn, override

from compilescope.facts_kernels import NO_GPU as NO_GPU
from compilescope.facts_kernels import Autotuning as Autotuning
from compilescope.facts_kernels import Choice as Choice
from compilescope.facts_kernels import Code as Code
from compilescope.facts_kernels import CudaGraphs as CudaGraphs
from compilescope.facts_kernels import GraphSkip as GraphSkip
from compilescope.facts_kernels import Kernel as Kernel
from compilescope.facts_kernels import NotFused as NotFused
from compilescope.facts_kernels import Size as Size
from compilescope.facts_kernels import Source as Source
from compilescope.facts_reading import read_what_fits, strange


@dataclass(frozen=True)
class Node:
    """One node of a graph.

    `shape` and `stride` in elements; `dtype` and `device` as PyTorch spells them (``float32``, ``cpu``).
    """

    name: str
    op: Literal["placeholder", "get_attr", "call", "output"]
    target: str
    """What is called: ``torch.relu``, ``aten.relu.default``; for a placeholder the argument (``L_x_``)."""
    inputs: tuple[str, ...] = ()
    dtype: str | None = None
    shape: tuple[Size, ...] | None = None
    stride: tuple[Size, ...] | None = None
    device: str | None = None
    source: Source | None = None
    line: int = 0
    """1-based line of this node in `Graph.text`."""
    note: str = ""
    """AOTAutograd's remark on an input or output, e.g. ``PlainAOTInput(idx=0)``."""
    module: str = ""
    """Path of the nn.Module it was called in, ``layers.3.mlp``; empty outside modules or where unknown."""
    origins: tuple[str, ...] = ()
    """Names of the Dynamo nodes it comes from; a backward node names those whose gradient it computes."""


STAGES = ("dynamo", "joint", "forward", "backward", "inference", "post_grad", "post_grad_backward")
"""Graph stages in the order they are made. ``post_grad`` belongs to forward or inference."""


@dataclass(frozen=True)
class Graph:
    """One captured graph at one stage. `text` is what ``GraphModule.print_readable`` gives."""

    stage: str
    compile_id: str
    nodes: tuple[Node, ...]
    text: str = ""
    part: int = 0
    """Which piece of the Dynamo graph it belongs to, where the backend cut that into several: DDP does, at buckets."""
    name: str = ""
    """Of a nested graph, what the node that fetches it calls it: ``cond_true_0``."""
    inner: tuple[Graph, ...] = ()
    """Bodies of ``torch.cond``, ``while_loop``, ``scan``…; their nodes' lines are those of the outermost `text`."""

    def calls(self) -> tuple[Node, ...]:
        """The nodes that compute something (no placeholders, no output)."""
        return tuple(node for node in self.nodes if node.op == "call")

    def node(self, name: str) -> Node:
        """The node called `name`; KeyError if there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)


@dataclass(frozen=True)
class GraphBreak:
    """Where Dynamo stopped one graph and went back to Python; `stack` has the outermost frame first."""

    compile_id: str
    """The frame whose analysis stopped."""
    gb: str | None
    """``GB0170``: the entry of PyTorch's graph-break registry; the part that moves least between versions."""
    reason: str
    explanation: str = ""
    hints: tuple[str, ...] = ()
    context: str = ""
    url: str | None = None
    source: Source | None = None
    stack: tuple[Source, ...] = ()
    before: str | None = None
    """Compile id of the graph that ends here; None when nothing was captured before the break."""
    after: str | None = None
    """Compile id of the graph that resumes after it; None when the rest ran as plain Python."""
    in_callee: bool = False
    """The cause lies in a function that this frame calls: that function's own frame reports it once more."""


@dataclass(frozen=True)
class Guard:
    """One assumption that is checked on each call."""

    kind: str
    """Dynamo's own name: ``TENSOR_MATCH``…"""
    expression: str
    subject: str
    """What it looks at, as Dynamo writes it: ``L['x']``, ``G['scale']``."""
    depth: int = 0
    source: Source | None = None


@dataclass(frozen=True)
class Refusal:
    """One guard of one cached entry that did not accept a call: why it recompiled, or would."""

    compile_id: str
    expression: str
    subject: str = ""
    expected: str | None = None
    actual: str | None = None
    """`expected`: what the entry was compiled for; `actual`: what this call brought."""
    source: Source | None = None
    hint: str = ""


@dataclass(frozen=True)
class Symbol:
    """A dynamic size: where it comes from, what is known of it, and where it stopped being dynamic."""

    name: str
    subject: str
    hint: int | None = None
    minimum: int | None = None
    maximum: int | None = None
    specialized_to: int | None = None
    specialized_by: Source | None = None


@dataclass(frozen=True)
class Saved:
    """A tensor kept from forward for backward; `size_bytes` is None for dynamic shapes."""

    name: str
    dtype: str
    shape: tuple[Size, ...]
    size_bytes: int | None = None
    is_input: bool = False
    part: int = 0


@dataclass(frozen=True)
class Phase:
    """One compiler phase (Dynamo, AOTAutograd, Inductor, C++ or Triton compile).

    `start` is in seconds since the run began, `seconds` its length, `depth` how many phases enclose it.
    """

    name: str
    compile_id: str | None
    start: float
    seconds: float
    depth: int = 0


@dataclass(frozen=True)
class Compile:
    """One frame that Dynamo compiled: one entry of a function's cache."""

    compile_id: str
    """``frame/entry``: ``0/1`` is the second entry for frame 0."""
    function: str = ""
    file: str = ""
    line: int = 0
    backend: str = ""
    graphs: tuple[Graph, ...] = ()
    code: tuple[Code, ...] = ()
    guards: tuple[Guard, ...] = ()
    guards_text: str = ""
    refusals: tuple[Refusal, ...] = ()
    """Why the entries that were there did not do: not empty means this compile is a recompile."""
    symbols: tuple[Symbol, ...] = ()
    saved: tuple[Saved, ...] = ()
    not_fused: tuple[NotFused, ...] = ()
    provenance: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Post-grad node to the Dynamo nodes it comes from; of several parts, nodes of one name together."""
    caches: dict[str, str] = field(default_factory=dict)
    """Cache to ``hit``, ``miss`` or ``bypass``: ``fx_graph``, ``aot_autograd``, and ``cpp`` for compiled libraries."""
    seconds: float | None = None
    is_resume: bool = False
    """Compiled after a graph break, to go on where Python had taken over."""
    bytecode_before: str = ""
    bytecode_after: str = ""
    error: str = ""

    @property
    def parts(self) -> int:
        """How many graphs the backend compiled for this entry: 1, or more where DDP cut it at its buckets."""
        return 1 + max((graph.part for graph in self.graphs), default=0) if self.graphs else 0

    def graph(self, stage: str, part: int | None = None) -> Graph | None:
        """The graph of that stage, or None; of several parts the first, if you name none."""
        return next((g for g in self.graphs if g.stage == stage and part in (None, g.part)), None)

    def of_part(self, part: int) -> Compile:
        """This compile with the graphs, code and saved tensors of one part, and the whole Dynamo graph."""
        graphs = tuple(graph for graph in self.graphs if graph.stage == "dynamo" or graph.part == part)
        own = {
            node.name: node.origins
            for graph in graphs if graph.stage.startswith("post_grad")
            for node in graph.nodes if node.origins
        }  # fmt: skip
        return replace(
            self,
            graphs=graphs,
            code=tuple(code for code in self.code if code.part == part),
            saved=tuple(one for one in self.saved if one.part == part),
            provenance=own if self.parts > 1 else self.provenance,
        )


CallOutcome = Literal["hit", "first compile", "recompile", "gave up", "never compiled", "error"]


@dataclass(frozen=True)
class Call:
    """One call of a compiled function. `seconds` is wall time, and holds the compile if there was one."""

    function: str
    outcome: CallOutcome
    seconds: float
    compile_ids: tuple[str, ...] = ()
    """What this call compiled; empty for a hit."""
    refusals: tuple[Refusal, ...] = ()
    source: Source | None = None


@dataclass(frozen=True)
class NotCompiled:
    """A function that ran as plain Python although it was asked to be compiled, and what to do about it."""

    function: str
    reason: str
    remedy: str
    source: Source | None = None
    kind: str = ""
    """``break in loop``, ``library frame``, ``disabled``, ``limit``, ``no tensor``, ``stance``…"""


@dataclass(frozen=True)
class Origin:
    """Where these facts come from: printed by each view."""

    kind: Literal["live", "pretended", "recorded", "trace"]
    device: str
    """``CPU``, ``NVIDIA H200``, ``NVIDIA H100 (pretended)``."""
    torch: str
    triton: str | None = None
    python: str = ""
    date: str = ""
    driver: str = ""
    rank: int | None = None

    def sentence(self) -> str:
        """One line for a reader, e.g. ``live on this CPU, torch 2.13.0``."""
        said = {
            "live": f"live on this {self.device}, torch {self.torch}",
            "pretended": f"live Triton for a pretended {self.device} (compiled here, not timed), torch {self.torch}",
            "recorded": f"recorded on {self.device}, torch {self.torch}, {self.date}",
            "trace": f"read from a trace, {self.device}, torch {self.torch}",
        }
        return said[self.kind]


@dataclass(frozen=True)
class Run:
    """All facts of one observed piece of code; `pretended`: the same for GPUs that are not there."""

    origin: Origin
    calls: tuple[Call, ...] = ()
    compiles: tuple[Compile, ...] = ()
    breaks: tuple[GraphBreak, ...] = ()
    not_compiled: tuple[NotCompiled, ...] = ()
    phases: tuple[Phase, ...] = ()
    autotuning: tuple[Autotuning, ...] = ()
    """What was timed to choose between algorithms or configurations; empty if nothing was."""
    cuda_graphs: CudaGraphs | None = None
    peak_memory_bytes: int | None = None
    """Most GPU memory that tensors held at once, beyond what they held before; of the current device only."""
    sources: dict[str, str] = field(default_factory=dict)
    """File or cell name to its whole text, for each file that a fact points to and that belongs to the learner."""
    missing: dict[str, str] = field(default_factory=dict)
    """Fact to the reason why this torch, or this machine, cannot give it."""
    notes: tuple[str, ...] = ()
    """Sentences for the reader: a pretended GPU that failed, a trace that was cut off…"""
    pretended: tuple[Run, ...] = ()
    result: Any = field(default=None, compare=False, repr=False)
    """What the observed function returned; never stored."""

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The Dynamo graphs, in the order they were captured: their number is "how many graphs"."""
        return tuple(g for c in self.compiles if (g := c.graph("dynamo")))

    @property
    def code(self) -> tuple[Code, ...]:
        """All generated modules, in order."""
        return tuple(code for c in self.compiles for code in c.code)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """All kernels and library calls, in order."""
        return tuple(kernel for code in self.code for kernel in code.kernels)

    @property
    def recompiles(self) -> tuple[Compile, ...]:
        """The compiles that happened because a guard refused."""
        return tuple(c for c in self.compiles if c.refusals)

    def walk_nodes(self, stage: str) -> Iterator[tuple[Compile, Node]]:
        """Each node of that stage with the compile it belongs to."""
        for compiled in self.compiles:
            for graph in (one for one in compiled.graphs if one.stage == stage):
                for node in graph.nodes:
                    yield compiled, node

    def to_json(self) -> str:
        """JSON text; `from_json` gives an equal Run back (without `result`)."""
        return json.dumps(_converter.unstructure(self), separators=(",", ":"))

    def interpret(self, *, time_limit: float = 60.0) -> tuple[Any, ...]:
        """The numbers of its pretended kernels, on the CPU, beside eager's; see `compilescope.interpret`."""
        import compilescope  # only when called: facts stay free of what runs kernels

        return compilescope.interpret(self, time_limit=time_limit)

    def save_html(self, path: str | Path) -> Path:
        """Write the whole explorer as one page that needs no network, to send to a colleague; returns its path."""
        import compilescope  # only when called: facts stay free of what draws them

        return compilescope.save_html(self, path)

    @staticmethod
    def from_trace(folder: str | Path, rank: int | None = None) -> Run:
        """The facts of one process from a folder written with ``TORCH_TRACE=folder``; see `compilescope.from_trace`."""
        import compilescope  # only when called: facts stay free of what reads traces

        return compilescope.from_trace(folder, rank)

    @staticmethod
    def from_json(text: str) -> Run:
        """A Run from `to_json`'s text. Raises ValueError with a sentence if it is none.

        Of a torch version that is not known it holds what fits, and `notes` says what does not.
        """
        try:
            stored = json.loads(text)
            if not strange(stored["origin"].get("torch", "")):
                return _converter.structure(stored, Run)
            run, left_out = read_what_fits(_converter, stored, Run)
            return replace(run, notes=(*run.notes, left_out)) if left_out else run
        except (json.JSONDecodeError, cattrs.BaseValidationError, KeyError, TypeError, AttributeError) as error:
            raise ValueError("This is no recorded run: write one with Run.to_json().") from error


_converter = cattrs.Converter(omit_if_default=True)
_converter.register_structure_hook(int | str, lambda value, _: value)
_converter.register_unstructure_hook(
    Run, make_dict_unstructure_fn(Run, _converter, result=override(omit=True), _cattrs_omit_if_default=True)
)
