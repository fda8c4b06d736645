"""The grader's side of the sandbox: start it, give it jobs, read what they say, end them.

``with Bubble(exercises) as bubble: job = bubble.start(limits); job.send(order); for frame in job.frames(): …``.
Jobs may live beside each other; each hears of its own end. `SandboxError` says that there is no sandbox here, or that
it broke: never the submission's fault.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from autograder.exercise import Exercise
from autograder.nbgrader_config import ROOT
from autograder.sandbox import as_nobody
from autograder.sandbox.gpu_memory import taken_by
from autograder.sandbox.job import Job
from autograder.sandbox.limits import Limits
from autograder.sandbox.required import SandboxError
from autograder.sandbox.scratch import Scratch
from autograder.sandbox.visible import write_library

START_SECONDS = 300.0


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
        command += ["--ro-bind", str(prefix), str(inside(prefix))]
    command += ["--ro-bind", str(library), "/course", "--ro-bind", str(cache), "/cache"]
    command += ["--ro-bind", str(ROOT / "compilescope"), "/course/compilescope"]
    command += ["--ro-bind", str(ROOT / "assets"), "/course/assets", "--chdir", "/tmp"]
    if gpu:
        command += ["--ro-bind", "/sys", "/sys"]
        command += [part for node in sorted(Path("/dev").glob("nvidia*")) for part in ("--dev-bind", *[str(node)] * 2)]
    command += ["--remount-ro", "/dev", "--remount-ro", "/"]  # the next job must find nothing of this one
    for name, value in environment(gpu).items():
        command += ["--setenv", name, value]
    return command, shown


def inside(path: Path) -> Path:
    """Where the sandbox shows a path of this Python: the job's own /tmp would hide what lies in /tmp."""
    for prefix in (Path(sys.prefix), Path(sys.base_prefix)):
        if prefix.is_relative_to("/tmp") and path.is_relative_to(prefix):
            return Path("/python", prefix.name, path.relative_to(prefix))
    return path


def environment(gpu: bool) -> dict[str, str]:
    """Everything that is in the environment of a job; of a grader's own only which GPU it was given, if `gpu`."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES") if gpu else ""
    return ({} if given is None else {"CUDA_VISIBLE_DEVICES": given}) | {
        # Otherwise asking whether there is a GPU would keep every fork of the asking process from using it.
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        "PATH": f"{inside(Path(sys.prefix))}/bin:/usr/local/bin:/usr/bin:/bin",
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
        # Else each compile gives its memory back, and the next one takes it anew, page by page.
        "MALLOC_TRIM_THRESHOLD_": "1000000000",
        "MALLOC_MMAP_THRESHOLD_": "64000000",
        "MALLOC_TOP_PAD_": "64000000",
    }


class Bubble:
    """One sandbox with its zygote. `cache` is the trusted compile cache; without it each job compiles everything."""

    def __init__(
        self, exercises: Iterable[Exercise], cache: Path | None = None, *, gpu: bool = False, isolated: bool = True
    ) -> None:
        self._isolated = isolated
        self._scratch = Scratch()
        self._folder = self._scratch.path
        self._gpu, self._number = gpu, 0
        self._ended: dict[int, dict[str, Any]] = {}
        self._folder.chmod(0o755)
        library = self._folder / "library"
        write_library(library, exercises)
        for name in ("compilescope", "assets") if isolated else ():
            (library / name).mkdir()
        self._empty = self._folder / "cache"
        self._empty.mkdir()
        command, shown = bwrap_command(library, cache or self._empty, gpu) if isolated else ([], [])
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        python = inside(Path(sys.executable)) if isolated else sys.executable
        program = [str(python), "-m", "autograder.sandbox.zygote", str(theirs.fileno())]
        if isolated and os.geteuid() == 0:
            command = [sys.executable, "-I", str(as_nobody.__file__), *map(str, shown), "--", *command]
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
        self._scratch.remove()

    def start(self, limits: Limits, *doors: socket.socket) -> Job:
        """A fresh process for one exercise of one submission. One that is to be a kernel gets its `doors` with it."""
        self._wait_until_ready()
        self._number += 1
        channel, theirs = socket.socketpair()
        reading, writing = os.pipe()
        order = {"start": self._number, "limits": asdict(limits), "gpu": self._gpu, "isolated": self._isolated}
        try:
            descriptors = [theirs.fileno(), writing, *(door.fileno() for door in doors)]
            socket.send_fds(self._control, [json.dumps(order).encode()], descriptors)
        except OSError as error:
            raise self._broken() from error
        finally:
            for end in (theirs, *doors):
                end.close()
            os.close(writing)
        return Job(self, self._number, limits, channel, reading)

    def kill(self, number: int, why: str) -> None:
        """Ask the zygote to end a job; `ended` tells when it has."""
        with contextlib.suppress(OSError):
            self._control.send(json.dumps({"kill": number, "why": why}).encode())

    def has_ended(self, number: int) -> bool:
        """Whether the zygote's word on the end of that job has come while another job was heard."""
        return number in self._ended

    def said(self, number: int) -> dict[str, Any]:
        """The zygote's word on the end of that job; waits for its next word, and is empty if that is of another job.

        Raises SandboxError if the zygote is gone.
        """
        if number in self._ended:
            return self._ended.pop(number)
        word = self._next_word()
        if word.get("ended") == number:
            return word
        self._ended[word["ended"]] = word
        return {}

    def _next_word(self) -> dict[str, Any]:
        data = self._control.recv(65536)
        if not data:
            raise self._broken()
        said: dict[str, Any] = json.loads(data)
        return said

    def fileno(self) -> int:
        """Of the control socket, for `select`."""
        return self._control.fileno()

    def gpu_memory(self) -> int:
        """Bytes of the GPU's memory that is taken inside; 0 without a GPU."""
        return taken_by(process.pid for process in self.processes()) if self._gpu else 0

    def processes(self) -> list[psutil.Process]:
        """The zygote and its jobs: what bubblewrap's own processes run."""
        everybody = psutil.Process(self._process.pid).children(recursive=True)
        return [one for one in everybody if one.name() != "bwrap"]

    def _wait_until_ready(self) -> None:
        if self._ready:
            return
        self._control.settimeout(START_SECONDS)
        try:
            self._ready = bool(self._next_word().get("ready"))
        except TimeoutError:
            late = f"The sandbox did not start in {START_SECONDS:.0f} s: this machine is too busy"
            raise SandboxError(f"{late}. Grade with fewer --workers, or later; nothing is lost.") from None
        self._control.settimeout(None)

    def _broken(self) -> SandboxError:
        self._log.seek(0)
        words = self._log.read().decode(errors="replace").strip().splitlines()
        why = words[-1][:200] if words else "it gave no reason"
        remedy = "If it says that namespaces are not permitted, see docs/instructors.md, or grade with --no-sandbox."
        return SandboxError(f"The sandbox did not start: {why}. {remedy}")
