"""One observation while it runs: takes events from torch, and gives the facts of a `Run` at the end."""

from __future__ import annotations

import dataclasses
import dis
import inspect
import linecache
import threading
import time
from types import CodeType, FrameType
from typing import Any

from compilescope.facts import NotCompiled, Refusal, Source
from compilescope.reading.breaks import read_guard_failure, read_refusals
from compilescope.reading.build import GRAPH_RECORDS, Builder, record_compile_id, record_name
from compilescope.reading.cells import CellNames, cell_numbers
from compilescope.reading.guards import line_of, read_guards
from compilescope.reading.outcomes import OpenCall, Seen
from compilescope.reading.skips import REMEDIES
from compilescope.reading.stacks import belongs_to_learner, learners_line
from compilescope.torch_internals import entries, functions, fusion, gpu, live_nodes, records
from compilescope.watching_gpu import GpuWatch

_IDS = ("frame_id", "frame_compile_id", "compiled_autograd_id")
_watched_threads: dict[int, int] = {}
_count_lock = threading.Lock()


class Watch:
    """Listens from `begin` to `end`. An event of a thread that has a watch of its own is left to that one."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.began = time.time()
        self.entered = time.perf_counter()
        self.records: list[tuple[dict[str, Any], str | None, list[live_nodes.NodeFacts]]] = []
        self.calls: list[OpenCall] = []
        self.local = threading.local()
        self.actual: dict[tuple[str, str], str] = {}
        self.lines: dict[tuple[str, str], Source] = {}
        self.missing: dict[str, str] = {}
        self.cell_numbers: dict[str, int] = {}
        self.gpu = GpuWatch(self._mine)

    def begin(self) -> None:
        """From now on this thread's events come here."""
        with _count_lock:
            _watched_threads[self.thread] = _watched_threads.get(self.thread, 0) + 1
        self.gpu.begin()

    def end(self) -> None:
        """No more events."""
        with _count_lock:
            _watched_threads[self.thread] -= 1
            if not _watched_threads[self.thread]:
                del _watched_threads[self.thread]
        self.gpu.end(self.records)
        self.cell_numbers = cell_numbers()  # of now: a cell that is run again gets another number

    def _mine(self) -> bool:
        thread = threading.get_ident()
        return thread == self.thread or thread not in _watched_threads

    def _open(self) -> list[tuple[int, OpenCall, dict[str, Any]]]:
        if not hasattr(self.local, "open"):
            self.local.open, self.local.refused = [], []
        return self.local.open  # type: ignore[no-any-return]

    def problem(self, event: str, error: BaseException) -> None:
        """An event could not be read: a fact is missing."""
        self.missing[event] = f"{type(error).__name__} while reading this from torch: {error}"

    # ------------------------------------------------------------------ events
    def record(self, meta: dict[str, Any], payload: str | None) -> None:
        """A record of the structured trace."""
        if not self._mine():
            return
        try:
            name = record_name(meta)
            if name == "inductor_post_grad_graph":
                fusion.attach()
                gpu.attach()
            live = live_nodes.of_graphs_being_traced() if name in GRAPH_RECORDS else []
            self.records.append((meta, payload, live))
            compile_id, stack = record_compile_id(meta), self._open()
            if stack and compile_id and name in ("dynamo_start", "recompile_reasons", "compilation_metrics"):
                call = stack[-1][1]
                if compile_id not in call.compile_ids:
                    call.compile_ids.append(compile_id)
            if name in ("dynamo_start", "recompile_reasons"):
                self.local.ids = {key: meta[key] for key in _IDS if key in meta}
            if name == "recompile_reasons" and payload and compile_id:
                self.local.refused.append((compile_id, payload))
        except Exception as error:
            self.problem("records", error)

    def not_fused(self, facts: dict[str, Any]) -> None:
        """Inductor's scheduler looked at two neighbors and left them apart."""
        if self._mine():
            ids = {name: facts.pop(name) for name in ("frame_id", "frame_compile_id")}
            self.records.append(({"not_fused": facts, **ids}, None, []))

    def call_begins(self, call: dict[str, Any]) -> None:
        """A compiled function is called."""
        if not self._mine():
            return
        gpu.attach()
        stance = "" if call["compiles"] else functions.stance()
        opened = OpenCall(functions.readable_name(call["fn"]), learners_frame(call["frame"].f_back), stance)
        self.calls.append(opened)
        self._open().append((call["key"], opened, call))
        opened.began = time.perf_counter()

    def call_ends(self, key: int, raised: bool) -> None:
        """The call is over: a call that gave up is asked which guards refused."""
        stack = self._open()
        if not stack or stack[-1][0] != key:
            return
        _, opened, call = stack.pop()
        opened.end(raised)
        if opened.misses and not opened.compile_ids:
            found = functions.code_and_locals(call["fn"], call["args"], call["kwargs"])
            if found:
                answers = entries.verdicts(*found)
                cells = CellNames(cell_numbers())
                opened.refusals = refusals_of(answers, found[1], globals_of(call["fn"]), cells, found[0])

    def disabled_call(self, fn: Any, frame: FrameType) -> None:
        """A function under ``torch.compiler.disable`` is called inside a compiled one."""
        code = getattr(fn, "__code__", None)
        if not self._mine() or code is None or not belongs_to_learner(code.co_filename) or not self._open():
            return
        name = functions.readable_name(fn)
        where = source_of_code(code)
        fact = NotCompiled(name, "torch.compiler.disable is on it.", REMEDIES["disabled"], where, "disabled")
        self._open()[-1][1].disabled.append(fact)

    def frame_begins(self, frame: Any) -> None:
        """Dynamo starts to look at a frame."""
        if self._mine():
            self._open()
            self.local.refused, self.local.ids = [], None

    def frame_ends(self, frame: Any, facts: dict[str, Any]) -> None:
        """Dynamo has looked at a frame."""
        gpu.attach()
        if not self._mine():
            return
        code = frame.f_code
        shown = functions.readable_frame(code, frame.f_locals)
        if ids := getattr(self.local, "ids", None):
            told = {"name": shown, "backend": facts["backend"], "before": code, "after": facts["new_code"]}
            self.records.append(({"frame_seen": told, **ids}, None, []))
        self._ask_of_refusals(frame)
        if self._open():
            seen = Seen(
                shown,
                source_of_code(code),
                facts["compiled"],
                str(facts["skip_reason"] or ""),
                bool(code.co_flags & inspect.CO_GENERATOR),
                belongs_to_learner(code.co_filename),
                type(facts["error"]).__name__ if facts["error"] is not None else "",
            )
            self._open()[-1][1].frames.append(seen)

    def _ask_of_refusals(self, frame: Any) -> None:
        """What the refused values are now, and which lines made torch guard them."""
        for compile_id, payload in getattr(self.local, "refused", ()):
            for refusal in read_refusals(payload):
                if refusal.actual is None and refusal.subject:
                    value = entries.value_of(refusal.subject, dict(frame.f_locals), frame.f_globals)
                    if value is not None:
                        self.actual[compile_id, refusal.expression] = value
                if refusal.source is None and (line := guarded_line(refusal, frame.f_code)):
                    self.lines[compile_id, refusal.expression] = line

    def lookup(self, hit: bool) -> None:
        """A function with cached entries is called."""
        if self._mine() and self._open():
            call = self._open()[-1][1]
            call.hits += hit
            call.misses += not hit

    # ------------------------------------------------------------------ facts
    def completed(self, compile_id: str, refusal: Refusal, cells: CellNames) -> Refusal:
        """The refusal with the value that its guard met, and the line that made torch guard it."""
        key = compile_id, refusal.expression
        if refusal.source is None and (line := self.lines.get(key)):
            refusal = dataclasses.replace(refusal, source=dataclasses.replace(line, file=cells.file(line.file)))
        return refusal if refusal.actual is not None else dataclasses.replace(refusal, actual=self.actual.get(key))

    def built(self, cells: CellNames) -> Builder:
        """All records, read."""
        builder = Builder()
        builder.strings = {number: cells.file(text) for number, text in records.interned_strings().items()}
        for meta, payload, live in self.records:
            for side in ("before", "after") if "frame_seen" in meta else ():
                code = meta["frame_seen"][side]
                meta["frame_seen"][side] = dis.Bytecode(code).dis() if code is not None else ""
            for graph in live:
                for known in graph.values():
                    known["stack"] = cells.text(known["stack"])
            builder.add(cells.record(meta), cells.text(payload) if payload else payload, live)
        self.records.clear()
        self.missing.update(builder.problems)
        return builder


