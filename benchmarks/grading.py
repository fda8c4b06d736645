"""Submissions a minute: `python -m autograder grade` beside `nbgrader autograde`, the same class, the same machine.

``python benchmarks/grading.py [LESSON] [--part nbgrader|ours|sandbox]``, on an idle machine; without --part all three
parts, one after the other. Each part is kept in grading.json as soon as it is measured, and grading.md is written once
there are three. Both graders begin with empty compile caches and then grade the same again with warm ones. nbgrader
grades only some of the class, for it takes long; what the others would take it is computed and said so.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
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
    """A class of so many that handed in one lesson."""
    room = Classroom(folder)
    add_lesson(room, lesson_named(name), count)
    return room


def add_lesson(room, lesson, count):
    """Release one more lesson to the class, and hand it in for each student."""
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
        nbformat.write(handed_in(room.lesson, number), path)


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


def by_nbgrader(room, cache):
    """nbgrader's own kernels, without our sandbox, on a few of the class: from empty compile caches, then again."""
    lesson = room.lesson.name
    command = [sys.executable, "-m", "nbgrader", "autograde", lesson, "--force", "--RunToTheEnd.sandboxed=False"]
    cold, warm = (seconds_of(command, room, cache, room.root) for _ in range(2))
    return {"cold": cold, "warm": warm, "scores": scores(room.root, lesson)}


def by_us(room, cache):
    """The whole class: from empty caches, then again."""
    lesson = room.lesson.name
    command = [sys.executable, "-m", "autograder", "grade", lesson, f"--course={room.root}", "--regrade"]
    cold, warm = (seconds_of(command, room, cache, ROOT) for _ in range(2))
    return {"cold": cold, "warm": warm, "scores": scores(room.root, lesson)}


def of_the_sandbox(room, cache):
    """Median seconds from a job's start to its first word, with isolation and without, and how many jobs there are."""
    exercises = of_lesson(room.lesson.name)
    inside, outside = (sandbox_seconds(exercises[0], isolated) for isolated in (True, False))
    return {"inside": inside, "outside": outside, "jobs": len(exercises)}


PARTS = {"nbgrader": by_nbgrader, "ours": by_us, "sandbox": of_the_sandbox}


def measured(part, lesson, count):
    """One part in a classroom of its own, with the machine it ran on."""
    with tempfile.TemporaryDirectory() as folder:
        room = classroom_of(lesson, count if part != "sandbox" else 1, Path(folder))
        found = PARTS[part](room, Path(tempfile.mkdtemp(dir=folder)))
    return {**found, "submissions": count, "load": os.getloadavg()[0], "lesson": room.lesson.name}


def rows(parts, count):
    """Lines of the table: nbgrader's few, how long the whole class would take it, and ours."""
    few, ours = parts["nbgrader"], parts["ours"]
    rest = few["warm"] / few["submissions"] * (count - few["submissions"])
    for state, theirs in (("cold", few["cold"] + rest), ("warm", few["warm"] + rest)):
        times = [f"{seconds:.0f} | {60 * count / seconds:.1f}" for seconds in (theirs, ours[state])]
        yield f"| {state} | {' | '.join(times)} | {theirs / ours[state]:.1f} |"


def page(parts):
    """The Markdown page, once all parts are there."""
    few, ours, box = (parts[name] for name in PARTS)
    same = all(ours["scores"].get(student) == score for student, score in few["scores"].items())
    cost = box["jobs"] * (box["inside"] - box["outside"])
    loads = ", ".join(f"{name} {one['load']:.1f}" for name, one in parts.items())
    return "\n".join(
        [
            f"# Grading: {ours['submissions']} submissions of {ours['lesson']}",
            "",
            "Made by `python benchmarks/grading.py`. A quarter each of unsolved, half solved, solved, and solved with",
            f"a known mistake. `nbgrader autograde` graded {few['submissions']} of them, in the same proportions, in",
            f"{few['cold']:.0f} s with cold and {few['warm']:.0f} s with warm caches; each further one is counted as a",
            "warm one. `python -m autograder grade` graded all.",
            "",
            "| caches | s, nbgrader | a minute | s, ours | a minute | times as many |",
            "|---|---|---|---|---|---|",
            *rows(parts, ours["submissions"]),
            "",
            f"Scores of the {few['submissions']} are {'identical' if same else 'DIFFERENT'}. A job speaks",
            f"{box['inside']:.3f} s after its start in the sandbox and {box['outside']:.3f} s without: {cost:.2f} s",
            f"for the {box['jobs']} jobs of a submission. {len(os.sched_getaffinity(0))} cores,",
            f"torch {torch.__version__}, Python {platform.python_version()}, load at the end: {loads}.",
            "",
        ]
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lesson", nargs="?", default="3")
    parser.add_argument("--submissions", type=int, default=40)
    parser.add_argument("--of-nbgrader", type=int, default=8, help="of these, how many nbgrader grades (default 8)")
    parser.add_argument("--part", choices=PARTS, action="append", help="this part only; others stay as they were")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "benchmarks" / "grading.md")
    args = parser.parse_args()
    os.environ["COURSE_SECRET"] = "benchmark"
    kept = args.output.with_suffix(".json")
    parts = json.loads(kept.read_text()) if kept.exists() else {}
    for part in args.part or PARTS:
        found = measured(part, args.lesson, args.of_nbgrader if part == "nbgrader" else args.submissions)
        parts[part] = json.loads(json.dumps(found))
        parts = {name: parts[name] for name in PARTS if name in parts}
        kept.write_text(json.dumps(parts, indent=1) + "\n")
        print(part, {name: value for name, value in parts[part].items() if name != "scores"}, flush=True)
    if len(parts) == len(PARTS):
        args.output.write_text(page(parts))
        print(page(parts))


if __name__ == "__main__":
    main()
