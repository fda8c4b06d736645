"""The same code compiled for a GPU that is not there: Inductor's real Triton source, from the learner's own graphs.

`observe(fn, *args, on="h100")` uses `previewing`: each graph that Dynamo hands to the backend is copied while it
passes, and once the learner's call is over it is compiled again for the GPU. Nothing is run there, nothing is timed.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from compilescope.facts import Code, Compile, Graph, Kernel, Origin, Run, Size
from compilescope.pretend_lines import line_nodes
from compilescope.reading.build import Builder
from compilescope.roofline import GPUS, floor_us, flops, operation
from compilescope.torch_internals.pretend_capture import Captured, capturing, latest
from compilescope.torch_internals.pretend_codegen import generate
from compilescope.torch_internals.pretend_kernels import launch_facts
from compilescope.torch_internals.pretend_world import has_triton, triton_version

NO_TRITON = (
    "The triton package is not installed here (there are wheels for Linux only): the Triton source is real, "
    "but configurations, grid, PTX, SASS and numbers from the interpreter need it."
)


@dataclass
class Preview:
    """Graphs that passed while `previewing`; `runs` compiles them for each GPU."""

    gpus: tuple[str, ...]
    captured: list[Captured] = field(default_factory=list)

    def runs(self, live: Run | None = None) -> tuple[tuple[Run, ...], tuple[str, ...]]:
        """One pretended `Run` for each GPU, and a sentence for each thing that could not be had. Never raises."""
        graphs = latest(self.captured)
        if not graphs:
            nothing = "Nothing compiled, so there is no code for a pretended GPU: call torch.compiler.reset() first."
            return (), (nothing,)
        runs = tuple(_run(gpu, graphs, live) for gpu in self.gpus)
        notes = tuple(dict.fromkeys(note for run in runs for note in run.notes))
        return runs, notes


@contextlib.contextmanager
def previewing(on: str | Sequence[str]) -> Iterator[Preview]:
    """Copy each graph that Dynamo captures inside, for ``preview.runs()`` after the block.

    `on` is ``"h100"``, ``"a100"``, ``"t4"``, or several of them. Raises ValueError for another name.
    """
    gpus = (on,) if isinstance(on, str) else tuple(on)
    for gpu in gpus:
        if gpu not in GPUS:
            raise ValueError(f"There is no pretended GPU {gpu!r}: choose {', '.join(map(repr, GPUS))}.")
    preview = Preview(gpus)
    if not gpus:  # copies of graphs and inputs are time and memory that nobody would use
        yield preview
        return
    with capturing() as captured:
        preview.captured = captured
        yield preview


def preview(fn: Any, *args: Any, on: str | Sequence[str] = "h100", **kwargs: Any) -> tuple[Run, ...]:
    """Compile `fn` (not yet compiled, or compiled) for pretended GPUs and call it once on the CPU, without Inductor.

    Cheaper than ``observe(fn, on=…)``: no C++ is compiled. One `Run` for each GPU, its `notes` say what failed.
    """
    plain = getattr(fn, "_torchdynamo_orig_callable", fn)
    torch.compiler.reset()
    try:
        with previewing(on) as found:
            result = torch.compile(plain, backend="eager")(*args, **kwargs)
    finally:
        torch.compiler.reset()
    runs, notes = found.runs()
    if not runs:
        raise ValueError(notes[0])
    for run in runs:
        object.__setattr__(run, "result", result)
    return runs


def _run(gpu: str, graphs: list[Captured], live: Run | None) -> Run:
    builder = Builder()
    notes: list[str] = []
    for captured in graphs:
        try:
            for meta, payload in generate(captured, gpu):
                builder.add(meta, _without_paths(payload) if "inductor_output_code" in meta else payload)
        except Exception as error:  # a preview must never break the learner's call
            notes.append(_failed(gpu, captured, error))
    functions = {str(captured.compile_id): captured.function for captured in graphs}
    compiles = tuple(_enriched(one, gpu, live, functions, notes) for one in builder.compiles())
    missing: dict[str, str] = (
        {} if has_triton() else dict.fromkeys(("configs", "grid", "ptx", "sass", "interpret"), NO_TRITON)
    )
    run = Run(
        Origin("pretended", GPUS[gpu].name, torch.__version__, triton=triton_version()),
        compiles=compiles,
        breaks=live.breaks if live is not None else (),
        sources=live.sources if live is not None else {},
        missing=missing | builder.problems,
        notes=tuple(notes),
    )
    # not a fact: what `interpret` needs to run it again, gone with the run
    object.__setattr__(run, _GRAPHS, tuple(graphs))
    return run


_GRAPHS = "_captured_graphs"


def graphs_of(run: Run) -> tuple[Captured, ...] | None:
    """The graphs a pretended run of this session was made from; None for another run."""
    graphs: tuple[Captured, ...] | None = getattr(run, _GRAPHS, None)
    return graphs


def keep_graphs(run: Run, changed: Run) -> None:
    """Let a changed copy of a pretended run be interpreted like the run itself."""
    if (graphs := graphs_of(run)) is not None:
        object.__setattr__(changed, _GRAPHS, graphs)


def _failed(gpu: str, captured: Captured, error: Exception) -> str:
    first = next((line for line in str(error).splitlines() if line.strip()), "")
    return (
        f"Graph {captured.compile_id} has no code for the pretended {GPUS[gpu].name}: "
        f"{type(error).__name__}: {first[:200]} Your own call is not affected."
    )


_PATH = re.compile(r"^# kernel path: .*$", re.MULTILINE)


def _without_paths(code: str | None) -> str | None:
    return None if code is None else _PATH.sub("# kernel path:", code)


def _enriched(
    compiled: Compile, gpu: str, live: Run | None, functions: dict[str, tuple[str, str, int]], notes: list[str]
) -> Compile:
    """The compile as the pretended GPU's: with what only it has, and with what the live run knows of the frame."""
    code = tuple(_enriched_code(one, compiled, gpu, notes) for one in compiled.code)
    function, file, line = functions.get(compiled.compile_id, ("", "", 0))
    changed: dict[str, Any] = {"code": code, "backend": "inductor", "function": function, "file": file, "line": line}
    same = [one for one in live.compiles if one.compile_id == compiled.compile_id] if live is not None else []
    for one in same[-1:]:
        kept = ("symbols", "is_resume", "guards", "guards_text", "refusals")
        changed |= {name: getattr(one, name) for name in kept}
    return dataclasses.replace(compiled, **changed)


