"""Facts of modes beside each other: what each cost at first, costs from then on, and did. No torch; JSON in and out."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any

import cattrs

from compilescope.facts import Autotuning, CudaGraphs, Origin


@dataclass(frozen=True)
class TimedCall:
    """One of the first calls, in order; `seconds` of wall time until the device was done.

    The three counts are of CUDA graphs in this call. `pool_bytes` is what the allocator holds for CUDA graphs after
    it, in whole segments.
    """

    seconds: float
    compiles: int = 0
    warmed_up: int = 0
    recorded: int = 0
    replayed: int = 0
    pool_bytes: int | None = None


@dataclass(frozen=True)
class Trial:
    """One workload in one mode, from a cold cache.

    The steady state is the median of `timed_calls` calls after the first ones, each waited for; `steady_low_us` and
    `steady_high_us` are the first and the last decile, all in microseconds.
    """

    workload: str
    mode: str
    """``eager``, or a mode of torch.compile."""
    calls: tuple[TimedCall, ...] = ()
    steady_us: float | None = None
    steady_low_us: float | None = None
    steady_high_us: float | None = None
    timed_calls: int = 0
    kernels: float | None = None
    """Kernels that ran on the GPU in one call, on average."""
    launches: float | None = None
    """How often the CPU asked the GPU for work in one call: a replayed graph is one."""
    peak_bytes: int | None = None
    """Most that tensors held at once in a steady call, beyond weights and inputs."""
    pool_bytes: int | None = None
    """What the allocator holds for CUDA graphs at the end, in whole segments."""
    kept_bytes: int | None = None
    """What the allocator holds more than before, once results are dropped and unused memory is given back."""
    cuda_graphs: CudaGraphs | None = None
    autotuning: tuple[Autotuning, ...] = ()
    rounding: float | None = None
    """Root mean square of the difference from float64, over that of the float64 result."""
    error: str = ""
    """What was raised, in one line; the facts before it stand."""

    @property
    def first_s(self) -> float | None:
        """Seconds of the first call, with its compile."""
        return self.calls[0].seconds if self.calls else None

    @property
    def start_calls(self) -> int:
        """How many calls it takes until nothing compiles, warms up or records any more."""
        busy = [i for i, one in enumerate(self.calls) if one.compiles or one.warmed_up or one.recorded]
        return max(busy, default=-1) + 1

    @property
    def start_s(self) -> float | None:
        """Seconds of these first calls together; of eager the first call."""
        return sum(one.seconds for one in self.calls[: self.start_calls or 1]) if self.calls else None

    def total_s(self, calls: int) -> float:
        """Seconds of that many calls from a cold start: the first ones as they were, the others in steady state.

        Infinite where the steady state was never reached.
        """
        if self.steady_us is None:
            return math.inf
        first = self.calls[: min(calls, self.start_calls)]
        return sum(one.seconds for one in first) + (calls - len(first)) * self.steady_us / 1e6


@dataclass(frozen=True)
class Workload:
    """What was timed: `words` for a reader, `source` as code, `group` to tell tables apart."""

    name: str
    words: str
    group: str = "modes"
    source: str = ""


@dataclass(frozen=True)
class ModeTable:
    """Trials of several workloads in several modes, and the options that each mode switches on."""

    origin: Origin
    workloads: tuple[Workload, ...] = ()
    trials: tuple[Trial, ...] = ()
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    """Each of these options without a mode."""
    notes: tuple[str, ...] = ()

    def of(self, workload: str) -> tuple[Trial, ...]:
        """The trials of this workload; KeyError, with the names there are, if there is none."""
        found = tuple(trial for trial in self.trials if trial.workload == workload)
        if not found:
            raise KeyError(f"No workload {workload!r}: there are {', '.join(one.name for one in self.workloads)}.")
        return found

    def trial(self, workload: str, mode: str) -> Trial:
        """The trial of this workload in this mode; KeyError if there is none."""
        for trial in self.of(workload):
            if trial.mode == mode:
                return trial
        raise KeyError(f"{workload} was not tried in mode {mode!r}.")

    def group(self, name: str) -> tuple[Workload, ...]:
        """The workloads of that group."""
        return tuple(one for one in self.workloads if one.group == name)

    def to_json(self) -> str:
        """JSON text; `from_json` gives an equal table back."""
        return json.dumps(_converter.unstructure(self), separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> ModeTable:
        """A table from `to_json`'s text. Raises ValueError with a sentence if it is none."""
        try:
            return _converter.structure(json.loads(text), ModeTable)
        except (json.JSONDecodeError, cattrs.BaseValidationError, KeyError, TypeError) as error:
            raise ValueError("This is no table of modes: write one with ModeTable.to_json().") from error


_converter = cattrs.Converter(omit_if_default=True)
