"""Facts of the generated code and of the GPU it ran on; part of `compilescope.facts`, which gives all these names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

NO_GPU = "There is no GPU here."
"""Why a live run on the CPU has none of a GPU's facts."""

Size = int | str
"""One dimension: a number, or the name of a symbol such as ``"s77"`` for a dynamic one."""


@dataclass(frozen=True)
class Source:
    """A line of Python: file (or cell name), 1-based line, enclosing function, text of the line."""

    file: str
    line: int
    function: str = ""
    code: str = ""


@dataclass(frozen=True)
class Kernel:
    """One kernel of the generated code, or one library call.

    `bytes_read`, `bytes_written`: each distinct input and output buffer counted once, in bytes; None if dynamic.
    """

    name: str
    language: Literal["triton", "cpp", "extern"]
    """``extern``: a call into a library (cuBLAS, MKL, ATen) instead of generated code."""
    source: str = ""
    lines: tuple[int, int] | None = None
    """First and last 1-based line of its source in `Code.text`."""
    call_lines: tuple[int, ...] = ()
    """1-based lines of `Code.text` that launch it."""
    nodes: tuple[str, ...] = ()
    """Names of the post-grad nodes it computes: more than one means fused."""
    dynamo_nodes: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    line_nodes: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Line of `source` (1-based) to the post-grad nodes it computes, where that is known."""
    bytes_read: int | None = None
    bytes_written: int | None = None
    launches: int = 1
    kind: str = ""
    """Inductor's heuristic: ``pointwise``, ``reduction``, ``persistent_reduction``, ``template``…"""
    grid: tuple[Size, ...] | None = None
    configs: tuple[str, ...] = ()
    ptx: str | None = None
    sass: str | None = None
    registers: int | None = None
    """Per thread, in the binary that is loaded (live, on a GPU) or assembled (`compilescope.assemble`)."""
    shared_bytes: int | None = None
    spills: int | None = None
    """Live: as the driver counts them for Triton, in 4-byte registers; assembled: bytes of ``ptxas -v``."""
    flops: int | None = None
    floor_us: float | None = None
    """Roofline floor in microseconds: the larger of bytes over bandwidth and FLOP over rate."""
    floor_source: str = ""
    time_us: float | None = None
    """Measured time; only with a real GPU or from a recording."""


@dataclass(frozen=True)
class Code:
    """One generated module: the wrapper and its kernels."""

    compile_id: str
    which: Literal["forward", "backward", "inference"]
    text: str
    kernels: tuple[Kernel, ...] = ()
    target: str = "cpu"
    """``cpu``, ``cuda``, or a pretended GPU: ``h100``, ``a100``, ``t4``."""
    part: int = 0
    """Which piece of the Dynamo graph it computes, as `Graph.part`."""


@dataclass(frozen=True)
class NotFused:
    """Two neighbors in Inductor's scheduler that stayed apart, and its reason."""

    first: str
    second: str
    reason: str


@dataclass(frozen=True)
class Choice:
    """One candidate that was timed; `time_us` is None for one that failed, or was left out for its spills."""

    name: str
    """An algorithm (``mm``, ``triton_mm_4``), or a configuration (``XBLOCK: 256, num_warps: 4, num_stages: 1``)."""
    time_us: float | None
    details: str = ""
    """The block sizes of an algorithm's Triton template."""
    registers: int | None = None
    spills: int | None = None


@dataclass(frozen=True)
class Autotuning:
    """Candidates that torch timed against each other, the fastest first."""

    kind: Literal["algorithm", "configuration"]
    """``algorithm``: for an operation, while it compiles; ``configuration``: for a Triton kernel, at its first call."""
    subject: str
    """The operation with the sizes of its inputs, ``mm 512x512, 512x512``; or the kernel's name."""
    choices: tuple[Choice, ...]
    chosen: str = ""
    """The candidate that was taken. For an algorithm the fastest: a later fusion may still take another."""
    compile_id: str | None = None


@dataclass(frozen=True)
class GraphSkip:
    """Why a compiled function ran without a CUDA graph; `source` is the line that torch blames."""

    reason: str
    source: Source | None = None


@dataclass(frozen=True)
class CudaGraphs:
    """What happened to CUDA graphs: runs that only warmed up, recordings, replays, and why some were skipped.

    A count is of graphs, not calls: forward, backward and each partition of a function have graphs of their own.
    torch says once why it skips a function, when it compiles it or at its first call: a later run has no reason.
    """

    warmed_up: int = 0
    recorded: int = 0
    replayed: int = 0
    skipped: tuple[GraphSkip, ...] = ()
