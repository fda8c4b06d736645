"""A run whose facts are read from torch's records when one of them is first asked for, not while code is observed."""

from __future__ import annotations

import threading
from collections.abc import Callable

from compilescope.facts import Run

_reading = threading.RLock()


class _Unread(Run):
    """A `Run` up to the first look at it; from then on it is a plain `Run`."""

    def __getattribute__(self, name: str) -> object:
        with _reading:
            read = object.__getattribute__(self, "__dict__").pop("_read", None)
            if read is not None:
                read()
                object.__setattr__(self, "__class__", Run)
        return object.__getattribute__(self, name)


def read_later(run: Run, read: Callable[[], None]) -> None:
    """Call `read`, which fills `run`, when an attribute of `run` is first asked for.

    Reading the records of a large compile takes a good part of a second: time that the observed code must not lose.
    """
    object.__setattr__(run, "_read", read)
    object.__setattr__(run, "__class__", _Unread)
