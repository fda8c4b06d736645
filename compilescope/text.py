"""Facts as plain text: the twin of every view, and what tests and feedback read. Short: the facts hold the rest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from compilescope.facts import (
    NO_GPU,
    Autotuning,
    Call,
    Compile,
    CudaGraphs,
    Graph,
    GraphBreak,
    Guard,
    Kernel,
    NotCompiled,
    Refusal,
    Run,
    Saved,
    Source,
)
from compilescope.facts_reading import strange
from compilescope.verdicts import Verdict

_IDENTITY = ("ID_MATCH", "TYPE_MATCH", "DICT_VERSION", "DIMENSION_DYNAMIC_MARKING_GUARD")
_CHECK_TENSOR = re.compile(r"^check_tensor\(.*?torch\.(\w+), device=.*?requires_grad=(\w+), size=(\[.*?\])")
_PART_OF_MODULE = re.compile(r"\._(?:modules|parameters|buffers)\['(\w+)'\]")
_LONG_FLOAT = re.compile(r"\b\d+\.\d{6,}\b")
_ALIKE = re.compile(r"^duck sizing .* same size (\d+)$")
_MOST = 8
"""A list longer than this is cut, and says so."""


def describe(run: Run) -> str:
    """What happened, in a few lines: calls, graphs, breaks, what ran as plain Python, kernels, what is not known."""
    lines = [_headline(run), *notes(run)]
    lines += _cut(describe_call(call) for call in run.calls)
    lines += _cut(describe_not_compiled(one) for one in run.not_compiled)
    lines += _cut(describe_break(one) for one in run.breaks if not one.in_callee)
    if run.kernels:
        lines.append(describe_kernels(run.kernels))
    cut = (one for one in run.compiles if one.parts > 1)
    lines += _cut(f"The backend cut the graph of {one.function} into {one.parts} parts." for one in cut)
    lines += _cut(describe_autotuning(one) for one in run.autotuning)
    if run.cuda_graphs not in (None, CudaGraphs()):
        lines.append(describe_cuda_graphs(run.cuda_graphs))
    if run.peak_memory_bytes:
        lines.append(f"Peak memory: {size(run.peak_memory_bytes)} more than before.")
    lines += describe_missing(run)
    lines.append(f"({run.origin.sentence()})")
    return "\n".join(lines)


def notes(run: Run) -> tuple[str, ...]:
    """Sentences for the reader of `run`; one of them if it comes from a torch that compilescope does not know."""
    return (*filter(None, [strange(run.origin.torch)]), *run.notes)


def describe_missing(run: Run) -> list[str]:
    """``Not known: fact. Why.``, facts of one reason together; without those that need a GPU."""
    reasons: dict[str, list[str]] = {}
    for fact, reason in run.missing.items():
        if reason != NO_GPU:
            reasons.setdefault(reason, []).append(fact)
    return [f"Not known: {', '.join(facts)}. {reason}" for reason, facts in reasons.items()]


def _headline(run: Run) -> str:
    breaks = sum(not one.in_callee for one in run.breaks)
    parts = [count(len(run.graphs), "graph"), count(breaks, "graph break"), count(len(run.recompiles), "recompile")]
    if run.kernels:
        parts.append(count(len(run.kernels), "kernel"))
    return ", ".join(parts) + "."


def describe_call(call: Call) -> str:
    """Where it was called, what came of it and in what time: ``price(…) at line 4: hit in 12 µs``."""
    text = f"{call.function}(…){_at(call.source)}: {call.outcome} in {seconds(call.seconds)}"
    if call.refusals and call.outcome in ("recompile", "gave up"):
        text += f", because {describe_refusal(call.refusals[0])}"
    return text + "."


def describe_refusal(refusal: Refusal) -> str:
    """``n was 2 when it was compiled, and is 3 now``: a guard that refused, with the value then and now."""
    told = _PART_OF_MODULE.sub(r".\1", _told(refusal))
    return _LONG_FLOAT.sub(lambda found: f"{float(found[0]):.4g}", told)


def _told(refusal: Refusal) -> str:
    if refusal.expression.startswith("tensor ") and refusal.expected is not None:
        what = refusal.expression.partition(". expected")[0].removeprefix("tensor ")
        return f"{what}: compiled for {refusal.expected}, now {refusal.actual}"
    if both := _ALIKE.search(refusal.hint):
        return f"{refusal.expression} was compiled in (both were {both[1]}), and they differ now"
    if refusal.expected is not None and refusal.actual is not None:
        return f"{refusal.subject} was {refusal.expected} when it was compiled, and is {refusal.actual} now"
    if refusal.expression[:1].isdigit() and refusal.actual is not None:
        return f"{refusal.expression} was compiled in, and it is {refusal.actual} now"
    return refusal.expression


def describe_not_compiled(fact: NotCompiled) -> str:
    """Function, reason, and what to do about it."""
    return f"{fact.function} ran as plain Python{_at(fact.source)}. {fact.reason} {fact.remedy}"


def describe_break(one: GraphBreak) -> str:
    """Number, place, reason, and the graphs on its two sides."""
    sides = f"before it: {'graph ' + one.before if one.before else 'nothing captured'}"
    sides += f"; after it: {'graph ' + one.after if one.after else 'plain Python'}"
    number = f"{one.gb}, " if one.gb else ""
    return f"Graph break{_at(one.source, with_code=True)}: {number}{one.reason} ({sides})."


def describe_kernels(kernels: Iterable[Kernel]) -> str:
    """How many kernels of which language, and how many fuse several operations."""
    kernels = tuple(kernels)
    counted = Counter(kernel.language for kernel in kernels)
    names = {"cpp": "C++", "triton": "Triton", "extern": "library calls"}
    fused = sum(len(kernel.nodes) > 1 and kernel.language != "extern" for kernel in kernels)
    parts = ", ".join(f"{number} {names[language]}" for language, number in counted.items())
    return f"{count(len(kernels), 'kernel')}: {parts}; {fused} of them fuse several operations."


def describe_kernel(kernel: Kernel) -> str:
    """Name, what it computes, bytes moved, where it comes from."""
    moved = f"reads {size(kernel.bytes_read)}, writes {size(kernel.bytes_written)}"
    lines = sorted({source.line for source in kernel.sources})
    where = f"; from line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}" if lines else ""
    kind = f", {kernel.kind}" if kernel.kind else ""
    if kernel.registers is not None:
        where += f"; {count(kernel.registers, 'register')} a thread, {count(kernel.spills or 0, 'spill')}"
    return f"{kernel.name} ({kernel.language}{kind}): {', '.join(kernel.nodes) or 'unknown nodes'}; {moved}{where}."


def describe_autotuning(one: Autotuning) -> str:
    """What was chosen, its time, among how many: ``mm 8x8, 8x8: triton_mm_4 in 9 µs, of 20 candidates…``."""
    times = {choice.name: choice.time_us for choice in one.choices}
    taken = times.get(one.chosen)
    what = f"{one.chosen or 'undecided'} {f'in {seconds(taken / 1e6)}' if taken is not None else ''}".strip()
    return f"{one.subject}: {what}, of {count(len(one.choices), 'candidate')} that were timed."


def describe_cuda_graphs(graphs: CudaGraphs) -> str:
    """Counts, and the reasons of those that were skipped."""
    text = f"CUDA graphs: {graphs.warmed_up} warmed up, {graphs.recorded} recorded, {graphs.replayed} replayed"
    for skip in graphs.skipped:
        text += f"; skipped{_at(skip.source, with_code=True)}: {skip.reason}"
    return text + "."


def describe_graph(graph: Graph) -> str:
    """One line a node: name, what is called on what, shape, the learner's line."""
    title = f"{graph.stage} graph of {graph.compile_id}: {count(len(graph.calls()), 'operation')}"
    lines = [title]
    for node in graph.nodes:
        shape = f"  {node.dtype}{list(node.shape)}" if node.shape is not None and node.dtype else ""
        where = f"  line {node.source.line}" if node.source else ""
        call = "input" if node.op == "placeholder" else f"{node.target}({', '.join(node.inputs)})"
        lines.append(f"  {node.name} = {call}{shape}{where}" if node.op != "output" else f"  return {call[7:-1]}")
    return "\n".join(lines)


