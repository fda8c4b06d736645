"""The part of an observation that is about a GPU: what was timed, CUDA graphs, loaded binaries, memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from compilescope.facts import NO_GPU, Autotuning, Choice, CudaGraphs, GraphSkip
from compilescope.reading.cells import CellNames
from compilescope.reading.stacks import learners_line, read_stack
from compilescope.torch_internals import gpu

_NEEDS_GPU = ("registers", "cuda_graphs", "peak_memory_bytes")
_HIDDEN_PEAK = (
    "Tensors held more at once before this block than in it, and torch keeps the highest number only: "
    "call torch.cuda.reset_peak_memory_stats() before the block."
)
_RESET_PEAK = "The block reset torch's peak itself: torch.cuda.max_memory_allocated() has what came after."


class GpuWatch:
    """Listens from `begin` to `end`; `mine` says whether an event's thread is to be heard."""

    def __init__(self, mine: Callable[[], bool]) -> None:
        self.mine = mine
        self.there = torch.cuda.is_available()
        self.before = self.after = (0, 0)
        self.algorithms: list[dict[str, Any]] = []
        self.timed: dict[int, list[dict[str, Any]]] = {}
        self.chosen: dict[int, list[str]] = {}
        self.graphs = {"warmed_up": 0, "recorded": 0, "replayed": 0}
        self.skips: list[str] = []
        self.missing: dict[str, str] = {}

    def begin(self) -> None:
        """Remember what tensors hold now, and the most they ever held."""
        self.before = self._memory()

    def _memory(self) -> tuple[int, int]:
        """Bytes that tensors hold on the current device, and the most they held; read, never reset."""
        return (torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()) if self.there else (0, 0)

    def event(self, name: str, facts: dict[str, Any]) -> None:
        """Something happened: see `gpu.listen`."""
        if not self.mine():
            return
        if name == "algorithm":
            self.algorithms.append(facts)
        elif name == "configuration" and facts:
            self.timed.setdefault(facts["key"], []).append(facts)
        elif name == "graph":
            self.graphs[facts["what"]] += 1
        elif name == "graph_skip" and facts["reason"] not in self.skips:
            self.skips.append(facts["reason"])
        elif name == "missing":
            self.missing[facts["fact"]] = facts["reason"]

    def end(self, records: list[tuple[dict[str, Any], Any, Any]]) -> None:
        """Read what is in use now; each record of generated code gets its kernels' binaries, as ``loaded``."""
        try:
            self.after = self._memory()
            self.chosen = {key: timed[-1]["chosen"]() for key, timed in self.timed.items()}
            for meta, _, _ in records:
                if reason := (meta.get("compilation_metrics") or {}).get("cudagraph_skip_reason"):
                    self.event("graph_skip", {"reason": str(reason)})
            if self.there:
                self._add_loaded(records)
        except Exception as error:
            self.missing["registers"] = f"{type(error).__name__} while this was read from torch: {error}"

    def _add_loaded(self, records: list[tuple[dict[str, Any], Any, Any]]) -> None:
        code = [one for meta, _, _ in records if isinstance(one := meta.get("inductor_output_code"), dict)]
        loaded = gpu.loaded_kernels({str(one.get("filename")) for one in code})
        for one in code:
            one["loaded"] = loaded.get(str(one.get("filename")), {})

    # ------------------------------------------------------------------ facts
    def facts(self, cells: CellNames) -> dict[str, Any]:
        """``autotuning``, ``cuda_graphs``, ``peak_memory_bytes``; why one is None goes to `missing`."""
        if not self.there:
            self.missing.update(dict.fromkeys(_NEEDS_GPU, NO_GPU))
        return {
            "autotuning": (*map(_algorithm, self.algorithms), *self._configurations()),
            "cuda_graphs": self._graphs(cells) if self.there else None,
            "peak_memory_bytes": self._peak() if self.there else None,
        }

    def _peak(self) -> int | None:
        (held, earlier), (_, peak) = self.before, self.after
        if peak > earlier or earlier == held:
            return peak - held if peak >= earlier else None
        self.missing["peak_memory_bytes"] = _HIDDEN_PEAK if peak == earlier else _RESET_PEAK
        return None

    def _graphs(self, cells: CellNames) -> CudaGraphs:
        return CudaGraphs(**self.graphs, skipped=tuple(read_skip(cells.text(reason)) for reason in self.skips))

    def _configurations(self) -> list[Autotuning]:
        found = []
        for key, timed in self.timed.items():
            first, chosen = timed[0], self.chosen.get(key, [])
            if first["kernel"] == "triton_" or len({one["name"] for one in timed}) < 2:
                continue  # a kernel that Inductor wrote only to time a fusion, or nothing to choose from
            choices = [Choice(one["name"], _us(one["time_ms"]), "", one["registers"], one["spills"]) for one in timed]
            taken = chosen[0] if len(chosen) == 1 else ""
            found.append(Autotuning("configuration", first["kernel"], _sorted(choices), taken, first["compile_id"]))
        return found


def _algorithm(facts: dict[str, Any]) -> Autotuning:
    choices = _sorted([Choice(name, _us(time), details) for name, time, details in facts["choices"]])
    taken = choices[0].name if choices and choices[0].time_us is not None else ""
    subject = f"{facts['name']} {', '.join(facts['sizes'])}"
    return Autotuning("algorithm", subject, choices, taken, facts["compile_id"])


def _us(milliseconds: Any) -> float | None:
    """Microseconds; None for a candidate that torch gave no finite time."""
    return float(milliseconds) * 1e3 if math.isfinite(milliseconds) else None


def _sorted(choices: list[Choice]) -> tuple[Choice, ...]:
    return tuple(sorted(choices, key=lambda one: math.inf if one.time_us is None else one.time_us))


def read_skip(text: str) -> GraphSkip:
    """``skipping cudagraphs due to <reason>. Found from :`` and a stack, as torch words it."""
    reason, _, stack = text.partition("Found from")
    reason = reason.removeprefix("skipping cudagraphs due to").removeprefix("skipping cudagraph due to")
    return GraphSkip(reason.strip().rstrip("."), learners_line(read_stack(stack)))