def learners_frame(frame: FrameType | None) -> Source | None:
    """The innermost line of the learner's on the stack."""
    while frame is not None:
        file = frame.f_code.co_filename
        if belongs_to_learner(file):
            text = linecache.getline(file, frame.f_lineno).strip()
            return Source(file, frame.f_lineno, frame.f_code.co_name, text)
        frame = frame.f_back
    return None


def source_of_code(code: Any) -> Source:
    """Where a function is defined."""
    text = linecache.getline(code.co_filename, code.co_firstlineno).strip()
    return Source(code.co_filename, code.co_firstlineno, code.co_name, text)


def globals_of(fn: Any) -> dict[str, Any]:
    """The module globals that the learner's function sees."""
    inner = functions.innermost(fn)
    inner = getattr(inner, "forward", inner)
    return getattr(getattr(inner, "__func__", inner), "__globals__", {})


def _frame(frame: dict[str, Any], cells: CellNames) -> Source:
    file = cells.file(str(frame["filename"]))
    return Source(file, int(frame["line"] or 0), str(frame["name"]), str(frame["loc"] or "").strip())


def guarded_line(refusal: Refusal, code: CodeType) -> Source | None:
    """The line of the function with this code that made torch guard what refused; None if it is none of them."""
    if not refusal.subject:
        return None
    line = line_of(
        refusal.subject, read_guards(entries.guard_trees(code).get(refusal.compile_id, ""), {code.co_filename})
    )
    return line if line and line.file == code.co_filename else None


def refusals_of(
    verdicts: list[dict[str, Any]],
    values: dict[str, Any],
    module_globals: dict[str, Any],
    cells: CellNames,
    code: CodeType,
) -> tuple[Refusal, ...]:
    """For each cached entry that does not accept these local variables: the guard that refuses."""
    refusals = []
    for verdict in verdicts:
        for expression in verdict["failed"]:
            if len(verdict["failed"]) > 1 and entries.holds(expression, values, module_globals):
                continue
            refusal = read_guard_failure(verdict["compile_id"], cells.text(expression))
            if line := learners_line(tuple(_frame(frame, cells) for frame in verdict["stack"])):
                refusal = dataclasses.replace(refusal, source=line)
            elif line := guarded_line(refusal, code):
                refusal = dataclasses.replace(refusal, source=dataclasses.replace(line, file=cells.file(line.file)))
            if refusal.actual is None and refusal.subject:
                actual = entries.value_of(refusal.subject, values, module_globals)
                refusal = dataclasses.replace(refusal, actual=actual)
            refusals.append(refusal)
    return tuple(refusals)