def describe_guards(compiled: Compile) -> str:
    """The guards that a learner's own values are in; the others are counted."""
    own = [guard for guard in compiled.guards if guard.subject.startswith(("L[", "G["))]
    told = [guard for guard in own if guard.kind not in _IDENTITY and "__import_" not in guard.subject]
    lines = [f"{count(len(compiled.guards), 'guard')} on {compiled.compile_id}, {len(told)} of them on your values:"]
    lines += _cut(f"  {describe_guard(guard)}" for guard in told)
    return "\n".join(lines)


def describe_guard(guard: Guard) -> str:
    """What must hold on each call: for a tensor its dtype, shape and requires_grad, else the expression itself."""
    tensor = _CHECK_TENSOR.search(guard.expression)
    if not tensor:
        return f"{guard.expression}{_at(guard.source)}"
    return f"{guard.subject} is {tensor[1]}{tensor[3]}, requires_grad={tensor[2]}{_at(guard.source)}"


def describe_symbols(compiled: Compile) -> str:
    """Each dynamic size with its range, and where it was fixed to one value."""
    if not compiled.symbols:
        return f"{compiled.compile_id} has no dynamic size."
    lines = []
    for symbol in compiled.symbols:
        low = "no lower bound" if symbol.minimum is None else f"at least {symbol.minimum}"
        high = "" if symbol.maximum is None else f", at most {symbol.maximum}"
        fixed = (
            "" if symbol.specialized_to is None else f"; fixed to {symbol.specialized_to}{_at(symbol.specialized_by)}"
        )
        lines.append(f"{symbol.name} is {symbol.subject}: {low}{high}{fixed}.")
    return "\n".join(lines)


