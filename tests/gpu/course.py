"""Every lesson on a real GPU: solved, unsolved, known mistakes and other right answers, with seconds and GPU memory.

On the GPU machine: ``python tests/gpu/course.py -o FOLDER [LESSON ...]``. The solved notebooks come first, a few at a
time, since their seconds count; then the unsolved ones and each exercise by itself, many at a time. Each is a process
of its own with a cold cache. The table is written anew after each, so that a run that is cut off keeps what it found.
``--gpus 0 1`` spreads them over two GPUs; ``--gpus 0,1`` lets each see both, which makes the ranks of lessons 6 and 8
meet over NCCL.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autograder.build import Lesson, lesson_named, lessons
from autograder.exercises import of_lesson
from autograder.prove import Proof, alternative_problems, mistake_problems, solved_problems, unsolved_problems
from course_table import Proved, table
from gpu_memory import Watch

CAP = 25.0
"""Seconds within which a killed part's processes must be gone."""
Unit = tuple[str, str]
"""Name of a lesson, and ``solved``, ``unsolved`` or the name of an exercise."""


def proof_of(lesson: Lesson, part: str) -> Proof:
    """What `autograder check` proves of this part of a lesson."""
    proof = Proof(lesson.name)
    if part in ("solved", "unsolved"):
        problems = solved_problems(proof, lesson) if part == "solved" else unsolved_problems(proof, lesson)
        proof.problems.extend(problems)
        return proof
    (exercise,) = [one for one in of_lesson(lesson.name) if one.name == part]
    for mistake in exercise.known_mistakes:
        proof.judged += 1
        proof.problems.extend(mistake_problems(exercise, mistake))
    for code in exercise.alternatives:
        proof.judged += 1
        proof.problems.extend(alternative_problems(exercise, code))
    return proof


def said(lesson: str, part: str) -> dict[str, Any]:
    """The proof as JSON, from inside the process of a part."""
    proof = proof_of(lesson_named(lesson), part)
    return {
        "problems": proof.problems,
        "seconds": proof.seconds.get(part),
        "slowest": proof.slowest.get(part),
        "judged": proof.judged,
    }


def run(unit: Unit, gpus: str, limit: float, watch: Watch, out: Path) -> Proved:
    """One part in a process of its own; what it wrote beside its answer goes to a file of its name."""
    began = time.monotonic()
    answer = out / f"{unit[0]}.{unit[1]}.json"
    answer.unlink(missing_ok=True)
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache,
        (out / f"{unit[0]}.{unit[1]}.log").open("w") as log,
    ):
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, "TRITON_CACHE_DIR": f"{cache}/triton"}
        if unit[1] != "solved":  # many at a time: a pool of compilers for each core would be in each other's way
            environment.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")
        if gpus != "all":
            environment["CUDA_VISIBLE_DEVICES"] = gpus
        command = [sys.executable, __file__, "--one", *unit, "-o", str(answer)]
        child = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        with watch.of(child.pid) as peak, _ended(child), contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(limit)
    spent = time.monotonic() - began
    if not answer.is_file():
        how = f"took longer than {limit:.0f} s" if spent >= limit else f"ended with exit code {child.returncode}"
        return Proved(*unit, (f"{unit[1]}: {how}; see {unit[0]}.{unit[1]}.log",), spent, None, 0, peak.own, peak.all)
    found = json.loads(answer.read_text(encoding="utf-8"))
    return Proved(*unit, tuple(found["problems"]), spent, found["seconds"], found["judged"], peak.own, peak.all)


@contextlib.contextmanager
def _ended(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Afterwards nothing that the child started is left: kernels and ranks have sessions of their own."""
    import psutil

    try:
        yield
    finally:
        with contextlib.suppress(psutil.Error):
            below = psutil.Process(child.pid).children(recursive=True)
            for one in below if child.poll() is None else []:
                with contextlib.suppress(psutil.Error):
                    one.send_signal(signal.SIGKILL)
        if child.poll() is None:
            child.kill()
        child.wait(CAP)


def course(units: list[Unit], jobs: int, options: argparse.Namespace, watch: Watch) -> Iterator[Proved]:
    """The parts as they end, `jobs` at a time, each on the GPUs whose turn it is."""
    free: queue.Queue[str] = queue.Queue()
    for number in range(jobs):
        free.put(options.gpus[number % len(options.gpus)])

    def one(unit: Unit) -> Proved:
        gpus = free.get()
        try:
            return run(unit, gpus, options.limit, watch, options.out)
        finally:
            free.put(gpus)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(one, unit) for unit in units]):
            yield done.result()


def phases(chosen: list[Lesson], options: argparse.Namespace) -> list[tuple[list[Unit], int]]:
    """Solved notebooks, whose seconds count, then everything else; lessons whose exercises start ranks go first."""
    slow_first = sorted(chosen, key=lambda lesson: (not lesson.name.startswith(("06", "08")), lesson.name))
    exercises = [(lesson.name, one.name) for lesson in slow_first for one in of_lesson(lesson.name)]
    solved, unsolved = ([(lesson.name, part) for lesson in slow_first] for part in ("solved", "unsolved"))
    units = {"solved": solved, "unsolved": unsolved, "exercises": exercises}
    wanted = [unit for part, some in units.items() if part in options.parts for unit in some]
    wanted = [unit for unit in wanted if not options.only or unit[1] in ("solved", "unsolved", *options.only)]
    first = [] if options.together else [unit for unit in wanted if unit[1] == "solved"]
    rest = [unit for unit in wanted if unit not in first]
    return [(some, jobs) for some, jobs in ((first, options.jobs), (rest, options.more_jobs)) if some]


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lessons", nargs="*", help="such as 02_timing; all when left out")
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder for the table and what each part said")
    parser.add_argument("--jobs", type=int, default=4, help="solved notebooks at a time")
    parser.add_argument("--more-jobs", type=int, default=14, help="other parts at a time")
    parser.add_argument("--gpus", nargs="+", default=["all"], help="what CUDA_VISIBLE_DEVICES is, in turn")
    parser.add_argument("--limit", type=float, default=280, help="seconds that one part may take")
    parser.add_argument(
        "--parts", nargs="+", default=["solved", "unsolved", "exercises"], choices=["solved", "unsolved", "exercises"]
    )
    parser.add_argument("--only", nargs="+", metavar="EXERCISE", help="of the exercises these")
    parser.add_argument("--together", action="store_true", help="do not let the solved notebooks go first")
    parser.add_argument("--one", nargs=2, metavar=("LESSON", "PART"), help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Writes ``course.md`` and ``course.json``; 1 when something does not hold."""
    options = options_of(arguments)
    if options.one:
        options.out.write_text(json.dumps(said(*options.one)), encoding="utf-8")
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    options.out = options.out.resolve()
    chosen = [lesson_named(name) for name in options.lessons] or list(lessons())
    found: list[Proved] = []
    with Watch() as watch:
        parts = phases(chosen, options)
        if not parts:
            raise SystemExit("No part of these lessons has such a name.")
        for units, jobs in parts:
            for one in course(units, jobs, options, watch):
                found.append(one)
                told = "holds" if one.holds else "DOES NOT HOLD"
                print(f"{one.lesson} {one.part}: {told}, {one.seconds:.0f} s", *one.problems, sep="\n  ", flush=True)
                (options.out / "course.md").write_text(table(found, options), encoding="utf-8")
                (options.out / "course.json").write_text(json.dumps([vars(one) for one in found]), encoding="utf-8")
    print(table(found, options))
    return int(not all(one.holds for one in found))


if __name__ == "__main__":
    sys.exit(main())
