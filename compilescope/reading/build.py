"""Records of torch's structured trace, put together into the parts of a `Run`.

A record is a dictionary with one payload key (``dynamo_output_graph``…) plus the frame it belongs to, and a text.
The same records come from a live compile and from a ``TORCH_TRACE`` file.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from compilescope.facts import Code, Compile, Graph, GraphBreak, Guard, Kernel, Phase, Refusal, Saved, Source, Symbol
from compilescope.reading.breaks import read_break, read_refusals
from compilescope.reading.buffers import item_bytes
from compilescope.reading.generated import launch_handles, read_code
from compilescope.reading.guards import read_guards
from compilescope.reading.readable import read_graph
from compilescope.reading.stacks import learners_line, read_stack

ENVELOPE = frozenset(
    [
        "rank",
        "compiled_autograd_id",
        "frame_id",
        "frame_compile_id",
        "attempt",
        "has_payload",
        "stack",
        "subgraph_name",
        "severity",
        "timestamp",
        "pathname",
        "lineno",
        "thread",
        "process",
    ]
)
_GRAPH_RECORDS = {
    "dynamo_output_graph": "dynamo",
    "aot_joint_graph": "joint",
    "aot_forward_graph": "forward",
    "aot_backward_graph": "backward",
    "aot_inference_graph": "inference",
}
_CACHES = re.compile(r"^(fx_graph|aotautograd)_cache_(hit|miss|bypass)")
_RESUME = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+$")
_RANGE = re.compile(r"^\w*\[(.+?), (.+?)\]$")


@dataclass
class _Open:
    """One compile while its records come in."""

    compile_id: str
    order: int
    function: str = ""
    file: str = ""
    line: int = 0
    metrics: dict[str, Any] = field(default_factory=dict)
    graphs: dict[str, Graph] = field(default_factory=dict)
    code: list[Code] = field(default_factory=list)
    guards_text: str = ""
    refusals: tuple[Refusal, ...] = ()
    symbols: list[Symbol] = field(default_factory=list)
    breaks: list[GraphBreak] = field(default_factory=list)
    caches: dict[str, str] = field(default_factory=dict)
    provenance: dict[str, tuple[str, ...]] = field(default_factory=dict)
    bytecode_before: str = ""
    bytecode_after: str = ""
    done: bool = False


class Builder:
    """Takes records one by one (`add`), gives compiles, breaks and phases at the end."""

    def __init__(self) -> None:
        self.strings: dict[int, str] = {}
        self.open: dict[str, _Open] = {}
        self.current: dict[str, str] = {}
        self.begun: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        self.phases: list[tuple[dict[str, Any], float]] = []
        self.problems: dict[str, str] = {}

    # ------------------------------------------------------------------ records in
    def add(self, meta: dict[str, Any], payload: str | None) -> None:
        """Take one record. A record that cannot be read is named in `problems`; nothing is raised."""
        key = next((key for key in meta if key not in ENVELOPE), None)
        if key is None:
            return
        try:
            self._add(key, meta[key], meta, payload)
        except Exception as error:  # a torch of tomorrow may print anything
            self.problems[key] = f"torch's record {key} could not be read ({type(error).__name__}: {error})."

    def _add(self, key: str, value: Any, meta: dict[str, Any], payload: str | None) -> None:
        if key == "str":
            text, number = value
            self.strings[number] = text
            return
        if key == "chromium_event":
            self._event(json.loads(payload) if payload else value)
            return
        if meta.get("frame_id") is None:
            return
        name = str(value.get("name")) if key == "artifact" and isinstance(value, dict) else key
        compiled = self._compile(meta, name)
        if handler := self._handler(name):
            handler(compiled, value, payload or "")

    def _compile(self, meta: dict[str, Any], name: str) -> _Open:
        torch_id = f"{meta['frame_id']}/{meta.get('frame_compile_id', 0)}"
        if meta.get("compiled_autograd_id") is not None:
            torch_id = f"!{meta['compiled_autograd_id']}/{torch_id}"
        compile_id = self.current.get(torch_id, torch_id)
        found = self.open.get(compile_id)
        if found is not None and found.done and name == "dynamo_start" and not meta.get("attempt"):
            # torch.compiler.reset() starts the numbers again: a second compile with this id
            number = sum(known.split("#")[0] == torch_id for known in self.open) + 1
            compile_id, found = f"{torch_id}#{number}", None
        if found is None:
            found = self.open[compile_id] = _Open(compile_id, len(self.open))
            self.current[torch_id] = compile_id
        return found

    def _handler(self, name: str) -> Callable[[_Open, Any, str], None] | None:
        if name in _GRAPH_RECORDS:
            return lambda compiled, _, text: self._graph(compiled, _GRAPH_RECORDS[name], text)
        if name == "inductor_post_grad_graph":
            return self._post_grad
        if name.endswith("_ORIGINAL_BYTECODE"):
            return lambda compiled, _, text: setattr(compiled, "bytecode_before", text)
        if name.endswith("_MODIFIED_BYTECODE"):
            return lambda compiled, _, text: setattr(compiled, "bytecode_after", text)
        if match := _CACHES.match(name):
            cache = {"fx_graph": "fx_graph", "aotautograd": "aot_autograd"}[match[1]]
            return lambda compiled, _, __: compiled.caches.__setitem__(cache, match[2])
        return {
            "dynamo_start": self._start,
            "dynamo_graph_break_reason": self._break,
            "recompile_reasons": self._refused,
            "dynamo_cpp_guards_str": self._guards,
            "inductor_output_code": self._code,
            "inductor_provenance_tracking_node_mappings": self._provenance,
            "inductor_provenance_tracking_kernel_stack_traces": self._kernel_stacks,
            "compilation_metrics": self._metrics,
            "create_symbol": self._symbol,
        }.get(name)

    # ------------------------------------------------------------------ one record each
    def _start(self, compiled: _Open, value: Any, _: str) -> None:
        stack = value.get("stack") or []
        if stack:
            last = stack[-1]
            compiled.function = compiled.function or str(last.get("name", ""))
            compiled.file = compiled.file or self.strings.get(last.get("filename"), "")
            compiled.line = compiled.line or int(last.get("line") or 0)

    def _graph(self, compiled: _Open, stage: str, text: str) -> None:
        compiled.graphs[stage] = read_graph(text, stage, compiled.compile_id)

    def _post_grad(self, compiled: _Open, _: Any, text: str) -> None:
        # forward and backward come under one compile id: the forward first
        stage = (
            "post_grad_backward" if "post_grad" in compiled.graphs and "backward" in compiled.graphs else "post_grad"
        )
        self._graph(compiled, stage, text)

    def _break(self, compiled: _Open, _: Any, text: str) -> None:
        compiled.breaks.append(read_break(text, compiled.compile_id))

    def _refused(self, compiled: _Open, _: Any, text: str) -> None:
        compiled.refusals = read_refusals(text)

    def _guards(self, compiled: _Open, _: Any, text: str) -> None:
        compiled.guards_text = text

    def _code(self, compiled: _Open, _: Any, text: str) -> None:
        compiled.code.append(read_code(text, compiled.compile_id))

    def _provenance(self, compiled: _Open, _: Any, text: str) -> None:
        if not compiled.code:
            return
        mapping = json.loads(text)
        post_to_dynamo = {post: tuple(names) for post, names in mapping.get("postToPre", {}).items()}
        compiled.provenance.update(post_to_dynamo)
        of_handle = mapping.get("cppCodeToPost", {})
        code = compiled.code[-1]
        handles = launch_handles(code)
        kernels = []
        for kernel in code.kernels:
            nodes = tuple(dict.fromkeys(n for handle in handles[kernel.name] for n in of_handle.get(handle, ())))
            dynamo = tuple(dict.fromkeys(d for node in nodes for d in post_to_dynamo.get(node, ())))
            kernels.append(dataclasses.replace(kernel, nodes=nodes, dynamo_nodes=dynamo))
        compiled.code[-1] = dataclasses.replace(code, kernels=tuple(kernels))

    def _kernel_stacks(self, compiled: _Open, _: Any, text: str) -> None:
        if not compiled.code:
            return
        stacks = json.loads(text)
        code = compiled.code[-1]
        handles = launch_handles(code)

        def with_sources(kernel: Kernel) -> Kernel:
            printed = [one for handle in handles[kernel.name] for one in stacks.get(handle, ())]
            sources = [source for one in printed if (source := learners_line(read_stack(one)))]
            return dataclasses.replace(kernel, sources=tuple(dict.fromkeys(sources)))

        compiled.code[-1] = dataclasses.replace(code, kernels=tuple(with_sources(k) for k in code.kernels))

    def _metrics(self, compiled: _Open, value: Any, _: str) -> None:
        compiled.metrics = value
        compiled.function = value.get("co_name") or compiled.function
        compiled.file = value.get("co_filename") or compiled.file
        compiled.line = value.get("co_firstlineno") or compiled.line
        compiled.done = True

    def _symbol(self, compiled: _Open, value: Any, _: str) -> None:
        low, high = _range(str(value.get("vr", "")))
        hint = str(value.get("val", ""))
        symbol = Symbol(
            str(value.get("symbol")), str(value.get("source", "")), int(hint) if hint.lstrip("-").isdigit() else None,
            low, high,
        )  # fmt: skip
        # each attempt creates them again
        compiled.symbols = [known for known in compiled.symbols if known.name != symbol.name] + [symbol]

    def _event(self, value: Any) -> None:
        for event in value if isinstance(value, list) else [value]:
            key = (event.get("name"), event.get("tid"), event.get("pid"))
            if event.get("ph") == "B":
                self.begun.setdefault(key, []).append(event)
            elif event.get("ph") == "E" and self.begun.get(key):
                begun = self.begun[key].pop()
                self.phases.append((begun, float(event["ts"])))

    # ------------------------------------------------------------------ facts out
    def compiles(self) -> tuple[Compile, ...]:
        """The compiles in the order they began. A frame that was looked at but not compiled is not among them."""
        return tuple(self._close(found) for found in self.open.values() if found.guards_text or found.graphs)

    def breaks(self) -> tuple[GraphBreak, ...]:
        """The graph breaks in the order Dynamo met them."""
        return tuple(one for found in self.open.values() for one in found.breaks)

    def phase_facts(self, began_us: float) -> tuple[Phase, ...]:
        """The phases, outer before inner, with their start in seconds after `began_us`."""
        spans = sorted(
            ((float(event["ts"]), end, event) for event, end in self.phases), key=lambda span: (span[0], -span[1])
        )
        open_ends: list[float] = []
        phases: list[Phase] = []
        for start, end, event in spans:
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            compile_id = (event.get("args") or {}).get("compile_id")
            phases.append(
                Phase(str(event["name"]), compile_id, (start - began_us) / 1e6, (end - start) / 1e6, len(open_ends))
            )
            open_ends.append(end)
        return tuple(phases)

    def _close(self, found: _Open) -> Compile:
        seconds = found.metrics.get("entire_frame_compile_time_s")
        guards = self._guards_of(found)
        return Compile(
            compile_id=found.compile_id,
            function=found.function,
            file=found.file,
            line=found.line,
            graphs=tuple(found.graphs.values()),
            code=tuple(found.code),
            guards=guards,
            guards_text=found.guards_text.strip(),
            refusals=found.refusals,
            symbols=tuple(found.symbols),
            saved=saved_for_backward(found.graphs.get("forward")),
            provenance=found.provenance,
            caches=found.caches,
            seconds=seconds,
            is_resume=bool(_RESUME.match(found.function)),
            bytecode_before=found.bytecode_before,
            bytecode_after=found.bytecode_after,
            error=str(found.metrics.get("fail_reason") or ""),
        )

    def _guards_of(self, found: _Open) -> tuple[Guard, ...]:
        return read_guards(found.guards_text)


def _range(text: str) -> tuple[int | None, int | None]:
    match = _RANGE.match(text)
    if not match:
        return None, None
    low, high = (int(part) if part.lstrip("-").isdigit() else None for part in match.groups())
    return low, high


def saved_for_backward(forward: Graph | None) -> tuple[Saved, ...]:
    """What the forward graph hands to backward: its outputs that AOTAutograd marks as saved."""
    if forward is None:
        return ()
    noted = _output_notes(forward.text)
    nodes = {node.name: node for node in forward.nodes}
    saved = []
    for name, note in noted:
        node = nodes.get(name)
        if "SavedForBackwards" not in note or node is None or node.shape is None:
            continue
        item = item_bytes(node.dtype or "")
        size: int | None = item
        for one in node.shape:
            size = size * one if size is not None and isinstance(one, int) else None
        saved.append(Saved(name, node.dtype or "", node.shape, size, node.op == "placeholder"))
    return tuple(saved)


_OUTPUT_NOTE = re.compile(r"^\s+(\w+),\s+# (\w+AOTOutput.*)$")


def _output_notes(text: str) -> list[tuple[str, str]]:
    return [(match[1], match[2]) for line in text.splitlines() if (match := _OUTPUT_NOTE.match(line))]


def sources_of(value: object) -> list[Source]:
    """All `Source`s inside a fact, however deep."""
    found: list[Source] = []
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, Source):
            found.append(one)
        elif isinstance(one, (tuple, list)):
            stack.extend(one)
        elif dataclasses.is_dataclass(one):
            stack.extend(getattr(one, part.name) for part in dataclasses.fields(one))
    return found
