"""A GPU made of clockwork: it has a host, a queue and a clock of its own, and so its true times are known.

It computes nothing. It keeps the rules of a real one: a launch puts work into a queue and returns at once, the queue
works it off in order, `synchronize` waits until it is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from compilescope.facts_timing import Span

LAUNCH = 5e-6
"""Seconds that the host needs for one launch, unless told otherwise."""


class Buffer:
    """The result of a launch that has a name and no numbers. `made_by` is the launch it waits for."""

    def __init__(self, name: str, made_by: Launch | None = None) -> None:
        self.name, self.made_by = name, made_by

    def __repr__(self) -> str:
        return f"<buffer {self.name}>"


class Launch:
    """One kernel in the queue: its name, its seconds on the device, and the buffers it reads."""

    def __init__(self, kernel: str, seconds: float, reads: tuple[Buffer, ...]) -> None:
        self.kernel, self.seconds, self.reads = kernel, seconds, reads
        self.result = Buffer(f"{kernel}({', '.join(one.name for one in reads)})", self)


class ClockworkGpu:
    """A host that launches kernels and a device that works them off, both on a clock that only they move.

    Args:
        launch: seconds that the host needs for one launch.
    """

    def __init__(self, launch: float = LAUNCH) -> None:
        self._launch = launch
        self._host = self._device = 0.0
        self._spans: list[Span] = []
        self._captured: list[Launch] | None = None

    def clock(self) -> float:
        """Seconds on the host's clock. Looking at it takes no time."""
        self._spans.append(Span("host", "clock", self._host, 0.0))
        return self._host

    def synchronize(self) -> None:
        """Wait on the host until the device has worked off its queue."""
        waits = max(0.0, self._device - self._host)
        self._spans.append(Span("host", "wait", self._host, waits))
        self._host = max(self._host, self._device)

    def work(self, seconds: float, name: str = "work") -> None:
        """Keep the host busy, as Python and compilers do."""
        self._spans.append(Span("host", name, self._host, seconds))
        self._host += seconds

    def launch(self, kernel: str, seconds: float, *reads: Buffer) -> Buffer:
        """Put a kernel that takes `seconds` into the queue and return at once; gives its result."""
        one = Launch(kernel, seconds, reads)
        if self._captured is not None:
            self._captured.append(one)
        else:
            self._enqueue(one)
        return one.result

    def buffer(self, name: str) -> Buffer:
        """A buffer with an input in it."""
        return Buffer(name)

    def compiled(self, fn: Callable[..., Any], seconds: float) -> Callable[..., Any]:
        """`fn` as a compiler would leave it: its first call takes `seconds` more, and what nobody uses is left out.

        The launches of a call that its result does not need are never made.
        """
        warm = False

        def call(*args: Any) -> Any:
            nonlocal warm
            if not warm:
                self.work(seconds, "compile")
                warm = True
            self._captured = []
            try:
                result = fn(*args)
            finally:
                captured, self._captured = self._captured, None
            wanted = _needed(_buffers(result))
            for one in captured:
                if one in wanted:
                    self._enqueue(one)
            return result

        return call

    @property
    def spans(self) -> tuple[Span, ...]:
        """Everything so far, in order of its start."""
        return tuple(sorted(self._spans, key=lambda span: (span.start, span.lane)))

    @property
    def busy(self) -> float:
        """Seconds that the device has computed so far, or will have when its queue is empty."""
        return sum(span.seconds for span in self._spans if span.lane == "device")

    def _enqueue(self, one: Launch) -> None:
        self.work(self._launch, "launch")
        start = max(self._device, self._host)
        reads = tuple(buffer.name for buffer in one.reads)
        self._spans.append(Span("device", one.kernel, start, one.seconds, reads))
        self._device = start + one.seconds


def _buffers(result: Any) -> Iterable[Buffer]:
    if isinstance(result, Buffer):
        return [result]
    return [buffer for one in result for buffer in _buffers(one)] if isinstance(result, (list, tuple)) else []


def _needed(buffers: Iterable[Buffer]) -> set[Launch]:
    """The launches that these results wait for, and those that they wait for."""
    found: set[Launch] = set()
    todo = list(buffers)
    while todo:
        made_by = todo.pop().made_by
        if made_by is not None and made_by not in found:
            found.add(made_by)
            todo += made_by.reads
    return found
