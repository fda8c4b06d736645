"""A job that is a Jupyter kernel: whole notebooks run in it, and its `check` asks the grader outside.

The kernel listens on its own loopback, which nothing outside can reach. A process beside it carries bytes: for each
connection that the grader's side accepts, it gets a port and one end of a socket pair through ``doors``, and joins
that end to the port. No socket of the machine's own network comes in here.

On the channel the kernel says ``{"check": exercise}`` and gets ``{"order": …}`` as any job does, or ``{"unknown": 1}``;
it answers as any job does and gets ``{"passed": bool, "points": int, "out_of": int, "sentence": words}``.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import socket
import struct
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autograder.sandbox.limits import Limits

_PORT = struct.Struct("<I")
LONGEST_START = 120.0
"""Seconds that a kernel may take to listen."""


class CheckFailed(Exception):  # noqa: N818 - it names the outcome of a check
    """An answer that is not right yet. Jupyter shows the feedback instead of a traceback."""

    def __init__(self, lines: list[str], sentence: str) -> None:
        self.lines = lines
        super().__init__(sentence)

    def _render_traceback_(self) -> list[str]:
        return self.lines


def serve(grader: socket.socket, doors: socket.socket, connection: dict[str, Any]) -> None:
    """Be the kernel of this connection file until the client shuts it down."""
    if os.fork() == 0:
        grader.close()
        try:
            open_doors(doors)
        finally:
            os._exit(0)
    doors.close()
    importlib.import_module("autograder").check = checker(grader)  # type: ignore[attr-defined]
    file = Path("/tmp/kernel.json")
    file.write_text(json.dumps(connection))
    from ipykernel.kernelapp import IPKernelApp

    app = IPKernelApp.instance()
    app.initialize(["-f", str(file), "--HistoryManager.enabled=False"])
    hold_back([sys.stdout, sys.stderr], Limits().output)
    app.start()


def hold_back(streams: list[Any], most: int) -> None:
    """Let these streams take `most` characters together; a program that prints on waits from then on.

    The grader outside counts too, and ends it once it has heard them all. Without this wait a program that prints
    faster than anybody reads would fill its memory, and be told so.
    """
    left = most

    def held(write: Callable[[str], Any]) -> Callable[[str], Any]:
        def metered(text: str) -> Any:
            nonlocal left
            written = write(text)
            left -= len(text)
            if left < 0:
                threading.Event().wait()
            return written

        return metered

    for stream in streams:
        stream.write = held(stream.write)


def checker(grader: socket.socket) -> Callable[..., None]:
    """The notebook's `check`: this process only runs the probe; what is right is decided outside."""
    from autograder.sandbox import inside

    def check(name: str, namespace: Any = None) -> None:
        """Have the grader judge the exercise `name`. Prints one line if it is right, raises CheckFailed if not."""
        inside.send(grader, {"check": name})
        order = inside.receive(grader)
        if not order or "order" not in order:
            raise KeyError(f"There is no exercise {name!r} in this lesson.")
        names = shell().user_ns if namespace is None else namespace
        inside.send(grader, inside.outcome(order["order"], names))
        verdict = inside.receive(grader)
        if not verdict["passed"]:
            sentence = f'{verdict["sentence"]} Stuck? hint("{name}")'
            head = f"✗ {name} · 0 of {verdict['out_of']} points"
            raise CheckFailed([head, *textwrap.wrap(sentence, 100)], sentence)
        found = f" · {verdict['sentence']}" if verdict["sentence"] else ""
        # In one piece: what print() writes in two may reach the notebook as two outputs.
        sys.stdout.write(f"✓ {name} · {verdict['points']} of {verdict['out_of']} points{found}\n")

    return check


def shell() -> Any:
    """The kernel's shell, which holds the notebook's names."""
    from IPython.core.getipython import get_ipython

    return get_ipython()


def open_doors(doors: socket.socket) -> None:
    """Join each descriptor that comes through `doors` to the port that comes with it."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(doors, _PORT.size, 1)
        if not data or not descriptors:
            return
        there = socket.socket(fileno=descriptors[0])
        threading.Thread(target=_join, args=(there, _PORT.unpack(data)[0]), daemon=True).start()


def knock(doors: socket.socket, port: int) -> socket.socket:
    """The grader's end of a new connection to the kernel's `port`."""
    here, there = socket.socketpair()
    with there:
        socket.send_fds(doors, [_PORT.pack(port)], [there.fileno()])
    return here


def carry(one: socket.socket, other: socket.socket, count: Callable[[int], None] = lambda size: None) -> None:
    """Carry bytes both ways until an end closes; `count` hears how many come from `one`."""
    threading.Thread(target=_pump, args=(other, one, lambda size: None), daemon=True).start()
    _pump(one, other, count)


def _pump(source: socket.socket, target: socket.socket, count: Callable[[int], None]) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(1 << 16):
            count(len(piece))
            target.sendall(piece)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _join(there: socket.socket, port: int) -> None:
    until = time.monotonic() + LONGEST_START
    while time.monotonic() < until:
        try:
            carry(socket.create_connection(("127.0.0.1", port)), there)
            return
        except ConnectionRefusedError:
            time.sleep(0.05)
    there.close()
