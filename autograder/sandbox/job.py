"""One process in the sandbox, as the grader sees it: frames out and in, deadlines on the grader's own clock."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from autograder.sandbox.limits import Limits
from autograder.wire import WireError, decode, encode

_LENGTH = struct.Struct("<Q")
GPU_LOOK_EVERY = 2.0
"""Seconds between two looks at the GPU's memory."""


class Keeper(Protocol):
    """What a job needs of its sandbox."""

    def kill(self, number: int, why: str) -> None:
        """Ask for the end of a job."""

    def has_ended(self, number: int) -> bool:
        """Whether the word on the end of a job has come already."""

    def said(self, number: int) -> dict[str, Any]:
        """Wait for the zygote's next word: on the end of that job, or empty."""

    def fileno(self) -> int:
        """Of the control socket."""

    def gpu_memory(self) -> int:
        """Bytes of the GPU's memory that is taken inside."""


class Job:
    """One process inside. Read `frames` until they end; then `why` says what ended it ("" if it was the answer)."""

    def __init__(self, bubble: Keeper, number: int, limits: Limits, channel: socket.socket, output: int) -> None:
        self.limits, self.why, self.output = limits, "", b""
        self._bubble, self._number, self._channel, self._output = bubble, number, channel, output
        self._printed, self._ended, self._closing, self._buffer = 0, False, False, bytearray()
        self._began = self._step = self._looked = time.monotonic()
        channel.setblocking(False)
        os.set_blocking(output, False)

    def send(self, values: Any) -> None:
        """One frame to the job. A job that does not read is ended."""
        message = encode(values, strict=True)
        # The time that the grader took to judge is not the job's.
        self._began, self._step = self._began + time.monotonic() - self._step, time.monotonic()
        left = memoryview(_LENGTH.pack(len(message)) + message)
        while left and not self._ended:
            self._look([self._channel])
            with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
                left = left[self._channel.send(left[: 1 << 20]) :]
        self._step = time.monotonic()

    def frames(self) -> Iterator[Any]:
        """What the job says, frame by frame, until it ends or a limit ends it."""
        while not self._ended or self._buffer:
            try:
                frame = self._next_frame()
            except WireError:
                self.end("message")
                return
            if frame is not None:
                self._step = time.monotonic()
                yield frame
            elif self._ended:
                return
            else:
                self._look([])

    def end(self, why: str = "") -> None:
        """End it, and wait until nothing of it is left."""
        self.why, self._closing = self.why or why, True
        if not self._ended:
            self._bubble.kill(self._number, why)
        while not self._ended:
            self._hear()
        self._take_output()
        self._channel.close()
        with contextlib.suppress(OSError):
            os.close(self._output)
        self._output = -1

    def _next_frame(self) -> Any:
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > 256_000_000:
            raise WireError("The frame is too long.")
        if len(self._buffer) < _LENGTH.size + length:
            return None
        message = bytes(self._buffer[_LENGTH.size : _LENGTH.size + length])
        del self._buffer[: _LENGTH.size + length]
        return decode(message)

    def _look(self, writing: Sequence[socket.socket]) -> None:
        """Wait for the next thing to happen, and take it in."""
        if self._bubble.has_ended(self._number):  # heard of by a job beside this one
            self._take_end()
            return
        now = time.monotonic()
        left = min(self._began + self.limits.wall - now, self._step + self.limits.cell - now)
        if left <= 0:
            self.end("cell" if self._step + self.limits.cell <= now else "wall")
            return
        if now - self._looked > GPU_LOOK_EVERY:
            self._looked = now
            if self._bubble.gpu_memory() > self.limits.gpu_memory:
                self.end("gpu memory")
                return
        sources: list[Any] = [self._channel, self._output, self._bubble]
        readable, _, _ = select.select([one for one in sources if one != -1], writing, [], min(left, 1.0))
        if self._output in readable:
            self._take_output()
        if self._channel in readable:
            self._take_words()
        if self._bubble in readable:
            self._take_end()

    def _take_words(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            while piece := self._channel.recv(1 << 20):
                self._buffer += piece
                if len(self._buffer) > 257_000_000:
                    self.end("message")
                    return

    def _take_output(self) -> None:
        for _ in range(64):
            try:
                piece = os.read(self._output, 1 << 16) if self._output != -1 else b""
            except (BlockingIOError, OSError):
                return
            if not piece:
                return
            self._printed += len(piece)
            self.output += piece[: max(0, self.limits.kept_output - len(self.output))]
            if self._printed > self.limits.output and not self._closing:
                self.end("output")
                return

    def _take_end(self) -> None:
        """Hear the zygote, and take what the job said and printed before its end."""
        self._hear()
        self._take_words()
        self._take_output()

    def _hear(self) -> None:
        if said := self._bubble.said(self._number):
            self._ended = True
            if not self._closing:
                self.why = self.why or said["why"] or "ended"

    def give_more_time(self) -> None:
        """From now on it may take as long as a job may from its beginning."""
        self._began = self._step = time.monotonic()
