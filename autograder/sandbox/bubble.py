"""The grader's side of the sandbox: start it, give it jobs, read what they say, end them.

``with Bubble(exercises) as bubble: job = bubble.start(limits); job.send(order); for frame in job.frames(): …``.
One job at a time. `SandboxError` says that there is no sandbox here, or that it broke: never the submission's fault.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autograder.errors import CourseError
from autograder.exercise import Exercise
from autograder.nbgrader_config import ROOT
from autograder.sandbox import as_nobody
from autograder.sandbox.limits import Limits
from autograder.sandbox.visible import write_library
from autograder.wire import WireError, decode, encode

_LENGTH = struct.Struct("<Q")
START_SECONDS = 120.0
INSTALL = "Install bubblewrap (Debian, Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap)"


class SandboxError(CourseError):
    """No sandbox on this machine, or it broke."""


def bwrap_command(library: Path, cache: Path, gpu: bool) -> tuple[list[str], list[Path]]:
    """The bubblewrap command up to its program, and the paths that it shows."""
    shown = [Path(sys.prefix), Path(sys.base_prefix), library, cache, ROOT / "compilescope", ROOT / "assets"]
    command = [
        "bwrap",
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--clearenv",
        "--ro-bind",
        "/usr",
        "/usr",
    ]
    for name in ("bin", "sbin", "lib", "lib64", "lib32"):
        path = Path("/", name)
        if path.is_symlink():
            command += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            command += ["--ro-bind", str(path), str(path)]
    for file in ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "passwd", "nsswitch.conf"):
        command += ["--ro-bind-try", f"/etc/{file}", f"/etc/{file}"]
    command += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for prefix in dict.fromkeys(shown[:2]):
        command += ["--ro-bind", str(prefix), str(prefix)]
    command += ["--ro-bind", str(library), "/course", "--ro-bind", str(cache), "/cache"]
    command += ["--ro-bind", str(ROOT / "compilescope"), "/course/compilescope"]
    command += ["--ro-bind", str(ROOT / "assets"), "/course/assets", "--chdir", "/tmp"]
    if gpu:
        command += ["--ro-bind", "/sys", "/sys"]
        command += [part for node in sorted(Path("/dev").glob("nvidia*")) for part in ("--dev-bind", *[str(node)] * 2)]
    for name, value in environment().items():
        command += ["--setenv", name, value]
    return command, shown


def environment() -> dict[str, str]:
    """Everything that is in the environment of a job."""
    return {
        "PATH": f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": "/tmp/home",
        "USER": "student",
        "LOGNAME": "student",
        "LANG": "C.UTF-8",
        "PYTHONPATH": "/course",
        "PYTHONDONTWRITEBYTECODE": "1",
        "NBGRADER_EXECUTION": "autograde",
        "XDG_CACHE_HOME": "/tmp/home/.cache",
        "TORCHINDUCTOR_CACHE_DIR": "/tmp/cache/inductor",
        "TRITON_CACHE_DIR": "/tmp/cache/triton",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }


class Bubble:
    """One sandbox with its zygote. `cache` is the trusted compile cache; without it each job compiles everything."""

    def __init__(self, exercises: Iterable[Exercise], cache: Path | None = None, gpu: bool = False) -> None:
        if shutil.which("bwrap") is None:
            raise SandboxError(f"There is no sandbox here. {INSTALL}.")
        self._folder = Path(tempfile.mkdtemp(prefix="course-sandbox-"))
        self._gpu, self._number = gpu, 0
        self._folder.chmod(0o755)
        library = self._folder / "library"
        write_library(library, exercises)
        for name in ("compilescope", "assets"):
            (library / name).mkdir()
        self._empty = self._folder / "cache"
        self._empty.mkdir()
        command, shown = bwrap_command(library, cache or self._empty, gpu)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = [sys.executable, "-m", "autograder.sandbox.zygote", str(theirs.fileno())]
        if os.geteuid() == 0:
            outer = [sys.executable, "-I", str(as_nobody.__file__), *map(str, shown), "--", *command]
            command = outer
        self._log = (self._folder / "log").open("w+b")
        self._process = subprocess.Popen(
            [*command, *program],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        theirs.close()
        self._ready = False

    def __enter__(self) -> Bubble:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the sandbox and everything in it."""
        self._control.close()
        self._process.kill()
        self._process.wait()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self, limits: Limits) -> Job:
        """A fresh process for one exercise of one submission."""
        self._wait_until_ready()
        self._number += 1
        channel, theirs = socket.socketpair()
        reading, writing = os.pipe()
        order = {"start": self._number, "limits": asdict(limits), "gpu": self._gpu}
        try:
            socket.send_fds(self._control, [json.dumps(order).encode()], [theirs.fileno(), writing])
        except OSError as error:
            raise self._broken() from error
        finally:
            theirs.close()
            os.close(writing)
        return Job(self, self._number, limits, channel, reading)

    def kill(self, number: int, why: str) -> None:
        """Ask the zygote to end a job; `ended` tells when it has."""
        with contextlib.suppress(OSError):
            self._control.send(json.dumps({"kill": number, "why": why}).encode())

    def said(self) -> dict[str, Any]:
        """The next word of the zygote. Raises SandboxError if it is gone."""
        data = self._control.recv(65536)
        if not data:
            raise self._broken()
        said: dict[str, Any] = json.loads(data)
        return said

    def fileno(self) -> int:
        """Of the control socket, for `select`."""
        return self._control.fileno()

    def _wait_until_ready(self) -> None:
        if self._ready:
            return
        self._control.settimeout(START_SECONDS)
        try:
            self._ready = bool(self.said().get("ready"))
        except TimeoutError:
            raise self._broken() from None
        self._control.settimeout(None)

    def _broken(self) -> SandboxError:
        self._log.seek(0)
        words = self._log.read().decode(errors="replace").strip().splitlines()
        why = words[-1][:200] if words else "it gave no reason"
        remedy = "If it says that namespaces are not permitted, see docs/instructors.md, or grade with --no-sandbox."
        return SandboxError(f"The sandbox did not start: {why}. {remedy}")


class Job:
    """One process inside. Read `frames` until they end; then `why` says what ended it ("" if it was the answer)."""

    def __init__(self, bubble: Bubble, number: int, limits: Limits, channel: socket.socket, output: int) -> None:
        self.limits, self.why, self.output = limits, "", b""
        self._bubble, self._number, self._channel, self._output = bubble, number, channel, output
        self._printed, self._ended, self._closing, self._buffer = 0, False, False, bytearray()
        self._began = self._step = time.monotonic()
        channel.setblocking(False)
        os.set_blocking(output, False)

    def send(self, values: Any) -> None:
        """One frame to the job. A job that does not read is ended."""
        message = encode(values, strict=True)
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
        now = time.monotonic()
        left = min(self._began + self.limits.wall - now, self._step + self.limits.cell - now)
        if left <= 0:
            self.end("cell" if self._step + self.limits.cell <= now else "wall")
            return
        sources: list[Any] = [self._channel, self._output, self._bubble]
        readable, _, _ = select.select([one for one in sources if one != -1], writing, [], min(left, 1.0))
        if self._output in readable:
            self._take_output()
        if self._channel in readable:
            self._take_words()
        if self._bubble in readable:
            self._hear()
            self._take_words()
            self._take_output()

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
            if self._printed > self.limits.output:
                self.end("output")
                return

    def _hear(self) -> None:
        said = self._bubble.said()
        if said.get("ended") == self._number:
            self._ended = True
            if not self._closing:
                self.why = self.why or said["why"] or "ended"
