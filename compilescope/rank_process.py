"""``python -m compilescope.rank_process``: a process that has everything imported, and from which ranks are forked.

It reads one job a line (the job's folder) from its input, runs it, and answers with one line. It ends when its input
ends, when its parent is gone, or after some minutes without a job.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

import psutil
import torch
from torch import nn

from compilescope.observe import observe
from compilescope.process_ties import adopt_orphans, die_with_parent
from compilescope.rank_work import Job, work
from compilescope.torch_internals.flow import FLIGHT_RECORDER

IDLE_SECONDS = 300
STARTING = 90
"""Seconds that processes may take to start before their time counts."""
STILL = 0.02
"""Share of one core below which ranks count as waiting."""
SAID_AGAIN = 1.0
"""Seconds since the last rank was done after which one that says that it waits is believed: two of its own looks."""
MOST_BETWEEN_LOOKS = 1.0
"""Seconds that count at most from one look to the next: when the whole machine stood still, nobody waited."""


def main() -> None:
    """Serve jobs until nobody wants any more."""
    parent = os.getppid()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints must not be taken for an answer
    adopt_orphans()
    warm_up()
    print("ready", file=answers)
    while True:
        folder = _next_line(parent)
        print(json.dumps(run(Path(folder), parent)), file=answers)


def warm_up() -> None:
    """Import what a first compile imports, once for all ranks.

    A child compiles, forward and backward, and tells which modules it needed. Nothing may be compiled here: torch built
    for CUDA then counts the GPUs, of which this process sees none, and every later fork believes it.
    """
    torch.set_num_threads(1)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        before = set(sys.modules)
        _small_compile(nn.Linear(2, 2))
        with os.fdopen(writing, "w") as told:
            told.write("\n".join(name for name in list(sys.modules) if name not in before))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        names = told.read().split()
    os.waitpid(child, 0)
    for name in names:
        with contextlib.suppress(Exception):  # made by somebody else's import; a rank imports it itself
            importlib.import_module(name)


def _small_compile(layer: nn.Module) -> None:
    def small(x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = layer(x).relu().sum()
        return out

    with contextlib.suppress(Exception):  # a rank would say it again
        observe(torch.compile(small, backend="aot_eager"), torch.ones(2, 2))
    torch.compiler.reset()


def _next_line(parent: int) -> str:
    waited = 0.0
    while waited < IDLE_SECONDS and os.getppid() == parent:
        if select.select([sys.stdin], [], [], 1.0)[0]:
            line = sys.stdin.readline()
            if line.strip() not in ("", "stop"):
                return line.strip()
            if not line:
                break
        waited += 1.0
    sys.exit(0)


def run(folder: Path, parent: int) -> dict[str, Any]:
    """Fork a launcher for the job and watch it; how it ended: ``ended``, ``stopped``, ``stuck``, ``late``."""
    job = Job.read(folder)
    launcher = os.fork()
    if launcher == 0:
        _launch(folder, job)
    ended = "gone"
    try:
        ended = _watch(launcher, folder, job, parent)
        if ended in ("stuck", "late"):
            _ask_where(folder)
    finally:
        end_everything()
    if ended == "gone":
        sys.exit(0)
    return {"ended": ended}


def _watch(launcher: int, folder: Path, job: Job, parent: int) -> str:
    first = began = looked = time.monotonic()
    used, read, still = 0.0, 0, 0.0
    while True:
        if _has_ended(launcher, folder, job):
            return "ended"
        if select.select([sys.stdin], [], [], 0.02)[0]:
            return "stopped" if sys.stdin.readline() else "gone"
        now = time.monotonic()
        if os.getppid() != parent:
            return "gone"
        if now - first < STARTING and not _all_started(folder, job):
            began = now
        if now - began > job.limit:
            return "late"
        if job.backend == "nccl" and _all_wait(folder, job):
            return "stuck"
        if job.backend == "gloo" and now - looked > 0.5:
            spent, got, runnable = _done_by_ranks(launcher)
            works = runnable or got > read or spent - used > STILL * (now - looked)
            still = 0.0 if works or not _all_started(folder, job) else still + min(now - looked, MOST_BETWEEN_LOOKS)
            used, read, looked = spent, got, now
            if still > job.patience:
                return "stuck"


def _has_ended(launcher: int, folder: Path, job: Job) -> bool:
    ended, status = os.waitpid(launcher, os.WNOHANG)
    if ended and job.backend == "fake":  # rank 0 itself
        _write_failed(folder, {0: os.waitstatus_to_exitcode(status)})
    return bool(ended)


def _all_started(folder: Path, job: Job) -> bool:
    return all((folder / f"{rank}.pid").is_file() for rank in range(job.world))


def _all_wait(folder: Path, job: Job) -> bool:
    """Whether each rank that is not done says that it waits for its GPU, and has said so since the others were done."""
    done, waits = [], []
    for rank in range(job.world):
        with contextlib.suppress(FileNotFoundError):  # it moves again, this moment
            facts = folder / f"{rank}.facts"
            if facts.is_file():
                done.append(facts.stat().st_mtime)
            else:
                waits.append((folder / f"{rank}.waits").stat().st_mtime)
    return (
        bool(waits)
        and len(done) + len(waits) == job.world
        and min(waits) > max(done, default=float("-inf")) + SAID_AGAIN
    )


def _done_by_ranks(launcher: int) -> tuple[float, int, bool]:
    """CPU seconds of the ranks and of the compilers that they started, bytes read, and whether one could use more.

    On a busy machine a rank may get no CPU for seconds: it is runnable then. With a slow disk an import takes them, and
    reads. One that waits for another rank sleeps.
    """
    total, read, runnable = 0.0, 0, False
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(launcher).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                total += sum(process.cpu_times()[:4])
                runnable |= process.status() in (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP)
                if hasattr(process, "io_counters"):  # not on macOS
                    read += process.io_counters().read_chars
    return total, read, runnable


def _ask_where(folder: Path) -> None:
    """Have each rank that still works write its stack."""
    for told in folder.glob("*.pid"):
        if not told.with_suffix(".facts").exists():
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(told.read_text()), signal.SIGUSR1)
    until = time.monotonic() + 1.0
    while time.monotonic() < until and not all(p.stat().st_size for p in folder.glob("*.stack")):
        time.sleep(0.02)


def end_everything() -> None:
    """Kill and reap whatever is still below this process."""
    while below := psutil.Process().children(recursive=True):
        for process in below:
            with contextlib.suppress(psutil.Error):
                process.kill()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.005)
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _launch(folder: Path, job: Job) -> NoReturn:
    """In the forked launcher: start the ranks, wait for them, leave with 0; failures lie in the folder."""
    code = 1
    try:
        os.setsid()
        die_with_parent()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        with (folder / "launcher.log").open("w") as log:
            os.dup2(log.fileno(), 2)
            os.dup2(log.fileno(), 1)
        os.environ |= FLIGHT_RECORDER
        os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
        if job.backend == "nccl":
            os.environ["CUDA_VISIBLE_DEVICES"] = job.gpus or ""
            if job.gpus is None:
                del os.environ["CUDA_VISIBLE_DEVICES"]
            # Connected at the first collective, a rank that comes to it alone would wait in NCCL with its GPU idle.
            os.environ["NCCL_RUNTIME_CONNECT"] = "0"
        else:  # ranks that share a few cores
            os.environ |= {"TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}
        _alone(folder, job) if job.backend == "fake" else _with_elastic(folder, job)
        code = 0
    except BaseException:
        (folder / "launcher.error").write_text(traceback.format_exc(), encoding="utf-8")
    finally:
        os._exit(code)


def _alone(folder: Path, job: Job) -> None:
    os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(job.world)}
    with (folder / "0.out").open("w") as out:
        os.dup2(out.fileno(), 1)
        sys.stdout = os.fdopen(os.dup(1), "w", buffering=1)
        work(str(folder))
        sys.stdout.flush()


def _with_elastic(folder: Path, job: Job) -> None:
    """What torchrun does: a rendezvous on a free port, one process a rank, all ended when one fails."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=job.world,
        run_id=folder.name,
        rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:0",
        local_addr="127.0.0.1",
        max_restarts=0,
        monitor_interval=0.05,
        start_method="fork",
        logs_specs=DefaultLogsSpecs(log_dir=str(folder / "logs"), redirects=Std.ALL),
    )
    try:
        elastic_launch(config, work)(str(folder))
    except ChildFailedError as error:
        _write_failed(folder, {rank: failure.exitcode for rank, failure in error.failures.items()})


def _write_failed(folder: Path, codes: dict[int, int]) -> None:
    (folder / "failed.json").write_text(json.dumps(codes), encoding="utf-8")


if __name__ == "__main__":
    main()
