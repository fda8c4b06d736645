"""Submissions a minute: `python -m autograder grade` beside `nbgrader autograde`, the same class, the same machine.

``python benchmarks/grading.py [LESSON] --submissions 40 [--cold] -o benchmarks/grading.md``. A class of solved, half
solved, unsolved and mistaken notebooks is graded by both; scores must be identical. Warm: both had graded one
submission before. Cold: both begin with empty compile caches. The sandbox's own cost is the median time from a job's
start to its first word, in the sandbox and without it.
"""

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "grading"))

from autograder.build import lesson_named  # noqa: E402
from autograder.exercises import find, of_lesson  # noqa: E402
from autograder.grading.referee import Question  # noqa: E402
from autograder.sandbox.bubble import Bubble  # noqa: E402
from autograder.sandbox.limits import Limits  # noqa: E402
from classroom import Classroom, cell_of, exercises_of, solve, unsolved  # noqa: E402


def handed_in(lesson, number):
    """The submission of that number: every fourth unsolved, half solved, solved, or solved with one known mistake."""
    notebook = unsolved(lesson)
    names = exercises_of(notebook)
    if number % 4 == 1:
        solve(notebook, lesson, *names[: len(names) // 2])
    elif number % 4 > 1:
        solve(notebook, lesson)
    if number % 4 == 3:
        name = names[number // 4 % len(names)]
        mistakes = find(name).known_mistakes
        cell_of(notebook, name).source = mistakes[number // 4 % len(mistakes)].code
    return notebook


def classroom_of(name, count, folder):
    room = Classroom(folder)
    lesson = lesson_named(name)
    room.lesson = type(lesson)(lesson.name, room.root)
    room.lesson.source.parent.mkdir(parents=True)
    for path in (lesson.source, lesson.solved):
        shutil.copy(path, room.lesson.source.parent)
    room.lesson.learner.parent.mkdir(parents=True)
    shutil.copy(lesson.learner, room.lesson.learner)
    room.nbgrader("generate_assignment", "--force", lesson.name)
    for number in range(count):
        path = room.root / "work" / "submitted" / f"s{number:03}" / lesson.name / lesson.learner.name
        path.parent.mkdir(parents=True)
        import nbformat

        nbformat.write(handed_in(room.lesson, number), path)
    return room


def seconds_of(command, room, cache, root):
    env = {**room.env, "COURSE_SECRET": "benchmark", "TORCHINDUCTOR_CACHE_DIR": str(cache)}
    began = time.monotonic()
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{(done.stdout + done.stderr)[-3000:]}")
    return time.monotonic() - began


def scores(root, lesson):
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{root}/work/gradebook.db", "inside-torch-compile") as gradebook:
        return {
            one.student.id: sorted((g.name, g.auto_score) for notebook in one.notebooks for g in notebook.grades)
            for one in gradebook.assignment_submissions(lesson)
        }


def sandbox_seconds(exercise, isolated, times=15):
    """Median seconds from the start of a job to its first word, once the zygote stands."""
    question = Question.of(exercise)
    taken = []
    with Bubble([exercise], isolated=isolated) as bubble:
        for _ in range(times):
            began = time.monotonic()
            job = bubble.start(Limits())
            job.send({"cells": ["pass"], **question.order})
            next(job.frames())
            taken.append(time.monotonic() - began)
            job.end()
    return statistics.median(taken[2:])


def both(room, cold):
    """Seconds of nbgrader and of ours, and whether their scores are the same."""
    lesson = room.lesson.name
    other = room.root.parent / "by_nbgrader"
    shutil.copytree(room.root, other)
    cache = Path(tempfile.mkdtemp())
    plain = [sys.executable, "-m", "nbgrader", "autograde", lesson]
    ours = [sys.executable, "-m", "autograder", "grade", lesson, f"--course={room.root}"]
    if not cold:
        seconds_of([*plain, "--student=s002"], room, cache, other)
        seconds_of([*ours, "--only", "s002"], room, cache, ROOT)
    theirs = seconds_of([*plain, "--force"], room, cache, other)
    mine = seconds_of([*ours, "--regrade"], room, cache, ROOT)
    return theirs, mine, scores(other, lesson) == scores(room.root, lesson)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lesson", nargs="?", default="3")
    parser.add_argument("--submissions", type=int, default=40)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    os.environ["COURSE_SECRET"] = "benchmark"
    with tempfile.TemporaryDirectory() as folder:
        room = classroom_of(args.lesson, args.submissions, Path(folder))
        theirs, mine, same = both(room, args.cold)
    exercise = of_lesson(room.lesson.name)[0]
    inside, outside = (sandbox_seconds(exercise, isolated) for isolated in (True, False))
    state = "cold" if args.cold else "warm"
    text = f"""# Grading: {args.submissions} submissions of {room.lesson.name}, {state} caches

| | seconds | submissions a minute |
|---|---|---|
| `nbgrader autograde` | {theirs:.0f} | {60 * args.submissions / theirs:.1f} |
| `python -m autograder grade` | {mine:.0f} | {60 * args.submissions / mine:.1f} |

{theirs / mine:.1f} times as many; scores {"identical" if same else "DIFFERENT"}. A job speaks {inside:.3f} s after its
start in the sandbox, {outside:.3f} s without it. {len(os.sched_getaffinity(0))} cores, torch {torch.__version__},
Python {platform.python_version()}, load {os.getloadavg()[0]:.1f} at the end.
"""
    print(text)
    if args.output:
        args.output.write_text(text)


if __name__ == "__main__":
    main()
