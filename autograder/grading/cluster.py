"""Examiners on a Dask cluster: `pool.examine_all` for more than one machine (``grade --scheduler ADDRESS``).

A worker grades one submission at a time, as a worker of the pool does: it starts the sandbox, and no student code runs
in the worker itself, so that a worker that dies is the machine's failure. A task carries the notebook's bytes: workers
need the course, and no submissions. Its result is named by submission and grader, taken as soon as it is there, and
released; a second run of the same task gives the same. Only what a machine did wrong is tried again.
"""

from __future__ import annotations

import atexit
import dataclasses
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from distributed import Client, KilledWorker, as_completed, get_worker

from autograder.build import Lesson
from autograder.errors import CourseError
from autograder.exercises import of_lesson
from autograder.grading.examiner import LARGEST, Examiner
from autograder.grading.pool import TRIES, Settings, Task
from autograder.grading.stamp import stamp_of
from autograder.learner import CACHE
from autograder.nbgrader_config import ROOT
from autograder.sandbox.limits import Limits

GPU = "GPU"
"""The resource of workers that have one GPU to themselves: ``dask worker --nthreads 1 --resources GPU=1``."""
AHEAD = 4
"""Submissions on their way for each worker: enough to keep it busy, few enough to lose little."""

FILE_SECONDS = 20.0
"""Seconds in which a scheduler writes its file."""


@dataclass(frozen=True)
class Order:
    """Everything a worker needs to grade one submission. `file` is its notebook; None if there is none to read."""

    lesson: str
    root: str
    student: str
    key: str
    file: bytes | None
    stamp: str
    secret: str
    limits: Limits
    isolated: bool


def examine_all(lesson: Lesson, tasks: Iterable[Task], settings: Settings) -> Iterator[tuple[Task, Any]]:
    """Grade all `tasks` on the cluster that ``settings.scheduler`` names; results as they come, in `pool`'s form."""
    left = iter(tasks)
    with _cluster(settings.scheduler) as client:
        if not client.nthreads():
            print("The scheduler has no worker yet; the submissions wait for one.", flush=True)
        on_the_way: dict[str, Task] = {}
        orders: dict[str, Order] = {}
        judged: dict[str, Any] = {}
        done = as_completed()

        def send() -> None:
            for task in islice(left, max(AHEAD, AHEAD * len(client.nthreads())) - len(on_the_way)):
                order = _order(lesson, task, settings)
                name = f"{lesson.name}-{task.key}-{task.student}"
                on_the_way[name], orders[name] = task, order
                done.add(client.submit(examine, order, key=name, retries=TRIES - 1))

        send()
        for future in done:
            name = future.key.removesuffix("-race")
            result = _outcome(future)
            if isinstance(result, dict) and name == future.key and _wants_race(client, lesson, result):
                judged[name] = result
                race_it = {"key": f"{name}-race", "resources": {GPU: 1}, "retries": TRIES - 1}
                done.add(client.submit(race, orders[name], json.dumps(result), **race_it))
            else:
                del orders[name]
                before = judged.pop(name, result)  # a race that a machine could not run costs nothing
                yield on_the_way.pop(name), before if isinstance(result, str) else result
            future.release()
            send()


def _order(lesson: Lesson, task: Task, settings: Settings) -> Order:
    small = task.path.is_file() and not task.path.is_symlink() and task.path.stat().st_size <= LARGEST
    return Order(
        lesson.name, str(lesson.root), task.student, task.key, task.path.read_bytes() if small else None,
        stamp_of(lesson), os.environ.get("COURSE_SECRET", ""), settings.limits, settings.isolated,
    )  # fmt: skip


def _outcome(future: Any) -> Any:
    """A result, or a sentence on what the machines did wrong."""
    error = future.exception()
    if error is None:
        return json.loads(future.result())
    if isinstance(error, KilledWorker):
        return f"the workers that graded it ended: {error.last_worker.address} was the last"
    return str(error) or type(error).__name__


def _wants_race(client: Client, lesson: Lesson, result: dict[str, Any]) -> bool:
    """Whether a right answer has a bonus for speed, and the cluster a GPU to race it on."""
    with_bonus = {exercise.name for exercise in of_lesson(lesson.name) if exercise.bonus}
    if not any(ruling["passed"] and ruling["exercise"] in with_bonus for ruling in result["rulings"]):
        return False
    return any(
        worker.get("resources", {}).get(GPU) for worker in client.scheduler_info(n_workers=-1)["workers"].values()
    )


