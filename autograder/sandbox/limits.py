"""How much one job may take, and what it is told when it takes more."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of one job: one exercise of one submission. Sizes in bytes, times in seconds of the grader's clock."""

    wall: float = 240.0
    """The whole job, from the first cell to the last value."""
    cell: float = 120.0
    """One cell, or one call of the answer."""
    cpu: float = 600.0
    """Seconds that all its processes together may compute."""
    memory: int = 3_000_000_000
    """Private memory of all its processes together."""
    gpu_memory: int = 8_000_000_000
    """Memory of the GPU, of all its processes together, where the driver tells whose it is."""
    processes: int = 200
    """Processes and threads together."""
    file: int = 256_000_000
    scratch: int = 512_000_000
    """All files it writes, and its compile cache."""
    output: int = 50_000_000
    """What it may print before it is ended; far less is kept."""
    kept_output: int = 10_000


SAID = {
    "memory": "took more memory than a submission may",
    "gpu memory": "took more of the GPU's memory than a submission may",
    "cpu": "computed longer than a submission may",
    "processes": "started more processes than a submission may",
    "cell": "did not end in the time that a cell may take",
    "wall": "took longer than a submission may",
    "output": "printed more than a submission may",
    "ended": "ended the Python process",
    "message": "sent something that is no answer",
}
"""Why a job was ended, to the words for it."""
