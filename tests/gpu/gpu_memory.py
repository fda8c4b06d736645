"""How much GPU memory a process and its descendants hold, watched from outside."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import psutil

EVERY = 0.5
"""Seconds between two looks."""


@dataclass
class Peak:
    """The most MiB seen: of one process and its descendants, and in use on all GPUs."""

    own: int = 0
    all: int = 0


class Watch:
    """Looks at the GPUs while it is open; without ``nvidia-smi`` it sees nothing, and peaks stay 0."""

    def __init__(self) -> None:
        self._peaks: dict[int, Peak] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(10)

    @contextlib.contextmanager
    def of(self, pid: int) -> Iterator[Peak]:
        """The peak of that process and its descendants while the block runs."""
        peak = Peak()
        with self._lock:
            self._peaks[pid] = peak
        try:
            yield peak
        finally:
            with self._lock:
                del self._peaks[pid]

    def _look(self) -> None:
        while not self._ended.wait(EVERY):
            held = memory_by_pid()
            used = sum(_numbers("--query-gpu=memory.used"))
            with self._lock:
                watched = dict(self._peaks)
            for pid, peak in watched.items():
                peak.own = max(peak.own, sum(held.get(one, 0) for one in family(pid)))
                peak.all = max(peak.all, used)


def memory_by_pid() -> dict[int, int]:
    """MiB that each process holds on the GPUs. Source: nvidia-smi."""
    held: dict[int, int] = {}
    for line in _asked("--query-compute-apps=pid,used_memory"):
        pid, _, mib = (part.strip() for part in line.partition(","))
        if pid.isdigit() and mib.isdigit():
            held[int(pid)] = held.get(int(pid), 0) + int(mib)
    return held


def family(pid: int) -> set[int]:
    """`pid` and all its descendants."""
    try:
        return {pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))}
    except psutil.Error:
        return {pid}


def _numbers(query: str) -> list[int]:
    return [int(line) for line in _asked(query) if line.strip().isdigit()]


def _asked(query: str) -> list[str]:
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=20).stdout.splitlines()
    except (OSError, subprocess.TimeoutExpired):
        return []
