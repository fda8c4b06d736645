"""Keep stderr out of a graded cell: nbgrader gives 0 to a right answer whose cell wrote a warning there."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Any


class Captured:
    """What was written to stdout and stderr inside `quiet`; `text` is complete when the block has ended."""

    text: str = ""


@contextlib.contextmanager
def quiet() -> Iterator[Captured]:
    """Collect everything the block writes: `print`, warnings, loggers, and compilers writing to descriptor 2."""
    captured, python_level = Captured(), io.StringIO()
    with tempfile.TemporaryFile() as native:
        try:
            with (
                _loggers_to(python_level),
                _descriptor_2_to(native.fileno()),
                contextlib.redirect_stdout(python_level),
                contextlib.redirect_stderr(python_level),
            ):
                yield captured
        finally:
            native.seek(0)
            captured.text = python_level.getvalue() + native.read().decode(errors="replace")


@contextlib.contextmanager
def _loggers_to(stream: io.StringIO) -> Iterator[None]:
    """Handlers hold the stream they were made with, so redirecting sys.stderr does not reach them.

    Only plain StreamHandlers are touched: a subclass (a FileHandler, torch's trace handler) owns its stream.
    """
    loggers = [logging.root, *(x for x in logging.root.manager.loggerDict.values() if isinstance(x, logging.Logger))]
    handlers = {h for logger in loggers for h in logger.handlers if type(h) is logging.StreamHandler}
    before = [(handler, handler.stream) for handler in handlers]
    for handler in handlers:
        _point(handler, stream)
    try:
        yield
    finally:
        for handler, old in before:
            _point(handler, old)


def _point(handler: logging.StreamHandler[Any], stream: Any) -> None:
    """`handler.setStream(stream)`, also when somebody has closed the old one."""
    with contextlib.suppress(ValueError):
        handler.flush()
    handler.stream = stream


@contextlib.contextmanager
def _descriptor_2_to(target: int) -> Iterator[None]:
    if sys.__stderr__ is not None:
        sys.__stderr__.flush()
    saved = os.dup(2)
    os.dup2(target, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
