"""The facts of a compile that happened elsewhere: from the folder that torch writes with ``TORCH_TRACE=folder``."""

from __future__ import annotations

import dataclasses
import json
import linecache
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compilescope.facts import Compile, Origin, Run, Source
from compilescope.reading.build import Builder, record_name
from compilescope.reading.cells import CellNames
from compilescope.reading.finish import sources_of
from compilescope.reading.stacks import belongs_to_learner
from compilescope.reading.trace_file import TraceFile

NOT_IN_A_TRACE = {
    "calls": "A trace holds what was compiled, not each call: observe the calls where they happen.",
    "not_fused": "torch writes why kernels were not fused to TORCH_LOGS=fusion only, not to a trace.",
    "module": "A trace does not say which nn.Module a node was called in.",
}
"""Fact to the reason why no trace can give it."""
_WHOLE = re.compile(r"[/\\<]|[A-Za-z]:|cell ")
"""The beginning of a whole file name: guards print only the end of some library files."""
_GPU = re.compile(r"# GPU Hardware Info:\s*\n# (.+?) : \d+")


def from_trace(folder: str | Path, rank: int | None = None) -> Run:
    """The facts of one process from a folder written with ``TORCH_TRACE=folder``; also from one file of it.

    Args:
        folder: what TORCH_TRACE named when the program ran. ``INDUCTOR_PROVENANCE=1`` beside it adds which nodes each
            kernel computes.
        rank: which process of several; without it the lowest one.

    A trace that is cut off or damaged gives the facts so far, and `Run.notes` says so.
    ValueError, with what to do, if there is no trace or no such rank.
    """
    runs = every_rank(folder)
    ranks = [run.origin.rank for run in runs]
    if rank is None:
        chosen = runs[0]
    elif rank in ranks:
        chosen = runs[ranks.index(rank)]
    else:
        known = ", ".join(str(one) for one in ranks if one is not None) or "none: one process wrote it"
        raise ValueError(f"{folder} has no trace of rank {rank}; its ranks are {known}.")
    if len(runs) == 1:
        return chosen
    name = "this one" if chosen.origin.rank is None else f"rank {chosen.origin.rank}"
    return dataclasses.replace(chosen, notes=(*chosen.notes, f"{folder} holds {len(runs)} processes; this is {name}."))


def every_rank(folder: str | Path) -> tuple[Run, ...]:
    """One `Run` for each process that wrote into the folder, by rank. ValueError if none did."""
    files = [TraceFile(path) for path in _files(Path(folder))]
    processes = [_Process.of(file) for file in files]
    compiled = [one for one in processes if one.builder.opened] or processes[:1]
    compiled.sort(key=lambda one: (one.rank if one.rank is not None else -1, one.began_us, one.file.path.name))
    runs = [one.run() for one in compiled]
    return _with_differences(runs) if len(runs) > 1 else tuple(runs)


def _files(folder: Path) -> list[Path]:
    remedy = "TORCH_TRACE=folder has to be set when the program that compiles is started."
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise ValueError(f"There is no folder {folder}. {remedy}")
    files = sorted(path for path in folder.rglob("*.log") if path.is_file())
    if not files:
        raise ValueError(f"{folder} holds no trace: no file in it ends in .log. {remedy}")
    return files


@dataclass
class _Process:
    """What one file of a trace told."""

    file: TraceFile
    builder: Builder = field(default_factory=Builder)
    cells: CellNames = field(default_factory=lambda: CellNames({}, lambda _: ""))
    rank: int | None = None
    began_us: float = 0.0
    torch: str = ""
    python: str = ""
    triton: str | None = None
    device: str = ""

    @staticmethod
    def of(file: TraceFile) -> _Process:
        process = _Process(file, rank=file.rank)
        for meta, text in file.records():
            process._look(meta, text)
            process.builder.add(process.cells.record(meta), process.cells.text(text) if text else text)
        return process

    def _look(self, meta: dict[str, Any], text: str | None) -> None:
        """Take what tells of the process itself rather than of one compile."""
        if isinstance(meta.get("rank"), int):
            self.rank = meta["rank"]
        match record_name(meta):
            case "compilation_metrics":
                metrics = meta["compilation_metrics"]
                self.torch = self.torch or str(metrics.get("pytorch_version") or "")
                self.python = self.python or str(metrics.get("python_version") or "").split(" ")[0]
                self.triton = self.triton or metrics.get("triton_version") or None
            case "chromium_event" if not self.began_us:
                self.began_us = _first_time(text)
            case "fx_graph_runnable" if text and not self.device:
                if match := _GPU.search(text):
                    self.device = match[1]

    def run(self) -> Run:
        """The facts."""
        texts = _Texts()
        compiles, breaks = self.builder.compiles(), self.builder.breaks()
        texts.know(sources_of((compiles, breaks)))
        not_compiled = tuple(fact for _, fact in self.builder.not_compiled(texts.of))
        files = {source.file for source in sources_of((compiles, breaks, not_compiled)) if _WHOLE.match(source.file)}
        notes = self.file.troubles()
        if not compiles and self.file.read:
            notes = (*notes, "0 graphs: nothing was compiled while this trace was written.")
        return Run(
            origin=self._origin(compiles),
            compiles=compiles,
            breaks=breaks,
            not_compiled=not_compiled,
            phases=self.builder.phases(self.began_us),
            sources={file: texts.of(file) for file in sorted(files) if belongs_to_learner(file) and texts.of(file)},
            missing={**NOT_IN_A_TRACE, **_without_provenance(compiles), **self.builder.problems},
            notes=(*notes, *texts.notes()),
        )

    def _origin(self, compiles: tuple[Compile, ...]) -> Origin:
        devices = {n.device for one in compiles for graph in one.graphs for n in graph.nodes if n.device}
        kinds = sorted({device.split(":")[0] for device in devices} - {"cpu", "meta"})
        device = self.device if kinds and self.device else (kinds[0].upper() if kinds else "CPU")
        date = time.strftime("%Y-%m-%d", time.gmtime(self.began_us / 1e6)) if self.began_us else ""
        return Origin("trace", device, self.torch or "unknown", self.triton, self.python, date, rank=self.rank)


