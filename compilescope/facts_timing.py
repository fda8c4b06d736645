"""What was measured by a clock: times of one function, two functions compared, and spans on a time line.

Plain frozen dataclasses without torch. Each says in one sentence what it found; `compilescope.time_plot` draws it.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import cattrs

from compilescope.facts import Origin
from compilescope.text import count, seconds


@dataclass(frozen=True, repr=False)
class Timing:
    """Times of one function, in seconds a call. The calls that warmed it up are kept apart."""

    name: str
    origin: Origin
    samples: tuple[float, ...]
    """Seconds a call, in the order they were measured."""
    warmup: tuple[float, ...] = ()
    """Seconds of the first calls, which are in no median: compiling, recording, filling caches."""
    clock: str = "perf_counter"
    """``perf_counter``, or ``CUDA events``: what the seconds were read from."""
    calls: int = 1
    """Calls in one sample; short functions are called several times between two looks at the clock."""
    flushed: bool = False
    """Caches were overwritten before each sample, so that the input came from memory."""
    compiled_again: int = 0
    """Graphs that were compiled while the samples were taken: not 0 means that the samples hold a compile."""

    @property
    def median(self) -> float:
        """The middle sample: half of them are faster."""
        return statistics.median(self.samples)

    @property
    def middle_half(self) -> tuple[float, float]:
        """The quartiles: half of the samples lie between."""
        if len(self.samples) < 2:
            return self.samples[0], self.samples[0]
        low, _, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return low, high

    @property
    def first(self) -> float:
        """Seconds of the very first call."""
        return (self.warmup or self.samples)[0]

    def sentence(self) -> str:
        """``eager: 98 µs, half of 40 samples within 97 µs to 99 µs; first call 2.90 s``."""
        low, high = self.middle_half
        text = f"{self.name}: {seconds(self.median)}, half of {count(len(self.samples), 'sample')} within "
        text += f"{seconds(low)} to {seconds(high)}; first call {seconds(self.first)}"
        if self.compiled_again:
            text += f". Careful: it compiled {count(self.compiled_again, 'graph')} while it was timed"
        return text

    __repr__ = sentence


Verdict = Literal["faster", "slower", "as fast"]


@dataclass(frozen=True, repr=False)
class Speed:
    """How many times as fast `other` is as `base`: the median of pairs that were measured in turn."""

    base: Timing
    other: Timing
    ratios: tuple[float, ...]
    """Of each pair: seconds of `base` over seconds of `other`."""
    interval: tuple[float, float]
    """Bootstrap confidence interval of the median ratio."""
    confidence: float = 0.99
    verdict: Verdict | None = None
    """None: the pairs differ too much to tell even that."""
    refusal: str = ""
    """Why there is no number: the noise is too large. Empty where there is one."""

    @property
    def times(self) -> float | None:
        """The median ratio; None where the noise is too large for a number."""
        return None if self.refusal else statistics.median(self.ratios)

    def sentence(self) -> str:
        """``fast is 2.21 times as fast as eager (2.19 to 2.24 with 99 % confidence, 30 pairs)``, or the refusal."""
        if self.refusal:
            return self.refusal
        low, high = self.interval
        said = "as fast as" if self.verdict == "as fast" else f"{self.times:.2f} times as fast as"
        sure = f"{low:.2f} to {high:.2f} with {self.confidence:.0%} confidence, {count(len(self.ratios), 'pair')}"
        return f"{self.other.name} is {said} {self.base.name} ({sure})"

    __repr__ = sentence


@dataclass(frozen=True)
class Span:
    """One thing that took time on the host or on the device. `start` and `seconds` are in seconds."""

    lane: Literal["host", "device"]
    name: str
    """``launch``, ``wait``, ``compile``, ``clock`` on the host; the kernel's name on the device."""
    start: float
    seconds: float
    reads: tuple[str, ...] = ()
    """Names of the buffers that a kernel reads, where they are known."""

    @property
    def end(self) -> float:
        """When it was over."""
        return self.start + self.seconds


@dataclass(frozen=True)
class Measurements:
    """What a recipe measured on a machine that is not this one, by name."""

    origin: Origin
    timings: dict[str, Timing] = field(default_factory=dict)
    speeds: dict[str, Speed] = field(default_factory=dict)
    spans: dict[str, tuple[Span, ...]] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    """Seconds, bytes and counts; the name says which."""

    def from_origin(self, origin: Origin) -> Measurements:
        """The same, all of it said to come from there."""
        timings = {name: replace(one, origin=origin) for name, one in self.timings.items()}
        speeds = {
            name: replace(one, base=replace(one.base, origin=origin), other=replace(one.other, origin=origin))
            for name, one in self.speeds.items()
        }
        return replace(self, origin=origin, timings=timings, speeds=speeds)

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        found: dict[str, Any] = _rounded(_converter.unstructure(self))
        return found

    @staticmethod
    def from_dict(stored: dict[str, Any]) -> Measurements:
        """From `to_dict`'s dict. Raises ValueError with a sentence if it is none."""
        try:
            return _converter.structure(stored, Measurements)
        except (cattrs.BaseValidationError, KeyError, TypeError) as error:
            raise ValueError("These are no measurements: record them again on a GPU with make record.") from error


def _rounded(value: Any) -> Any:
    """Floats to five digits: no clock is better than that, and a recording shorter."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, (list, tuple)) else value


_converter = cattrs.Converter(omit_if_default=True)
