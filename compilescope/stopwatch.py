"""Clocks that wait for the work: the host's, with a synchronize where a GPU may be busy, and CUDA events."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import torch

from compilescope.facts import Origin
from compilescope.observe import live_origin

_FALLBACK_CACHE = 64 * 2**20
_LARGEST_FLUSH = 512 * 2**20
_MOST_WRITES = 256
"""About 20 ms of head start for the host on an H200: no launch takes longer, but a compile does."""


class Stopwatch(Protocol):
    """What `measure` and `compare_speed` read times from."""

    @property
    def clock(self) -> str:
        """What the seconds are read from."""

    @property
    def origin(self) -> Origin:
        """Where they are measured."""

    def seconds(self, call: Callable[[], object], calls: int) -> float:
        """Seconds that `calls` calls take, from an idle device until the last one's work is done."""

    def flush(self) -> None:
        """Overwrite the caches, so that the next call reads its input from memory."""

    def now(self) -> float:
        """Seconds on the host, for budgets."""


def stopwatch_for(arguments: Iterable[object]) -> Stopwatch:
    """CUDA events where an argument lies on a GPU, else the host's clock."""
    found = next((x.device for x in arguments if isinstance(x, torch.Tensor) and x.is_cuda), None)
    return CudaStopwatch(found) if found else HostStopwatch()


class HostStopwatch:
    """`time.perf_counter` around the calls; waits for a GPU before and after where one was used."""

    clock = "perf_counter"

    @property
    def origin(self) -> Origin:
        """This machine."""
        return live_origin()

    def seconds(self, call: Callable[[], object], calls: int) -> float:
        """Wall seconds of `calls` calls."""
        _wait()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        _wait()
        return time.perf_counter() - start

    def flush(self) -> None:
        """Write a buffer twice as large as the last-level cache."""
        _host_buffer().fill_(1)

    def now(self) -> float:
        """`time.perf_counter`."""
        return time.perf_counter()


class CudaStopwatch:
    """Two CUDA events in the stream of the calls: the GPU's own clock."""

    clock = "CUDA events"

    def __init__(self, device: torch.device) -> None:
        self.device = device
        cache = torch.cuda.get_device_properties(device).L2_cache_size
        size = min(4 * max(cache, _FALLBACK_CACHE), _LARGEST_FLUSH)
        self._buffer = torch.empty(size, dtype=torch.uint8, device=device)
        self._writes, self._flushed = 1, False

    @property
    def origin(self) -> Origin:
        """This GPU."""
        return live_origin()

    def seconds(self, call: Callable[[], object], calls: int) -> float:
        """Seconds on the GPU's clock from the first event to the second.

        After a `flush` the host launches everything while the GPU still writes the buffer, so that the seconds are
        those of the kernels alone; where the host is too slow for that, it writes more often and measures again.
        Without a flush the time of a short function is the time that the host needs to launch it.
        """
        while True:
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            with torch.cuda.device(self.device):
                start.record()
                for _ in range(calls):
                    call()
                overtaken = start.query()
                end.record()
            end.synchronize()
            if not (self._flushed and overtaken) or self._writes >= _MOST_WRITES:
                self._flushed = False
                return float(start.elapsed_time(end)) / 1e3
            self._writes *= 2
            self.flush()

    def flush(self) -> None:
        """Write a buffer four times as large as the L2 cache; does not wait for it."""
        torch.cuda.synchronize(self.device)
        for _ in range(self._writes):
            self._buffer.zero_()
        self._flushed = True

    def now(self) -> float:
        """`time.perf_counter`."""
        return time.perf_counter()


def _wait() -> None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


@functools.cache
def _host_buffer() -> Any:
    return torch.empty(min(2 * last_level_cache(), _LARGEST_FLUSH), dtype=torch.uint8)


def last_level_cache(folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> int:
    """Bytes of this CPU's largest cache; 64 MiB where the system does not say (it does on Linux)."""
    sizes = []
    for path in folder.glob("index*/size"):
        text = path.read_text().strip()
        unit = {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1:].upper())
        if unit and text[:-1].isdigit():
            sizes.append(int(text[:-1]) * unit)
    return max(sizes, default=_FALLBACK_CACHE)