class _Texts:
    """Texts of the learner's files: read here if it is the same file, else the lines that the trace itself quotes."""

    def __init__(self) -> None:
        self.quoted: dict[str, dict[int, str]] = {}
        self.known: dict[str, str] = {}
        self.pieces: set[str] = set()

    def know(self, sources: Iterable[Source]) -> None:
        """Take note of the lines that these sources quote."""
        for source in sources:
            if source.code and source.line > 0:
                self.quoted.setdefault(source.file, {})[source.line] = source.code

    def of(self, file: str) -> str:
        """The file's text; empty if nothing is known of it."""
        if file not in self.known:
            self.known[file] = self._here(file) or self._from_quotes(file)
        return self.known[file]

    def _here(self, file: str) -> str:
        if not Path(file).is_absolute():
            return ""
        lines = linecache.getlines(file)
        quoted = self.quoted.get(file, {})
        same = all(number <= len(lines) and lines[number - 1].strip() == text for number, text in quoted.items())
        return "".join(lines) if lines and same else ""

    def _from_quotes(self, file: str) -> str:
        quoted = self.quoted.get(file)
        if not quoted:
            return ""
        self.pieces.add(file)
        return "\n".join(quoted.get(number, "") for number in range(1, max(quoted) + 1)) + "\n"

    def notes(self) -> tuple[str, ...]:
        """Which files are shown in pieces."""
        names = sorted(Path(file).name for file in self.pieces if belongs_to_learner(file) and _WHOLE.match(file))
        if not names:
            return ()
        return (f"{', '.join(names)}: not on this machine as it was then; only the lines that the trace quotes.",)


def _first_time(text: str | None) -> float:
    try:
        events = json.loads(text or "{}")
    except ValueError:
        return 0.0
    event = events[0] if isinstance(events, list) and events else events
    return float(event.get("ts") or 0.0) if isinstance(event, dict) else 0.0


def _without_provenance(compiles: tuple[Compile, ...]) -> dict[str, str]:
    code = [module for one in compiles for module in one.code if module.kernels]
    mapped = {module.which for module in code if any(kernel.nodes for kernel in module.kernels)}
    if not code or {module.which for module in code} == mapped:
        return {}
    if not mapped:
        return {
            "kernel nodes": "A trace holds which nodes a kernel computes only with INDUCTOR_PROVENANCE=1 beside it."
        }
    reason = (
        "torch maps the kernels of a backward that is compiled later, at .backward(), to their lines, not to nodes."
    )
    return {"kernel nodes of backward": reason}


def _with_differences(runs: list[Run]) -> tuple[Run, ...]:
    """Ranks that compiled something else than the first rank: the usual cause of a job that hangs in a collective."""
    told = [[(one.function, len(one.refusals)) for one in run.compiles] for run in runs]
    first = runs[0].origin.rank
    if first is None or all(one == told[0] for one in told):
        return tuple(runs)
    others = [str(run.origin.rank) for run, one in zip(runs, told, strict=True) if one != told[0]]
    counts = ", ".join(f"rank {run.origin.rank}: {len(run.compiles)}" for run in runs[:16])
    note = f"Ranks compiled different things than rank {first}: {', '.join(others)} (compiles: {counts})."
    return tuple(dataclasses.replace(run, notes=(*run.notes, note)) for run in runs)
