"""From what the records of a compile told to the facts: compiles, breaks with their two sides, skipped frames."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from typing import Any, cast

from compilescope.facts import Code, Compile, Graph, GraphBreak, Kernel, Node, NotCompiled, NotFused, Saved, Source
from compilescope.pretend_lines import line_nodes
from compilescope.reading.buffers import item_bytes
from compilescope.reading.cpp_lines import cpp_line_nodes
from compilescope.reading.guards import read_guards, with_ranges
from compilescope.reading.opened import Opened
from compilescope.reading.parts import with_origins_of_the_whole
from compilescope.reading.skips import RECOMPILE_LIMIT, REMEDIES, skipped_at_break
from compilescope.reading.stacks import RESUME, belongs_to_learner, written_name

_OUTPUT_NOTE = re.compile(r"^\s+(\w+),\s+# (\w+AOTOutput.*)$")


def close(found: Opened) -> Compile:
    """The `Compile` that these records describe."""
    graphs = with_origins_of_the_whole(found.all_graphs())
    guards = read_guards(found.guards_text, _files(found))
    return Compile(
        compile_id=found.compile_id,
        function=found.name,
        file=found.file,
        line=found.line,
        backend=found.backend,
        graphs=graphs,
        code=tuple(_with_origins(code, graphs) for code in found.code),
        guards=guards,
        guards_text=found.guards_text.strip(),
        refusals=found.refusals,
        symbols=with_ranges(found.symbols.values(), guards),
        saved=tuple(one for g in graphs if g.stage == "forward" for one in saved_for_backward(g)),
        not_fused=_not_fused(found),
        provenance=_provenance(found, graphs),
        caches=found.caches,
        seconds=found.metrics.get("entire_frame_compile_time_s"),
        is_resume=bool(RESUME.match(found.function)),
        bytecode_before=found.bytecode_before,
        bytecode_after=found.bytecode_after,
        error=str(found.metrics.get("fail_reason") or ""),
    )


def _files(found: Opened) -> set[str]:
    """Whole names of the files that this compile went through."""
    nodes = (node for graph in found.all_graphs() for node in graph.nodes)
    return {found.file, *(node.source.file for node in nodes if node.source)} - {""}


def _provenance(found: Opened, graphs: tuple[Graph, ...]) -> dict[str, tuple[str, ...]]:
    several = any(graph.part for graph in graphs)
    known = {} if several else dict(found.provenance)  # torch's map has the names that each part has for itself
    for graph in (one for one in graphs if one.stage.startswith("post_grad")):
        for node in graph.nodes:
            if several:
                known[node.name] = tuple(dict.fromkeys((*known.get(node.name, ()), *node.origins)))
            elif node.origins:
                known.setdefault(node.name, node.origins)
    return {name: origins for name, origins in known.items() if origins}


def _not_fused(found: Opened) -> tuple[NotFused, ...]:
    """Pairs of kernels (of nodes, where no kernel has them all) that stayed apart; the last reason counts."""
    reasons: dict[tuple[str, str], str] = {}
    for number, pair in found.not_fused:
        kernels = found.code[number].kernels if number < len(found.code) else ()
        first, second = (_kernel_of(set(pair[side]), kernels) for side in ("first", "second"))
        if first != second:
            reasons[first, second] = pair["reason"]
    return tuple(NotFused(first, second, reason) for (first, second), reason in reasons.items())


def _kernel_of(nodes: set[str], kernels: tuple[Kernel, ...]) -> str:
    holding = [kernel.name for kernel in kernels if nodes & set(kernel.nodes)]
    return holding[0] if len(holding) == 1 else ", ".join(sorted(nodes))


def _with_origins(code: Code, graphs: tuple[Graph, ...]) -> Code:
    """The code's kernels with Dynamo nodes and lines from the post-grad graph, where torch's own map has none."""
    stage = "post_grad_backward" if code.which == "backward" else "post_grad"
    graph = next((one for one in graphs if (one.stage, one.part) == (stage, code.part)), None)
    several = any(one.part for one in graphs)
    if graph is None:
        return code
    nodes = {node.name: node for node in graph.nodes}

    def joined(kernel: Kernel) -> Kernel:
        computed = [nodes[name] for name in kernel.nodes if name in nodes]
        known = () if several else kernel.dynamo_nodes
        dynamo = dict.fromkeys([*known, *(name for node in computed for name in node.origins)])
        sources = dict.fromkeys([*kernel.sources, *(node.source for node in computed if node.source)])
        written = kernel.bytes_written
        if written is None and kernel.language == "extern" and computed:
            written = _node_bytes(computed[-1])
        lines = kernel.line_nodes
        if not lines and kernel.source:
            lines = (cpp_line_nodes if kernel.language == "cpp" else line_nodes)(kernel.source, computed)
        return dataclasses.replace(
            kernel, dynamo_nodes=tuple(dynamo), sources=tuple(sources), bytes_written=written, line_nodes=lines
        )

    return dataclasses.replace(code, kernels=tuple(joined(kernel) for kernel in code.kernels))


def saved_for_backward(forward: Graph) -> tuple[Saved, ...]:
    """What the forward graph hands to backward: its outputs that AOTAutograd marks as saved."""
    nodes = {node.name: node for node in forward.nodes}
    saved = []
    for line in forward.text.splitlines():
        match = _OUTPUT_NOTE.match(line)
        node = nodes.get(match[1]) if match and "SavedForBackwards" in match[2] else None
        if node is None or node.shape is None or node.dtype == "SymInt":
            continue
        size = _node_bytes(node)
        saved.append(Saved(node.name, node.dtype or "", node.shape, size, node.op == "placeholder", forward.part))
    return tuple(saved)


def _node_bytes(node: Node) -> int | None:
    if node.shape is None:
        return None
    size = item_bytes(node.dtype or "")
    for one in node.shape:
        size = size * one if size is not None and isinstance(one, int) else None
    return size


def link_breaks(opened: list[Opened]) -> tuple[GraphBreak, ...]:
    """All breaks, with the graph that ends there and the compile that goes on after it."""
    linked = []
    for position, found in enumerate(opened):
        for one in found.breaks:
            if one.gb == RECOMPILE_LIMIT:
                continue  # Dynamo reports it like a break, but nothing is split
            here, cause = own_line(found, one), one.source
            linked.append(
                dataclasses.replace(
                    one,
                    before=found.compile_id if "dynamo" in found.graphs else None,
                    after=_resumed(found, here, opened, position) if found.is_entry else None,
                    in_callee=bool(cause and here and (cause.file, cause.line) != (here.file, here.line)),
                )
            )
    return tuple(linked)


def own_line(found: Opened, one: GraphBreak) -> Source | None:
    """The frame's own line at which the break came: where it calls, if the cause lies in a function it calls."""
    base = base_function(found.function)
    for source in reversed(one.stack):
        if source.file == found.file and base_function(source.function) == base:
            return source
    return one.source


