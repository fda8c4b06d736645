"""One line under the cell while a long compile runs: what is being waited for, and how long it took last time."""

from __future__ import annotations

import contextlib
import html
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from compilescope.torch_internals import records

PATIENCE = 1.0
"""Seconds before a line appears: most compiles for `aot_eager` are over by then."""

SAID = {
    "bytecode_tracing": "Dynamo follows your bytecode",
    "create_aot_dispatcher_function": "AOTAutograd makes the forward and backward graphs",
    "inductor_compile": "Inductor fuses and writes kernels",
    "compile_file": "the C++ compiler makes machine code",
    "triton_compile": "Triton makes machine code",
    "autotune": "Inductor times candidates",
}
"""Phase, by the name torch's trace gives it (2.11 to 2.15), to what a reader is told."""

_MEMORY = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "inside-torch-compile" / "waits.json"


class WaitingLine:
    """Listens to the compiler's phases and says the current one; `record` never raises.

    Args:
        say: shows one line of text; called with an empty one at the end if anything was shown.
        memory: seconds each phase took last time, updated in place.
        clock: seconds, monotonic.
    """

    def __init__(
        self, say: Callable[[str], None], memory: dict[str, float], clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._say, self._memory, self._clock = say, memory, clock
        self._began = clock()
        self._thread = threading.get_ident()
        self._open: list[tuple[str, float]] = []
        self._shown = False

    def record(self, metadata: dict[str, object], payload: str | None) -> None:
        """One record of the structured trace."""
        event = metadata.get("chromium_event")
        if event is None or threading.get_ident() != self._thread:
            return
        with contextlib.suppress(ValueError, TypeError, KeyError):
            for one in _events(event, payload):
                self._take(str(one["name"]), str(one["ph"]))

    def _take(self, name: str, mark: str) -> None:
        if name not in SAID:
            return
        if mark == "B":
            self._open.append((name, self._clock()))
            self._tell()
        elif mark == "E" and self._open and self._open[-1][0] == name:
            _, began = self._open.pop()
            self._memory[name] = round(self._clock() - began, 1)

    def _tell(self) -> None:
        name = self._open[-1][0]
        last = self._memory.get(name, 0.0)
        if self._clock() - self._began < PATIENCE and last < PATIENCE:
            return
        self._shown = True
        self._say(f"{SAID[name]} …" + (f" last time it took {last:.0f} s" if last >= PATIENCE else ""))

    def close(self) -> None:
        """Take the line away."""
        if self._shown:
            self._say("")


def _events(event: object, payload: str | None) -> list[dict[str, Any]]:
    found = json.loads(payload) if payload else event
    return found if isinstance(found, list) else [found]  # type: ignore[list-item]


@contextlib.contextmanager
def waiting_line() -> Iterator[None]:
    """While the block compiles, show what is being waited for; outside a notebook, or in a thread, nothing."""
    say = _notebook_line()
    if say is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    memory = _recall()
    line = WaitingLine(say, memory)
    stop = records.listen(line.record)
    try:
        yield
    finally:
        stop()
        line.close()
        _keep(memory)


@contextlib.contextmanager
def waiting_for(name: str) -> Iterator[Callable[[str], None]]:
    """A line below the cell for any other wait: call what you get with each new step.

    How long waits called `name` took is remembered: the line appears after `PATIENCE` and says the last time.
    """
    memory, began = _recall(), time.perf_counter()
    last, show, shown = memory.get(name, 0.0), _notebook_line(), False

    def say(step: str) -> None:
        nonlocal shown
        if show and (shown or max(last, time.perf_counter() - began) >= PATIENCE):
            shown = True
            show(f"{step} …" + (f" last time it took {last:.0f} s" if last >= PATIENCE else ""))

    try:
        yield say
        memory[name] = round(time.perf_counter() - began, 1)
        _keep(memory)
    finally:
        if show and shown:
            show("")


def _notebook_line() -> Callable[[str], None] | None:
    """Shows a line below the running cell; None where nobody looks."""
    try:
        from IPython import get_ipython
        from IPython.display import HTML, display
    except ImportError:
        return None
    if not hasattr(get_ipython(), "kernel") or "NBGRADER_EXECUTION" in os.environ:
        return None
    handle: list[Any] = []

    def say(text: str) -> None:
        line = HTML(f'<span style="opacity:.7">⏳ {html.escape(text)}</span>' if text else "")
        if handle:
            handle[0].update(line)
        else:
            handle.append(display(line, display_id=True))

    return say


def _recall() -> dict[str, float]:
    try:
        known = json.loads(_MEMORY.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(k): float(v) for k, v in known.items()} if isinstance(known, dict) else {}


def _keep(memory: dict[str, float]) -> None:
    with contextlib.suppress(OSError):  # a full disk costs only the "last time"
        _MEMORY.parent.mkdir(parents=True, exist_ok=True)
        _MEMORY.write_text(json.dumps(memory), encoding="utf-8")
