"""Records of torch's structured trace, put together into the parts of a `Run`.

A record is a dictionary with one payload key (``dynamo_output_graph``…) plus the frame it belongs to, and a text.
The same records come from a live compile and from a ``TORCH_TRACE`` file.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from compilescope.facts import Compile, GraphBreak, Kernel, NotCompiled, Phase, Refusal, Symbol
from compilescope.reading.breaks import is_numbered, read_break, read_failure, read_refusals
from compilescope.reading.finish import close, link_breaks, skipped_frames
from compilescope.reading.generated import launch_handles, read_code, with_loaded
from compilescope.reading.machine_code import with_cpp_cache
from compilescope.reading.opened import Opened
from compilescope.reading.origins import NodeFacts
from compilescope.reading.readable import read_graph
from compilescope.reading.stacks import learners_line, read_frames, read_stack

ENVELOPE = frozenset(
    {"rank", "compiled_autograd_id", "frame_id", "frame_compile_id", "attempt", "has_payload", "stack"}
    | {"subgraph_name", "severity", "timestamp", "pathname", "lineno", "thread", "process"}
)
GRAPH_RECORDS = {
    "dynamo_output_graph": "dynamo",
    "aot_joint_graph": "joint",
    "aot_forward_graph": "forward",
    "aot_backward_graph": "backward",
    "aot_inference_graph": "inference",
    "inductor_post_grad_graph": "post_grad",
}
"""Record, or name of an artifact, to the stage of the graph that it prints."""
_CACHES = re.compile(r"^(fx_graph|aotautograd)_cache_(hit|miss|bypass)")
_RANGE = re.compile(r"^\w*\[(.+?), (.+?)\]$")
_FIXED = re.compile(r"^Eq\((\w+), (\d+)\)$|^(\w+) == (\d+)$")


def record_name(meta: dict[str, Any]) -> str | None:
    """The payload key of a record; for an artifact, the artifact's name."""
    key = next((key for key in meta if key not in ENVELOPE), None)
    if key == "artifact" and isinstance(meta[key], dict):
        return str(meta[key].get("name"))
    return key


def record_compile_id(meta: dict[str, Any]) -> str | None:
    """``0/1`` as torch numbers the compile that the record belongs to; None for a record of no compile."""
    if meta.get("frame_id") is None:
        return None
    torch_id = f"{meta['frame_id']}/{meta.get('frame_compile_id', 0)}"
    autograd = meta.get("compiled_autograd_id")
    return torch_id if autograd is None else f"!{autograd}/{torch_id}"


