"""Examiners in processes of their own: the default engine. Another engine needs only `examine_all`'s shape.

``examine_all(lesson, tasks, settings)`` yields ``(task, result)`` in any order, where `result` is an
`examiner.Result`, or a sentence if the machine failed three times; a submission's own crash is a result.
"""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import multiprocessing.connection
import multiprocessing.forkserver
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.build import Lesson
from autograder.sandbox.limits import Limits

TRIES = 3
MEMORY_OF_A_WORKER = 1_200_000_000
"""Bytes that an examiner and its zygote need before a submission takes any."""


@dataclass(frozen=True)
class Task:
    """One submission: its student, its notebook, and the name of this grading of it."""

    student: str
    path: Path
    key: str


@dataclass(frozen=True)
class Settings:
    """How to grade: worker processes, limits of one exercise, the trusted compile cache, whether to isolate.

    `scheduler` names a Dask cluster, see `cluster`; empty for processes of this machine.
    """

    workers: int = 1
    limits: Limits = field(default_factory=Limits)
    cache: Path | None = None
    isolated: bool = True
    scheduler: str = ""


Engine = Callable[[Lesson, Iterable[Task], Settings], Iterator[tuple[Task, Any]]]


def key_of(path: Path, stamp: str) -> str:
    """Names one grading of one file: the same bytes, by the same grader, with the same questions."""
    content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
    return hashlib.sha256(stamp.encode() + b"\0" + content).hexdigest()[:24]


def workers_that_fit(limits: Limits) -> int:
    """As many workers as there are cores, and as memory has room for."""
    cores = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = 1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])
        return max(1, min(cores, free // (MEMORY_OF_A_WORKER + limits.memory // 2)))
    return cores


def start_early() -> None:
    """Begin to import what a worker needs, in the process that workers are forked from, while the caller goes on."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    multiprocessing.set_forkserver_preload(["autograder.grading.examiner"])
    multiprocessing.forkserver.ensure_running()


def examine_all(lesson: Lesson, tasks: Iterable[Task], settings: Settings) -> Iterator[tuple[Task, Any]]:
    """Grade all `tasks`; results as they come. A worker that dies is replaced, and its task tried again."""
    start_early()
    left = deque(tasks)
    tried: Counter[str] = Counter()
    workers = [_Worker(lesson, settings) for _ in range(min(settings.workers, len(left)))]
    try:
        for worker in workers:
            worker.give(left.popleft() if left else None)
        while busy := [worker for worker in workers if worker.task is not None]:
            ready = multiprocessing.connection.wait([worker.pipe for worker in busy])
            for worker in [worker for worker in busy if worker.pipe in ready]:
                task, result = worker.take()
                if result is None or isinstance(result, str):
                    tried[task.student] += 1
                    if tried[task.student] < TRIES:
                        left.append(task)
                    else:
                        yield task, result or "the worker that graded it ended three times"
                else:
                    yield task, result
                worker.give(left.popleft() if left else None)
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """One process with an examiner; restarted when it is given work after it died."""

    def __init__(self, lesson: Lesson, settings: Settings) -> None:
        self.lesson, self.settings = lesson, settings
        self.task: Task | None = None
        self._begin()

    def _begin(self) -> None:
        context = multiprocessing.get_context("forkserver")
        for tries_left in reversed(range(TRIES)):
            self.pipe, theirs = context.Pipe()
            self.process = context.Process(target=_work, args=(theirs, self.lesson, self.settings), daemon=True)
            try:
                self.process.start()
                return
            except (EOFError, OSError):  # whatever killed a worker killed the process that workers are forked from, too
                self.pipe.close()
                if not tries_left:
                    raise
                time.sleep(0.2)
            finally:
                theirs.close()

    def give(self, task: Task | None) -> None:
        """Begin a task; None leaves it idle."""
        self.task = task
        if task is None:
            return
        try:
            self.pipe.send(task)
        except OSError:
            self.end()
            self._begin()
            self.pipe.send(task)

    def take(self) -> tuple[Task, Any]:
        """The task and what came of it: a result, a sentence, or None if the process died."""
        assert self.task is not None
        try:
            return self.task, self.pipe.recv()
        except (EOFError, OSError):
            self.end()
            self._begin()
            return self.task, None

    def end(self) -> None:
        """End the process and its sandbox."""
        self.pipe.close()
        self.process.join(timeout=5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _work(pipe: Any, lesson: Lesson, settings: Settings) -> None:
    """The worker: one task after the other until the pipe closes."""
    from autograder.errors import CourseError
    from autograder.grading.examiner import Examiner

    examiner: Examiner | None = None
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            task: Task = pipe.recv()
            try:
                examiner = examiner or Examiner(lesson, settings.limits, settings.cache, settings.isolated)
                pipe.send(examiner.examine(task.student, task.path, task.key))
            except CourseError as error:
                if examiner is not None:
                    examiner.__exit__()
                examiner = None
                pipe.send(str(error))
            except OSError as error:  # a full disk, mostly
                pipe.send(f"{error.strerror}: {error.filename or 'a temporary file'}. Make room, then: --retry failed")
    if examiner is not None:
        examiner.__exit__()