def _enriched_code(code: Code, compiled: Compile, gpu: str, notes: list[str]) -> Code:
    graph = compiled.graph("post_grad_backward" if code.which == "backward" else "post_grad")
    sources = {kernel.name: kernel.source for kernel in code.kernels if kernel.language == "triton"}
    try:
        facts = launch_facts(sources, gpu)
    except Exception as error:
        facts = {}
        notes.append(f"Configurations and grids could not be read: {type(error).__name__}: {error}")
    calls = _Calls(code.text)
    kernels = tuple(_enriched_kernel(kernel, graph, facts.get(kernel.name, {}), calls, gpu) for kernel in code.kernels)
    return dataclasses.replace(code, kernels=kernels, target=gpu)


def _enriched_kernel(kernel: Kernel, graph: Graph | None, facts: dict[str, Any], calls: _Calls, gpu: str) -> Kernel:
    by_name = {node.name: node for node in graph.nodes} if graph is not None else {}
    nodes = [by_name[name] for name in kernel.nodes if name in by_name]
    work = flops(nodes, graph) if graph is not None and nodes else None
    moved = None
    if kernel.bytes_read is not None and kernel.bytes_written is not None:
        moved = kernel.bytes_read + kernel.bytes_written
    matmul = any(operation(node) in ("mm", "bmm", "addmm", "baddbmm", "convolution") for node in nodes)
    dtype = next((node.dtype for node in reversed(nodes) if node.dtype), "float32")
    floor, source = floor_us(gpu, moved, work, dtype, matmul)
    return dataclasses.replace(
        kernel,
        configs=tuple(facts.get("configs", ())),
        grid=calls.grid(kernel, facts) if facts else None,
        flops=work,
        floor_us=floor,
        floor_source=source,
        line_nodes=line_nodes(kernel.source, nodes, by_name.values()) if kernel.language == "triton" else {},
    )


class _Calls:
    """The launches in a wrapper: with what sizes each kernel is called."""

    def __init__(self, text: str) -> None:
        self.calls: dict[int, ast.Call] = {}
        self.sizes: dict[str, str] = {}
        for part in ast.walk(ast.parse(text)):
            match part:
                case ast.Call(func=ast.Attribute(attr="run")):
                    self.calls[part.lineno] = part
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if name.endswith("numel"):
                    self.sizes[name] = ast.unparse(value)

    def grid(self, kernel: Kernel, facts: dict[str, Any]) -> tuple[Size, ...] | None:
        """Launch grid of the first launch with the first configuration; text where a size is dynamic."""
        call = self.calls.get(kernel.call_lines[0]) if kernel.call_lines else None
        if call is None or not facts["grids"]:
            return None
        given = [ast.unparse(argument) for argument in call.args]
        if facts["fixed"]:
            return tuple(_size(one) for one in given[-3:])
        scope = dict(zip(facts["signature"], (self.sizes.get(one, one) for one in given), strict=False))
        return tuple(_size(_filled(one, scope)) for one in facts["grids"][0]) or None


def _filled(expression: str, scope: dict[str, str]) -> str:
    return re.sub(r"\b\w+numel\b", lambda match: scope.get(match[0], match[0]), expression)


def _size(expression: str) -> Size:
    """A number where the expression has only numbers, ``ceil(a / b)`` included; else the expression."""
    if match := re.fullmatch(r"ceil\((\d+) / (\d+)\)", expression):
        return -(int(match[1]) // -int(match[2]))
    return int(expression) if expression.isdigit() else expression
