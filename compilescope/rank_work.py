"""What happens in one rank: join the group, call the function under `observe`, leave files with what came out."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from compilescope import ranks_send
from compilescope.observe import observe
from compilescope.process_ties import die_with_parent
from compilescope.reading import cells
from compilescope.reading.stacks import belongs_to_learner
from compilescope.torch_internals.fake_group import join_fake_group
from compilescope.torch_internals.flow import watching_flow


@dataclass(frozen=True)
class Job:
    """What the ranks are to do; lies as ``job.json`` beside ``job.packed``, the function, in the job's folder."""

    function: str
    world: int
    backend: str
    watch: bool
    limit: float
    patience: float
    threads: int
    path: list[str]
    cwd: str
    texts: dict[str, str]
    cells: dict[str, int]
    gpus: str | None
    """``CUDA_VISIBLE_DEVICES`` of the notebook; None if it is not set."""

    @staticmethod
    def read(folder: Path) -> Job:
        """The job of that folder."""
        return Job(**json.loads((folder / "job.json").read_text(encoding="utf-8")))


def work(folder_name: str) -> None:
    """The whole life of one rank. What the function raises is written down and passes on.

    The group is left as it is: a rank that is done must not tear it down for another that still waits in it, and the
    process ends soon anyway.
    """
    folder, rank = Path(folder_name), int(os.environ["RANK"])
    die_with_parent()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the launcher's own handler would wait for a collective to end
    stack = (folder / f"{rank}.stack").open("w")
    faulthandler.register(signal.SIGUSR1, file=stack, all_threads=False)
    (folder / f"{rank}.pid").write_text(str(os.getpid()))
    job = Job.read(folder)
    try:
        _write(folder, rank, _observed(folder, rank, job))
    except BaseException as error:
        (folder / f"{rank}.error").write_text(json.dumps(_told(error)), encoding="utf-8")
        raise
    finally:
        faulthandler.unregister(signal.SIGUSR1)


def _observed(folder: Path, rank: int, job: Job) -> dict[str, Any]:
    sys.path[:] = job.path
    os.chdir(job.cwd)
    sys.modules["__main__"] = types.ModuleType("__main__")
    ranks_send.know_sources(job.texts)
    cells.know_numbers(job.cells)
    torch.set_num_threads(job.threads)
    _join(rank, job, folder / f"{rank}.waits")
    torch.manual_seed(0)
    fn, args = ranks_send.unpack((folder / "job.packed").read_bytes())
    flow: list[dict[str, Any]] = []
    began = time.perf_counter()
    with contextlib.ExitStack() as stack:
        run = stack.enter_context(observe())
        if job.watch:
            stack.enter_context(watching_flow(flow))
        else:
            stack.close()
        result = fn(*args)
    spent = time.perf_counter() - began
    plain = ranks_send.to_plain(result, job.function)
    return {"run": run.to_json(), "flow": flow, "seconds": spent, "result": plain}


def _join(rank: int, job: Job, told: Path) -> None:
    if job.backend == "fake":
        join_fake_group(rank, job.world)
        return
    gpu = torch.device("cuda", rank) if job.backend == "nccl" else None
    if gpu:
        torch.cuda.set_device(gpu)
        torch.set_default_device(gpu)
    dist.init_process_group(job.backend, device_id=gpu)  # with a GPU, ranks meet here and not in the first collective
    if gpu:
        stream = torch.cuda.current_stream(gpu)
        look = threading.Thread(
            target=tell_when_still, args=(told, job.patience, lambda: not stream.query()), daemon=True
        )
        look.start()


def _stack(frame: types.FrameType | None) -> list[tuple[types.CodeType, int]]:
    """Code and instruction, innermost first."""
    found = []
    while frame:
        found.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return found


def tell_when_still(told: Path, patience: float, is_busy: Callable[[], bool], step: float = 0.5) -> None:
    """For ever: keep the file `told` there while all of this process stands still and its GPU is not done.

    A rank that waits for a GPU computes at full speed, so nobody sees from outside that it waits. Here it is seen: no
    thread gets to another instruction, and what the GPU was asked for does not come. To be called in a thread.

    Args:
        told: the file that there is, or is not.
        patience: seconds without another instruction from which on it counts.
        is_busy: whether the GPU still has to do what it was asked for; called only when nothing else moves.
        step: seconds between two looks.
    """
    me, seen, still = threading.get_ident(), None, 0.0
    while True:
        time.sleep(step)
        where = {thread: _stack(frame) for thread, frame in sys._current_frames().items() if thread != me}
        still, seen = still + step if where == seen else 0.0, where
        if still >= patience and is_busy():
            told.touch()
        else:
            told.unlink(missing_ok=True)


def _write(folder: Path, rank: int, found: dict[str, Any]) -> None:
    torch.save(found.pop("result"), folder / f"{rank}.result")
    part = folder / f"{rank}.part"
    part.write_text(json.dumps(found), encoding="utf-8")
    part.rename(folder / f"{rank}.facts")


def _told(error: BaseException) -> dict[str, Any]:
    """When, what, and where in the learner's own lines, outermost first."""
    names = cells.CellNames(cells.cell_numbers())
    steps = [
        [names.file(step.filename), step.lineno or 0, step.name, step.line or ""]
        for step in traceback.extract_tb(error.__traceback__)
        if belongs_to_learner(step.filename) and "compilescope" not in Path(step.filename).parts
    ]
    said = str(error).strip()
    return {"at": time.time(), "kind": type(error).__name__, "message": said, "steps": steps}
