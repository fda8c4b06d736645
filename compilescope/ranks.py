"""Real ranks from a notebook: `on_ranks` calls your function in several processes and brings their facts back."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import cattrs
import torch
import torch.distributed as dist

from compilescope import ranks_send
from compilescope.facts import Run
from compilescope.facts_ranks import Happening, Rank, Ranks
from compilescope.rank_fork import Forked
from compilescope.ranks_failed import RankError, failure_of, log_of
from compilescope.ranks_send import NotSendableError
from compilescope.waiting import waiting_for

__all__ = ["NotSendableError", "RankError", "on_ranks"]

ON_A_GPU = 2
"""Times as much patience: others may use the GPU, too, and then whoever computes on it waits for longer."""
_FAKE_NOTE = "A fake process group: collectives moved nothing, so graphs are true and numbers are not."


def on_ranks(
    fn: Callable[..., Any],
    /,
    *args: Any,
    world: int = 2,
    fake: bool = False,
    watch: bool = True,
    limit: float = 120.0,
    patience: float = 6.0,
) -> Ranks:
    """Call ``fn(*args)`` on `world` ranks at once: one process each, with a process group, observed.

    Inside, ``torch.distributed.get_rank()`` says which rank it is. The group is Gloo on CPU; where there are `world`
    GPUs it is NCCL, and each rank's default device is its own GPU (fewer GPUs are not used). Each rank has one thread
    and the random seed 0. `fn` and all that it uses of the notebook are sent along, tensors of a GPU to that default
    device; settings of torch are not, so make them inside `fn`.

    Args:
        fn: what each rank calls. It may return numbers, text, tensors, Runs, and lists or dicts of them.
        args: arguments for it, sent by value.
        world: number of ranks.
        fake: only rank 0 runs, in a group of `world` ranks that do not exist: true graphs, no true numbers.
        watch: False leaves out all observing, for a function that measures its own time: no graphs, no order.
        limit: seconds after which all is ended, once all ranks have started.
        patience: seconds without any rank computing after which they count as waiting for each other. Over NCCL twice
            as many without any rank getting on in its code while its GPU is busy: more for one long computation.

    Returns:
        `Ranks`: of each rank its Run, the order of its graphs and collectives, its result and what it printed.

    Raises:
        RankError: a rank raised, died or waited for ever; names the rank and the line. All ranks are ended then.
        NotSendableError: `fn` uses something that cannot leave this process.
    """
    if sys.platform == "win32":
        raise RuntimeError("Ranks need Linux or macOS: on Windows open the course in WSL.")
    if not callable(fn):
        raise TypeError(f"on_ranks wants a function to call on each rank, but got a {type(fn).__name__}.")
    if world < 1 or (world > 16 and not fake):
        raise ValueError(f"world is the number of processes, 1 to 16, not {world}; with fake=True it may be larger.")
    packed = ranks_send.pack(fn, args)
    name = getattr(fn, "__name__", type(fn).__name__)
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder_name, waiting_for("ranks") as say:
        folder = Path(folder_name)
        (folder / "job.packed").write_bytes(packed)
        job = _job(name, world, "fake" if fake else _backend(world)) | {"watch": watch, "limit": limit}
        job["patience"] = patience * (ON_A_GPU if job["backend"] == "nccl" else 1)
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        ended = _template.serve(folder, lambda step: say(f"{world} ranks: {step}"))
        return _collect(folder, job, ended)


def _job(name: str, world: int, backend: str) -> dict[str, Any]:
    return {
        "function": name,
        "world": world,
        "backend": backend,
        "threads": 1,
        "path": sys.path,
        "cwd": str(Path.cwd()),
        "texts": ranks_send.sources(),
        "cells": ranks_send.cells(),
        "gpus": os.environ.get("CUDA_VISIBLE_DEVICES"),
    }


def _backend(world: int) -> str:
    # One GPU for all ranks would not do. NCCL refuses two ranks on it. Gloo takes tensors of a GPU, but copies each to
    # the CPU and back, and each rank would begin CUDA for it.
    return "nccl" if torch.cuda.device_count() >= world and dist.is_nccl_available() else "gloo"


def _collect(folder: Path, job: dict[str, Any], ended: str) -> Ranks:
    count = 1 if job["backend"] == "fake" else job["world"]
    printed = [log_of(folder, rank, "stdout") for rank in range(count)]
    for rank, text in enumerate(printed):
        for line in text.splitlines():
            print(f"[rank {rank}] {line}")
    if failure := failure_of(folder, job, ended, count):
        raise failure
    ranks = tuple(_rank(folder, rank, text) for rank, text in enumerate(printed))
    notes = (_FAKE_NOTE,) if job["backend"] == "fake" else ()
    return Ranks(job["function"], job["world"], job["backend"], ranks, notes)


def _rank(folder: Path, rank: int, printed: str) -> Rank:
    stored = json.loads((folder / f"{rank}.facts").read_text(encoding="utf-8"))
    result = ranks_send.from_plain(torch.load(folder / f"{rank}.result", weights_only=True))
    run = Run.from_json(stored["run"])
    run = dataclasses.replace(run, origin=dataclasses.replace(run.origin, rank=rank))
    flow = cattrs.structure(stored["flow"], tuple[Happening, ...])
    return Rank(rank, run, flow, printed, stored["seconds"], result)


class _Template:
    """The process that ranks are forked from: started at the first call, ended with this process or when idle."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | Forked | None = None
        self._is_ready = False
        self._answers: SimpleQueue[str] = SimpleQueue()
        self._lock = threading.Lock()
        atexit.register(self.end)

    def serve(self, folder: Path, say: Callable[[str], None]) -> str:
        """Run the job in `folder`; how it ended. KeyboardInterrupt ends the ranks and passes."""
        with self._lock:
            self._ready(say)
            assert self._process
            assert self._process.stdin
            try:
                print(folder, file=self._process.stdin, flush=True)
                answer = self._answer(lambda: say("they run your function"))
            except KeyboardInterrupt:
                self._stop()
                raise
            return str(json.loads(answer)["ended"]) if answer else "gone"

    def fork_now(self) -> None:
        """Start it as a fork of this process as it is now."""
        with self._lock:
            self.end()
            self._process = Forked(_settings())

    def _is_there(self) -> bool:
        process = self._process
        return bool(process and process.poll() is None and process.stdin and not process.stdin.closed)

    def _ready(self, say: Callable[[str], None]) -> None:
        if self._is_ready and self._is_there():
            return
        if not self._is_there():
            self.end()
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "compilescope.rank_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=os.environ | _settings(),
                start_new_session=True,  # an interrupt of the notebook must not reach it half-way
            )
        assert self._process
        self._answers = SimpleQueue()
        threading.Thread(target=_pump, args=(self._process, self._answers), daemon=True).start()
        try:
            if self._answer(lambda: say("Python starts and imports torch")) != "ready":
                raise RuntimeError(
                    "The process that ranks come from did not start: python -m compilescope.rank_process"
                )
        except BaseException:
            self.end()
            raise
        self._is_ready = True

    def _answer(self, meanwhile: Callable[[], None]) -> str:
        """The next line of the process; empty if it ended."""
        while True:
            with contextlib.suppress(Empty):
                return self._answers.get(timeout=0.25)
            meanwhile()

    def _stop(self) -> None:
        assert self._process
        assert self._process.stdin
        print("stop", file=self._process.stdin, flush=True)
        self._answer(lambda: None)

    def end(self) -> None:
        """End the process, and with it all ranks there are."""
        process, self._process, self._is_ready = self._process, None, False
        if process is None:
            return
        with contextlib.suppress(OSError, ValueError):
            if process.stdin:
                process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            with contextlib.suppress(OSError, ValueError):
                process.stdout.close()


def _settings() -> dict[str, str]:
    here = str(Path(__file__).parents[1])
    path = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    # Nobody may use CUDA and then be forked: this process never sees a GPU, and counts none in CUDA's own way.
    return {
        "PYTHONPATH": path,
        "CUDA_VISIBLE_DEVICES": "",
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        "OMP_NUM_THREADS": "1",
    }


def _pump(process: subprocess.Popen[str] | Forked, answers: SimpleQueue[str]) -> None:
    with contextlib.suppress(OSError, ValueError):
        for line in process.stdout or ():
            answers.put(line.strip())
    answers.put("")


_template = _Template()


def fork_rank_process() -> None:
    """Fork the process that ranks are forked from now, for calls of `on_ranks` to come: no import is waited for.

    Only for a process that has no thread yet and in which no learner's code ran: ranks find torch as it is here.
    """
    _template.fork_now()


def end_ranks() -> None:
    """End the waiting process that ranks are forked from; the next call starts it anew (some seconds)."""
    _template.end()
