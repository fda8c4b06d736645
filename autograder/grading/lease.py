"""The GPU, alone for a race and shared by everything else, over all graders of this machine."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


def gpus_here() -> bool:
    """Whether this machine has an NVIDIA GPU that a sandbox can be given; no CUDA context is made to find out."""
    return Path("/dev/nvidiactl").exists()


@contextlib.contextmanager
def gpu_lease(*, alone: bool, folder: Path | None = None) -> Iterator[None]:
    """Hold the GPU while the block runs: with others, or `alone`, which waits until they are done.

    Whoever waits for it alone keeps newcomers waiting, too, so that it comes. A grader that is killed gives it back.
    """
    mine = os.environ.get("CUDA_VISIBLE_DEVICES", "all").replace("/", "-")  # a worker may have one GPU of several
    folder = folder or Path(tempfile.gettempdir(), f"course-gpu-{os.getuid()}-{mine}")
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / "door").open("w") as door, (folder / "room").open("w") as room:
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        yield
