"""Ties of one process to another, as far as the system offers them."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys

_PDEATHSIG, _CHILD_SUBREAPER = 1, 36
"""Numbers of prctl(2)."""


def die_with_parent() -> None:
    """On Linux: the kernel kills this process when the one that started it ends, however that ends."""
    _prctl(_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """On Linux: processes below this one come to it, instead of to init, when their parent ends."""
    _prctl(_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, int(value), 0, 0, 0)
