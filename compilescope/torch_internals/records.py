"""The structured trace, record by record, as torch writes it."""

from __future__ import annotations

import logging
from collections.abc import Callable

Sink = Callable[[dict[str, object], str | None], None]


class _Listener(logging.Handler):
    def __init__(self, sink: Sink) -> None:
        super().__init__(logging.DEBUG)
        self.sink = sink

    def emit(self, record: logging.LogRecord) -> None:
        metadata = getattr(record, "metadata", None)
        if isinstance(metadata, dict):
            self.sink(dict(metadata), getattr(record, "payload", None))


def listen(sink: Sink) -> Callable[[], None]:
    """Hand each record of the structured trace to `sink`, in the thread that writes it; returns how to stop.

    Leans on the logger ``torch.__trace`` whose records carry ``metadata`` and ``payload`` (2.11 to 2.15): torch
    writes them only while the logger has a handler. `sink` must not raise.
    """
    logger = logging.getLogger("torch.__trace")
    listener = _Listener(sink)
    logger.addHandler(listener)
    return lambda: logger.removeHandler(listener)


def interned_strings() -> dict[int, str]:
    """Number to file name, for the names that torch wrote out in an earlier record and now only numbers.

    Leans on ``torch._logging.structured.INTERN_TABLE`` (2.11 to 2.15).
    """
    from torch._logging import structured

    return {number: text for text, number in getattr(structured, "INTERN_TABLE", {}).items()}
