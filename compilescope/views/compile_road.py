"""From bytecode to kernel: how long each part of the compiler worked, as five steps and as a flame strip."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compilescope.facts import Phase, Run
from compilescope.text import seconds
from compilescope.views.card import card, color, escape
from compilescope.views.display import Display

STEPS = (
    ("Dynamo", "reads your bytecode, captures graphs"),
    ("guards", "what must hold on the next call"),
    ("AOTAutograd", "makes forward and backward, plans what to save"),
    ("Inductor", "fuses, schedules and writes kernels"),
    ("kernel compilers", "g++ or Triton make machine code"),
)
_NAMES = {
    "dynamo": "Dynamo",
    "bytecode_tracing": "follow the bytecode",
    "compile_attempt_0": "attempt",
    "compile_attempt_1": "second attempt",
    "compile_fx.<locals>.fw_compiler_base": "forward",
    "compile_fx.<locals>.fw_compiler_freezing": "forward",
    "compile_fx.<locals>.bw_compiler": "backward",
    "additional_fake_tensor_prop": "shapes",
    "CacheBase.get_system.triton_key": "load Triton",
    "PyCodeCache.load_by_key_path": "load the code",
    "GraphLowering.codegen": "write the code",
    "Scheduler.fused_nodes": "fuse",
    "backend_compile": "backend",
    "build_guards": "guards",
    "create_aot_dispatcher_function": "AOTAutograd",
    "aot_collect_metadata": "run once with fake tensors",
    "aot_trace_joint_graph": "trace forward and backward together",
    "_recursive_joint_graph_passes": "simplify the joint graph",
    "min_cut_rematerialization_partition": "choose what to save",
    "inductor_compile": "Inductor",
    "_recursive_post_grad_passes": "simplify",
    "GraphLowering.run": "lower to loops",
    "GraphLowering.compile_to_fn": "to code",
    "Scheduler.__init__": "plan kernels",
    "Scheduler.codegen": "write kernels",
    "async_compile.wait": "wait for the kernel compilers",
}
_COMPILERS = (
    "async_compile.wait",
    "triton_compile",
    "compile_file",
    "cpp_compile",
    "load_by_key_path",
    "make_launcher",
)
_WRAPPERS = ("entire_frame_compile", "compile_attempt_0", "fx_codegen_and_compile", "code_gen")
_SMALLEST = 0.004
"""Share of the whole below which a phase is left out of the strip."""
_ROW = 21


def road(run: Run) -> Display:
    """Where compile time went. A phase that only wraps another one, or is too short to see, is left out."""
    spent = _steps(run.phases)
    total = sum(spent)
    if not total:
        reason = run.missing.get("phases", "Nothing was compiled, or it came from a cache.")
        return card("No compile time to show", f"<p>{escape(reason)}</p>", reason, run.origin.sentence())
    items = "".join(
        f"<li {color(i)}><b>{seconds(value) if value else '–'}</b>{escape(name)} "
        f"<span class=mute>{value / total:.0%}<br>{escape(says)}</span></li>"
        for i, ((name, says), value) in enumerate(zip(STEPS, spent, strict=True))
    )
    text = "\n".join(
        f"{name}: {seconds(value)} ({value / total:.0%})" for (name, _), value in zip(STEPS, spent, strict=True)
    )
    return card(f"{seconds(total)} of compiling", f'<ol class="steps">{items}</ol>{_flame(run.phases)}', text,
                run.origin.sentence())  # fmt: skip


def _steps(phases: Iterable[Phase]) -> list[float]:
    """Seconds of each of `STEPS`: a phase belongs to the innermost step it names, and counts without what it holds."""
    spent = [0.0] * len(STEPS)
    open_phases: list[tuple[Phase, int]] = []
    for phase in sorted(phases, key=lambda p: (p.start, p.depth)):
        while open_phases and open_phases[-1][0].depth >= phase.depth:
            open_phases.pop()
        outer = open_phases[-1][1] if open_phases else None
        step = _step(phase.name, outer)
        spent[step] += phase.seconds
        if outer is not None:
            spent[outer] -= phase.seconds
        open_phases.append((phase, step))
    return [max(0.0, value) for value in spent]


def _step(name: str, outer: int | None) -> int:
    if any(word in name for word in _COMPILERS):
        return 4
    if name in ("inductor_compile", "fx_codegen_and_compile"):
        return 3
    if name in ("create_aot_dispatcher_function", "backend_compile") or name.startswith("aot_"):
        return 2
    if name == "build_guards":
        return 1
    return 0 if outer is None else outer


@dataclass(frozen=True)
class _Strip:
    phase: Phase
    depth: int
    step: int


def _flame(phases: tuple[Phase, ...]) -> str:
    first = min(phase.start for phase in phases)
    whole = max(phase.start + phase.seconds for phase in phases) - first or 1.0
    strips = _strips(phases, whole)
    pieces = []
    for strip in strips:
        left, width = (strip.phase.start - first) / whole * 100, strip.phase.seconds / whole * 100
        name = _NAMES.get(strip.phase.name, strip.phase.name)
        said = f"{name}: {seconds(strip.phase.seconds)}"
        style = f"--c:var(--c{strip.step});left:{left:.2f}%;width:{width:.2f}%;top:{strip.depth * _ROW + 4}px"
        pieces.append(
            f'<span style="{style}" title="{escape(strip.phase.name)}, {escape(said)}">{escape(said)}</span> '
        )
    height = (max(strip.depth for strip in strips) + 1) * _ROW + 6
    return (
        f'<div class="flame" style="height:{height}px" role="img" aria-label="phases in time">{"".join(pieces)}</div>'
    )


def _strips(phases: tuple[Phase, ...], whole: float) -> list[_Strip]:
    found: list[_Strip] = []
    open_strips: list[tuple[Phase, int, int]] = []
    for phase in sorted(phases, key=lambda p: (p.start, p.depth)):
        while open_strips and open_strips[-1][0].depth >= phase.depth:
            open_strips.pop()
        outer, depth, step = open_strips[-1] if open_strips else (None, -1, None)
        step = _step(phase.name, step)
        wrapped = outer is not None and phase.seconds > 0.9 * outer.seconds and phase.name in _WRAPPERS
        if phase.seconds >= _SMALLEST * whole and not wrapped:
            depth += 1
            found.append(_Strip(phase, depth, step))
        open_strips.append((phase, depth, step))
    return found