def describe_saved(saved: Iterable[Saved]) -> str:
    """What forward keeps for backward, and how much memory that is."""
    saved = tuple(saved)
    if not saved:
        return "Nothing is saved for backward."
    known = [one.size_bytes for one in saved if one.size_bytes is not None and not one.is_input]
    inputs = sum(one.is_input for one in saved)
    return (
        f"{count(len(saved), 'tensor')} saved for backward: {inputs} are inputs, which cost nothing more; "
        f"the others take {size(sum(known))}: {', '.join(one.name for one in saved if not one.is_input) or 'none'}."
    )


def describe_phases(run: Run, deepest: int = 1) -> str:
    """Where compile time went: phases down to that depth, longest first."""
    seconds_of: Counter[str] = Counter()
    for phase in run.phases:
        if phase.depth <= deepest:
            seconds_of["  " * phase.depth + phase.name] += phase.seconds  # type: ignore[assignment]
    return "\n".join(f"{name}: {seconds(spent)}" for name, spent in seconds_of.most_common(_MOST))


def describe_verdict(verdict: Verdict) -> str:
    """What Dynamo would do with a call, and why."""
    if verdict.outcome == "hit":
        return f"{verdict.function} would not compile again: entry {verdict.accepts} accepts these arguments."
    if verdict.outcome == "first compile":
        return f"{verdict.function} would compile: its cache is empty."
    does = "compile again" if verdict.outcome == "recompile" else "run as plain Python: its cache is full"
    reasons = "; ".join(f"{one.compile_id}: {describe_refusal(one)}" for one in verdict.refusals[:_MOST])
    return f"{verdict.function} would {does}. {reasons}."


def count(number: int, noun: str) -> str:
    """``1 graph``, ``2 graphs``, ``0 graphs``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def seconds(value: float) -> str:
    """``12 µs``, ``3.1 ms``, ``0.31 s``."""
    if value < 1e-3:
        return f"{value * 1e6:.0f} µs"
    return f"{value * 1e3:.1f} ms" if value < 0.1 else f"{value:.2f} s"


def size(value: int | None) -> str:
    """``512 B``, ``32.0 kB``, ``1.5 MB`` (powers of 1000); ``an unknown size`` for None."""
    if value is None:
        return "an unknown size"
    if value < 1000:
        return f"{value} B"
    for unit in ("kB", "MB", "GB"):
        value_in_unit = value / 1000 ** (("kB", "MB", "GB").index(unit) + 1)
        if value_in_unit < 1000 or unit == "GB":
            return f"{value_in_unit:.1f} {unit}"
    return f"{value} B"


def _at(source: Source | None, with_code: bool = False) -> str:
    if source is None or not source.line:
        return ""
    return f" at line {source.line}" + (f", {source.code}" if with_code and source.code else "")


def _cut(lines: Iterable[str]) -> list[str]:
    found = list(lines)
    return found if len(found) <= _MOST else [*found[:_MOST], f"… and {len(found) - _MOST} more."]