class Builder:
    """Takes records one by one (`add`), gives compiles, breaks, skipped frames and phases at the end."""

    def __init__(self) -> None:
        self.strings: dict[int, str] = {}
        self.opened: dict[str, Opened] = {}
        self.current: dict[str, str] = {}
        self.begun: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        self.phase_spans: list[tuple[dict[str, Any], float]] = []
        self.problems: dict[str, str] = {}
        self.live: Iterable[NodeFacts] = ()

    # ------------------------------------------------------------------ records in
    def add(self, meta: dict[str, Any], payload: str | None, live: Iterable[NodeFacts] = ()) -> str | None:
        """Take one record, with what the live graph's nodes know (`live`) where there is one.

        Gives the compile id that the record went to. A record that cannot be read is named in `problems`.
        """
        name = record_name(meta)
        if name is None:
            return None
        self.live = live
        try:
            return self._add(name, meta, payload)
        except Exception as error:  # a torch of tomorrow may print anything
            self.problems[name] = f"torch's record {name} could not be read ({type(error).__name__}: {error})."
            return None

    def _add(self, name: str, meta: dict[str, Any], payload: str | None) -> str | None:
        if name == "str":
            text, number = meta[name]
            self.strings[number] = text
            return None
        if name == "chromium_event":
            self._event(json.loads(payload) if payload else meta[name])
            return None
        torch_id = record_compile_id(meta)
        if torch_id is None:
            return None
        compiled = self._compile(torch_id, name, meta)
        compiled.attempts = max(compiled.attempts, int(meta.get("attempt") or 0) + 1)
        if handler := self._handler(name):
            handler(compiled, meta.get(name), payload or "")
        return compiled.compile_id

    def _compile(self, torch_id: str, name: str, meta: dict[str, Any]) -> Opened:
        compile_id = self.current.get(torch_id, torch_id)
        found = self.opened.get(compile_id)
        if found is not None and found.done and name == "dynamo_start" and not meta.get("attempt"):
            # torch.compiler.reset() starts the numbers again: a second compile with this id
            number = sum(known.split("#")[0] == torch_id for known in self.opened) + 1
            compile_id, found = f"{torch_id}#{number}", None
        if found is None:
            found = self.opened[compile_id] = Opened(compile_id)
            self.current[torch_id] = compile_id
        return found

    def _handler(self, name: str) -> Callable[[Opened, Any, str], None] | None:
        if name in GRAPH_RECORDS:
            return lambda compiled, _, text: self._graph(compiled, GRAPH_RECORDS[name], text)
        if name.endswith("_ORIGINAL_BYTECODE") or name.endswith("ORIGINAL BYTECODE"):
            return lambda compiled, _, text: setattr(compiled, "bytecode_before", text)
        if name.endswith("_MODIFIED_BYTECODE") or name.endswith("MODIFIED BYTECODE"):
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
            "frame_seen": self._seen,
            "not_fused": lambda compiled, value, _: compiled.not_fused.append((len(compiled.code), value)),
            "create_symbol": self._symbol,
            "guard_added_fast": self._shape_guard,
            "guard_added": self._shape_guard,
        }.get(name)

    # ------------------------------------------------------------------ one record each
    def _start(self, compiled: Opened, value: Any, _: str) -> None:
        stack = value.get("stack") or []
        if stack:
            last = stack[-1]
            compiled.function = compiled.function or str(last.get("name", ""))
            compiled.file = compiled.file or self.strings.get(last.get("filename"), "")
            compiled.line = compiled.line or int(last.get("line") or 0)

    def _seen(self, compiled: Opened, value: Any, _: str) -> None:
        compiled.shown, compiled.backend = value["name"], value["backend"]
        compiled.bytecode_before, compiled.bytecode_after = value["before"], value["after"]

    def _graph(self, compiled: Opened, stage: str, text: str) -> None:
        if stage == "post_grad" and "post_grad" in compiled.graphs and "backward" in compiled.graphs:
            stage = "post_grad_backward"  # both come under one name, the forward first
        compiled.begin_graph(stage)
        graph = read_graph(text, stage, compiled.compile_id)
        compiled.graphs[stage] = compiled.origins.join(graph, self.live)

    def _break(self, compiled: Opened, _: Any, text: str) -> None:
        found = read_break(text, compiled.compile_id)
        if found.reason:
            compiled.breaks.append(found)
        compiled.gave_up = compiled.gave_up or "Skipping the function" in text or "results in a skip" in text

    def _refused(self, compiled: Opened, _: Any, text: str) -> None:
        compiled.refusals = read_refusals(text)

    def _guards(self, compiled: Opened, _: Any, text: str) -> None:
        compiled.guards_text = text

    def _code(self, compiled: Opened, value: Any, text: str) -> None:
        code = read_code(text, compiled.compile_id)
        if isinstance(value, dict) and (loaded := value.get("loaded")):
            code = with_loaded(code, loaded)
        compiled.add_code(code)

    def _provenance(self, compiled: Opened, _: Any, text: str) -> None:
        mapping = json.loads(text)
        post_to_dynamo = {post: tuple(names) for post, names in mapping.get("postToPre", {}).items()}
        for post, names in post_to_dynamo.items():
            compiled.provenance.setdefault(post, names)
        of_handle = mapping.get("cppCodeToPost", {})

        def with_nodes(kernel: Kernel, handles: tuple[str, ...]) -> Kernel:
            nodes = tuple(dict.fromkeys(node for handle in handles for node in of_handle.get(handle, ())))
            dynamo = tuple(dict.fromkeys(name for node in nodes for name in post_to_dynamo.get(node, ())))
            return dataclasses.replace(kernel, nodes=nodes, dynamo_nodes=dynamo)

        self._each_kernel(compiled, with_nodes)

    def _kernel_stacks(self, compiled: Opened, _: Any, text: str) -> None:
        stacks = json.loads(text)

        def with_sources(kernel: Kernel, handles: tuple[str, ...]) -> Kernel:
            printed = [one for handle in handles for one in stacks.get(handle, ())]
            sources = [source for one in printed if (source := learners_line(read_stack(one)))]
            return dataclasses.replace(kernel, sources=tuple(dict.fromkeys(sources)))

        self._each_kernel(compiled, with_sources)

    def _each_kernel(self, compiled: Opened, change: Callable[[Kernel, tuple[str, ...]], Kernel]) -> None:
        """Change the kernels of the code that was generated last: these records follow it."""
        if compiled.code:
            code = compiled.code[-1]
            handles = launch_handles(code)
            kernels = tuple(change(kernel, handles[kernel.name]) for kernel in code.kernels)
            compiled.code[-1] = dataclasses.replace(code, kernels=kernels)

    def _metrics(self, compiled: Opened, value: Any, _: str) -> None:
        compiled.metrics = value
        compiled.function = value.get("co_name") or compiled.function
        compiled.file = value.get("co_filename") or compiled.file
        compiled.line = value.get("co_firstlineno") or compiled.line
        compiled.done = True
        numbered = value.get("fail_type") == "Unsupported" or is_numbered(str(value.get("fail_reason") or ""))
        if numbered and not compiled.breaks:
            compiled.breaks.append(read_failure(value, compiled.compile_id))

    def _symbol(self, compiled: Opened, value: Any, _: str) -> None:
        low, high = _range(str(value.get("vr", "")))
        hint = _integer(str(value.get("val", "")))
        # each attempt creates them again
        name = str(value.get("symbol"))
        compiled.symbols[name] = Symbol(name, str(value.get("source", "")), hint, low, high)

    def _shape_guard(self, compiled: Opened, value: Any, _: str) -> None:
        match = _FIXED.match(str(value.get("expr", "")))
        if not match:
            return
        name, number = (match[1], match[2]) if match[1] else (match[3], match[4])
        if name in compiled.symbols:
            frames = read_frames(value.get("user_stack") or value.get("stack") or [], self.strings)
            compiled.symbols[name] = dataclasses.replace(
                compiled.symbols[name], specialized_to=int(number), specialized_by=learners_line(frames)
            )

    def _event(self, value: Any) -> None:
        for event in value if isinstance(value, list) else [value]:
            key = (event.get("name"), event.get("tid"), event.get("pid"))
            if event.get("ph") == "B":
                self.begun.setdefault(key, []).append(event)
            elif event.get("ph") == "E" and self.begun.get(key):
                self.phase_spans.append((self.begun[key].pop(), float(event["ts"])))

    # ------------------------------------------------------------------ facts out
    def compiles(self) -> tuple[Compile, ...]:
        """The compiles in the order they began. A frame that was looked at but not compiled is not among them."""
        compiles = tuple(self._closed(found) for found in self.opened.values() if found.is_entry)
        return with_cpp_cache(compiles, self.phases(0.0))

    def _closed(self, found: Opened) -> Compile:
        try:
            return close(found)
        except Exception as error:
            self.problems[found.compile_id] = f"{type(error).__name__} while this compile was put together: {error}"
            return Compile(found.compile_id, found.name, found.file, found.line, found.backend)

    def refused(self) -> dict[str, tuple[Refusal, ...]]:
        """Compile id, also of a compile that was given up at the limit, to why the cached entries did not do."""
        return {found.compile_id: found.refusals for found in self.opened.values() if found.refusals}

    def breaks(self) -> tuple[GraphBreak, ...]:
        """The graph breaks in the order Dynamo met them, with the compiles on their two sides."""
        return link_breaks(list(self.opened.values()))

    def not_compiled(self, text_of: Callable[[str], str]) -> tuple[tuple[str, NotCompiled], ...]:
        """Compile id and fact of each frame that was given up; `text_of` gives the text of a file."""
        return skipped_frames(list(self.opened.values()), text_of)

    def phases(self, began_us: float) -> tuple[Phase, ...]:
        """The phases, outer before inner, with their start in seconds after `began_us`."""
        spans = [(float(event["ts"]), end, event) for event, end in self.phase_spans]
        spans.sort(key=lambda span: (span[0], -span[1]))
        open_ends: list[float] = []
        phases: list[Phase] = []
        for start, end, event in spans:
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            told = (event.get("args") or {}).get("compile_id")
            compile_id = None if told == "None" else told  # what runs in a thread of its own
            name = str(event["name"])
            phases.append(Phase(name, compile_id, (start - began_us) / 1e6, (end - start) / 1e6, len(open_ends)))
            open_ends.append(end)
        return tuple(phases)


def _range(text: str) -> tuple[int | None, int | None]:
    match = _RANGE.match(text)
    return (_integer(match[1]), _integer(match[2])) if match else (None, None)


def _integer(text: str) -> int | None:
    return int(text) if text.lstrip("-").isdigit() else None
