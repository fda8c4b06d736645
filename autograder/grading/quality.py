"""``python -m autograder quality [LESSON]``: how sure a grade is, exercise by exercise, as a table in the repository.

Every right answer is mutated; mutants, known mistakes and right answers are graded in the sandbox as submissions are.
A mutant survives when it gets points. A survivor whose facts are those of the right answer (the same numbers, the same
graphs) is the same program in other words: it counts as equivalent. The others are listed: each is a gap in a check.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from autograder.build import Lesson, lesson_named, lessons
from autograder.exercise import Draw, Exercise
from autograder.exercises import of_lesson
from autograder.grading.mutate import mutants
from autograder.grading.referee import OUTCOMES, Question, decide, heard
from autograder.nbgrader_config import ROOT
from autograder.sandbox.bubble import Bubble, require_sandbox
from autograder.sandbox.limits import Limits
from compilescope.facts import Run

TABLE = ROOT / "tests" / "grade_quality.md"
RESULTS = ROOT / "tests" / "grade_quality.json"
MUTANTS = 40
LIMITS = Limits(wall=120, cell=60)


@dataclass
class Quality:
    """What was counted for one exercise; `survivors`, `refused` right answers and `passing` mistakes by name."""

    exercise: str
    mutants: int = 0
    killed: int = 0
    equivalent: list[str] = field(default_factory=list)
    survivors: list[str] = field(default_factory=list)
    mistakes: int = 0
    passing: list[str] = field(default_factory=list)
    right: int = 0
    refused: list[str] = field(default_factory=list)
    repeats: int = 0


def measure(bubble: Bubble, exercise: Exercise, most: int, repeats: int) -> Quality:
    """Grade mutants, mistakes and right answers of one exercise, with fresh inputs for each."""
    found = Quality(exercise.name)
    for code in exercise.alternatives:
        for _ in range(repeats):
            found.right += 1
            passed, sentence, _ = graded(bubble, exercise, code)
            if not passed:
                found.refused.append(sentence)
    found.repeats = repeats
    for mistake in exercise.known_mistakes:
        found.mistakes += 1
        if graded(bubble, exercise, mistake.code)[0]:
            found.passing.append(mistake.code.strip().splitlines()[-1].strip())
    for original, code, what in _programs(exercise, most):
        found.mutants += 1
        seed = found.mutants
        passed, _, facts = graded(bubble, exercise, code, seed)
        if not passed:
            found.killed += 1
        elif same_facts(facts, graded(bubble, exercise, original, seed)[2]):
            found.equivalent.append(what)
        else:
            found.survivors.append(what)
    return found


def _programs(exercise: Exercise, most: int) -> Iterator[tuple[str, str, str]]:
    """Original, mutant and what was changed, shared out over the right answers until there are `most`."""
    left = most
    for number, code in enumerate(exercise.alternatives):
        some = mutants(code, math.ceil(left / (len(exercise.alternatives) - number)))
        left -= len(some)
        yield from ((code, mutant.code, f"answer {number + 1}, {mutant.what}") for mutant in some)


def graded(bubble: Bubble, exercise: Exercise, code: str, seed: int | None = None) -> tuple[bool, str, Any]:
    """Whether `code` passes, the sentence, and the facts that it was judged on."""
    question = Question.of(exercise, Draw.fresh(exercise.name) if seed is None else Draw(seed))
    job = bubble.start(LIMITS)
    try:
        job.send({"cells": [code], **question.order})
        answer = heard(job, OUTCOMES)
        passed, sentence = decide(question, answer, job)
    finally:
        job.end()
    return passed, sentence, answer.get("found")


def same_facts(one: Any, other: Any) -> bool:
    """Whether two reports say the same: numbers up to rounding, of runs the graphs and what was compiled."""
    if isinstance(one, Run) and isinstance(other, Run):
        return bool(_facts(one) == _facts(other))
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        alike = (one.shape, one.dtype) == (other.shape, other.dtype)
        return bool(alike and torch.allclose(one.double(), other.double(), rtol=1e-4, atol=1e-6))
    if isinstance(one, dict) and isinstance(other, dict):
        return set(one) == set(other) and all(same_facts(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_facts, one, other))
    return bool(type(one) is type(other) and one == other)


def _facts(run: Run) -> Any:
    graphs = [(g.stage, [(n.target, n.dtype, n.shape) for n in g.calls()]) for c in run.compiles for g in c.graphs]
    return graphs, len(run.breaks), len(run.recompiles), [one.outcome for one in run.calls]


def table(results: dict[str, dict[str, Any]]) -> str:
    """The Markdown page."""
    lines = [
        "# How sure is a grade?",
        "",
        "Made by `make grade-quality`, which grades each program in the sandbox. A mutant is a right answer with one",
        "change. Equivalent: its numbers and graphs are those of the right answer. A survivor is a gap in a check.",
        "",
        "| exercise | mutants | killed | equivalent | survivors | known mistakes caught | right answers accepted |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, one in results.items():
        caught, accepted = one["mistakes"] - len(one["passing"]), one["right"] - len(one["refused"])
        counts = f"{one['mutants']} | {one['killed']} | {len(one['equivalent'])} | {len(one['survivors'])}"
        lines.append(f"| {name} | {counts} | {caught} of {one['mistakes']} | {accepted} of {one['right']} |")
    listed = [f"- {name}: {what}" for name, one in results.items() for what in one["survivors"] + one["passing"]]
    refused = [f"- {name}: {what}" for name, one in results.items() for what in one["refused"]]
    lines += [
        "",
        "Survivors:",
        "",
        *(listed or ["none"]),
        "",
        "Right answers that were refused:",
        "",
        *(refused or ["none"]),
    ]
    return "\n".join(lines) + "\n"


def main(args: argparse.Namespace) -> int:
    """Measure the exercises of a lesson, or of all, and write the table; 1 if something survives or is refused."""
    require_sandbox()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for lesson in [lesson_named(args.lesson)] if args.lesson else lessons():
        for exercise, found in _measured(lesson, args):
            results[exercise] = asdict(found)
            print(f"{exercise}: {found.killed} of {found.mutants} mutants killed, {len(found.survivors)} survive")
            RESULTS.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n")
            TABLE.write_text(table(dict(sorted(results.items()))))
    return int(any(one["survivors"] or one["passing"] or one["refused"] for one in results.values()))


def _measured(lesson: Lesson, args: argparse.Namespace) -> Iterator[tuple[str, Quality]]:
    exercises = [one for one in of_lesson(lesson.name) if not args.only or one.name in args.only]
    with Bubble(exercises) as bubble:
        for exercise in exercises:
            yield exercise.name, measure(bubble, exercise, args.mutants, args.repeats)