def base_function(name: str) -> str:
    """``price`` for ``torch_dynamo_resume_in_price_at_12``; any other name as it is, without enclosing scopes."""
    return written_name(name).rpartition(".")[2]


def _resumed(found: Opened, here: Source | None, opened: list[Opened], position: int) -> str | None:
    base = base_function(found.function)
    resumes = [
        other
        for other in [*opened[position + 1 :], *opened[:position]]
        if other.is_entry and other.file == found.file and RESUME.match(other.function)
        and base_function(other.function) == base
    ]  # fmt: skip
    if here is not None:
        for other in resumes:
            match = RESUME.match(other.function)
            if match and int(match["line"]) == here.line:
                return other.compile_id
    return None


def skipped_frames(opened: list[Opened], text_of: Callable[[str], str]) -> tuple[tuple[str, NotCompiled], ...]:
    """Compile id and `NotCompiled` of each frame of the learner's that Dynamo analyzed and left to Python."""
    skipped = []
    for found in opened:
        if found.is_entry or not found.done or (found.file and not belongs_to_learner(found.file)):
            continue
        resumed = RESUME.match(found.function)
        name = base_function(found.function) if resumed else found.shown or found.function
        where = Source(found.file, found.line, written_name(found.function)) if found.file else None
        if found.breaks:
            source = own_line(found, found.breaks[-1]) or where
            fact = skipped_at_break(found.breaks[-1], name, source, text_of, bool(resumed))
        elif found.metrics.get("fail_type"):
            said = str(found.metrics.get("fail_reason") or "it gives no reason").partition("\n")[0]
            reason = f"{found.metrics['fail_type']}: {said}"
            fact = NotCompiled(name, reason, REMEDIES["error"], where, "error")
        else:
            reason = "It has no tensor operation to compile."
            fact = NotCompiled(name, reason, REMEDIES["no tensor"], where, "no tensor")
        skipped.append((found.compile_id, fact))
    return tuple(skipped)


def sources_of(value: object) -> set[Source]:
    """All `Source`s inside facts, however deep."""
    found: set[Source] = set()
    names: dict[Any, tuple[str, ...]] = {}
    stack = [value]
    while stack:
        one = stack.pop()
        kind: Any = type(one)
        if kind is Source:
            found.add(cast(Source, one))
        elif kind is tuple or kind is list:
            stack.extend(cast(Iterable[object], one))
        elif kind is not str and one is not None:
            if kind not in names:
                names[kind] = tuple(part.name for part in dataclasses.fields(kind)) if _is_fact(kind) else ()
            stack.extend(getattr(one, name) for name in names[kind])
    return found


def _is_fact(kind: Any) -> bool:
    return dataclasses.is_dataclass(kind)