def examine(order: Order) -> str:
    """On a worker: grade; the result as JSON. Raises only for what is no student's doing."""
    return _on_file(order, lambda examiner, path: examiner.examine(order.student, path, order.key, race=False))


def race(order: Order, result: str) -> str:
    """On a worker with a GPU, which no other task has meanwhile: the result with how fast its right answers are."""
    return _on_file(order, lambda examiner, path: examiner.race(path, json.loads(result)))


def _on_file(order: Order, work: Callable[[Examiner, Path], Any]) -> str:
    examiner = _kept_examiner(order)
    with tempfile.TemporaryDirectory(prefix="course-") as folder:
        path = Path(folder) / examiner.lesson.learner.name
        if order.file is not None:
            path.write_bytes(order.file)
        try:
            return json.dumps(work(examiner, path))
        except BaseException:
            _end_kept()
            raise


_kept: dict[Order, Examiner] = {}
"""The examiner of this worker, with what it was made for."""


def _kept_examiner(order: Order) -> Examiner:
    """This worker's examiner for such orders. CourseError if the worker cannot grade them."""
    kind = dataclasses.replace(order, student="", key="", file=None)
    if kind not in _kept:
        _end_kept()
        if get_worker().state.nthreads != 1:
            raise CourseError("A worker grades one submission at a time: start it with --nthreads 1, and more of them.")
        os.environ["COURSE_SECRET"] = order.secret
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        shared = Lesson(order.lesson, Path(order.root))
        lesson = shared if shared.learner.exists() else Lesson(order.lesson, ROOT)
        stamp = stamp_of(lesson) if lesson.learner.exists() else ""
        if stamp != order.stamp:
            raise CourseError(f"The worker on {os.uname().nodename} has another version of the course: update it.")
        cache = CACHE / "grading" / os.uname().nodename / lesson.name / stamp[:16]
        _kept[kind] = Examiner(lesson, order.limits, cache, order.isolated)
        atexit.register(_end_kept)
    return _kept[kind]


def _end_kept() -> None:
    while _kept:
        _kept.popitem()[1].__exit__()


def _cluster(where: str, seconds: float = 60) -> Client:
    """A client of the scheduler at an address, of a scheduler file, or of jobs that a ``.yaml`` file describes."""
    try:
        if where.endswith((".yaml", ".yml")):
            return _of_jobs(Path(where))
        if where.endswith(".json"):
            _wait_for(Path(where), min(seconds, FILE_SECONDS))  # a client would wait for the file without an end
            return Client(scheduler_file=where, timeout=seconds)
        return Client(where, timeout=seconds)
    except (OSError, ValueError) as error:
        raise CourseError(f"There is no Dask scheduler at {where}: {str(error).splitlines()[0]}") from error


def _wait_for(file: Path, seconds: float) -> None:
    """Until a scheduler that was just started has written its file. FileNotFoundError if it does not."""
    until = time.monotonic() + seconds
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.1)
    file.read_bytes()


def _of_jobs(file: Path) -> Client:
    """A cluster of batch jobs: ``system`` (SLURM, PBS…) and ``jobs`` (how many), the rest is dask-jobqueue's."""
    import dask_jobqueue
    import yaml

    wanted = yaml.safe_load(file.read_text(encoding="utf-8"))
    if not isinstance(wanted, dict) or "system" not in wanted:
        raise CourseError(f"{file.name} names no batch system. Begin it with: system: SLURM")
    system, jobs = wanted.pop("system"), int(wanted.pop("jobs", 1))
    kind = getattr(dask_jobqueue, f"{system}Cluster", None)
    if kind is None:
        raise CourseError(f'dask-jobqueue knows no batch system "{system}": see its documentation.')
    made = kind(**{"cores": 1, "processes": 1, **wanted})
    made.scale(jobs=jobs)
    return _OwnedClient(made)


class _OwnedClient(Client):  # type: ignore[misc]
    """A client that ends its cluster, too."""

    def close(self, *arguments: Any, **options: Any) -> Any:
        """Close the client, then the cluster's jobs."""
        closed, cluster = super().close(*arguments, **options), self.cluster
        if cluster is not None:
            cluster.close()
        return closed
