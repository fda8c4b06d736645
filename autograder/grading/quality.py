"""``python -m autograder quality [LESSON]``: how sure a grade is, exercise by exercise, as a table in the repository.

Every right answer is mutated; mutants, known mistakes and right answers are graded in the sandbox as submissions are.
A mutant that gets points is tried on further draws: it is killed by luck if some draw finds it out, equivalent if its
facts are those of the right answer on each (see `equivalence`), and else a survivor: a gap in a check.

An exercise is measured again when its sources or what judges them have changed, cheap ones first; the results are
written after each, so that the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import math
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch

from autograder.build import lesson_named
from autograder.exercise import Draw, Exercise
from autograder.exercises import everything
from autograder.grading.equivalence import DRAWS, OPEN, change_between, differing
from autograder.grading.load import busy_processes
from autograder.grading.mutate import mutants
from autograder.grading.quality_table import table
from autograder.grading.referee import OUTCOMES, Question, decide, heard
from autograder.grading.warm import ready_cache
from autograder.nbgrader_config import ROOT
from autograder.sandbox.bubble import Bubble
from autograder.sandbox.limits import Limits
from autograder.sandbox.required import require_sandbox
from autograder.sandbox.visible import ours, source_of, visible_part

TABLE = ROOT / "tests" / "grade_quality.md"
RESULTS = ROOT / "tests" / "grade_quality.json"
CACHE = ROOT / "work" / "quality" / "cache"
LIMITS = Limits(wall=240, cell=120)


@dataclass
class Quality:
    """What was counted for one exercise; what needs a look is listed by name.

    `stamp` names the sources that this was measured with, `seconds` is what its right answer took. `lucky`: mutants
    that some draws miss. `late`: mutants killed by the limit on time. `load`: the machine's load average for each core
    when its right answers had been graded.
    """

    exercise: str
    stamp: str = ""
    seconds: float = 0.0
    mutants: int = 0
    killed: int = 0
    late: int = 0
    lucky: list[str] = field(default_factory=list)
    equivalent: list[str] = field(default_factory=list)
    survivors: list[str] = field(default_factory=list)
    mistakes: int = 0
    passing: list[str] = field(default_factory=list)
    right: int = 0
    refused: list[str] = field(default_factory=list)
    repeats: int = 0
    load: float = 0.0


class Measurement:
    """Grades programs of one exercise in a sandbox. `limits` cut endless mutants short."""

    def __init__(self, bubble: Bubble, exercise: Exercise, limits: Limits = LIMITS) -> None:
        self.bubble, self.exercise, self.limits = bubble, exercise, limits
        self._questions: dict[int, Question] = {}
        self._facts: dict[tuple[str, int], Any] = {}

    def graded(self, code: str, seed: int | None = None, limits: Limits | None = None) -> tuple[bool, str, Any]:
        """Whether `code` passes, the sentence, and the facts that it was judged on; without a seed a fresh draw."""
        question = self._question(seed) if seed is not None else Question.of(self.exercise)
        job = self.bubble.start(limits or self.limits)
        try:
            job.send({"cells": [code], **question.order})
            answer = heard(job, OUTCOMES)
            passed, sentence = decide(question, answer, job)
            if job.why in ("cell", "wall"):
                sentence = f"late: {sentence}"
        finally:
            job.end()
        return passed, sentence, answer.get("found")

    def verdict_on(self, original: str, mutant: str, seed: int) -> tuple[str, str]:
        """``killed``, ``late``, ``lucky``, ``equivalent`` or ``survivor``, and what tells so."""
        passed, sentence, facts = self.graded(mutant, seed)
        if not passed:
            return ("late" if sentence.startswith("late: ") else "killed"), sentence
        left_open = OPEN.get(self.exercise.name, ())
        differ = list(differing(facts, self._facts_of(original, seed), left_open))
        missed = 1
        for other in range(1001, 1001 + DRAWS):
            passed, sentence, facts = self.graded(mutant, other, LIMITS)  # it ended once: on a busy machine it is slow
            missed += passed
            if passed:
                differ += differing(facts, self._facts_of(original, other), left_open)
        if missed < 1 + DRAWS:
            return "lucky", f"passes {missed} of {1 + DRAWS} draws"
        return ("survivor", f"differs in {', '.join(dict.fromkeys(differ))}") if differ else ("equivalent", "")

    def _question(self, seed: int) -> Question:
        if seed not in self._questions:
            self._questions[seed] = Question.of(self.exercise, Draw(seed))
        return self._questions[seed]

    def _facts_of(self, code: str, seed: int) -> Any:
        if (code, seed) not in self._facts:
            self._facts[code, seed] = self.graded(code, seed)[2]
        return self._facts[code, seed]


def measure(bubble: Bubble, exercise: Exercise, args: argparse.Namespace) -> Quality:
    """Grade right answers, mistakes and mutants of one exercise."""
    found = Quality(exercise.name, stamp_of(exercise), repeats=args.repeats)
    grader = Measurement(bubble, exercise)
    with busy_processes(args.busy):
        for code in exercise.alternatives:
            for _ in range(args.repeats):
                found.right += 1
                passed, sentence, _ = grader.graded(code)
                if not passed:
                    found.refused.append(f"`{last_line(code)}`: {sentence}")
        found.load = round(os.getloadavg()[0] / len(os.sched_getaffinity(0)), 1)
    began = time.monotonic()
    grader.graded(exercise.alternatives[0])
    found.seconds = round(time.monotonic() - began, 1)
    grader.limits = replace(LIMITS, cell=max(20.0, 8 * found.seconds))
    for mistake in exercise.known_mistakes:
        found.mistakes += 1
        if grader.graded(mistake.code)[0]:
            found.passing.append(f"`{last_line(mistake.code)}`")
    for number, (original, mutant) in enumerate(programs(exercise, args.mutants)):
        verdict, said = grader.verdict_on(original, mutant, number % DRAWS + 1)
        _count(found, verdict, f"{change_between(original, mutant)} {said}".strip())
    return found


def _count(found: Quality, verdict: str, what: str) -> None:
    found.mutants += 1
    if verdict in ("killed", "late"):
        found.killed += 1
        found.late += verdict == "late"
    else:
        {"lucky": found.lucky, "equivalent": found.equivalent, "survivor": found.survivors}[verdict].append(what)


def programs(exercise: Exercise, most: int) -> Iterator[tuple[str, str]]:
    """Original and mutant, shared out over the right answers until there are `most`."""
    left = most
    for number, code in enumerate(exercise.alternatives):
        original = ast.unparse(ast.parse(code))
        some = mutants(code, math.ceil(left / (len(exercise.alternatives) - number)))
        left -= len(some)
        yield from ((original, mutant.code) for mutant in some)


def last_line(code: str) -> str:
    """The last line of a program, as its name in a list."""
    return code.strip().splitlines()[-1].strip()[:120]


def stamp_of(exercise: Exercise) -> str:
    """Names the sources that a measurement depends on: the exercise's, what they share, and what judges and mutates.

    Of `autograder.judging` only what the exercise uses counts, and comments count nowhere.
    """
    digest = hashlib.sha256(torch.__version__.encode())
    done: set[str] = set()
    shared: set[str] = set()
    left = {str(exercise.check.judge.__module__), str(exercise.check.probe.__module__)}
    while left - done:
        module = min(left - done)
        done.add(module)
        for other, names in ours(source_of(module)):
            if other.startswith("autograder.exercises.") and not other.startswith("autograder.exercises.bonus"):
                left.add(other)
            shared |= names if other == "autograder.judging" else set()
    digest.update(repr((DRAWS, OPEN.get(exercise.name))).encode())
    for module in (*sorted(done), *(f"autograder.{name}" for name in ("wire", "exercise", "grading.mutate"))):
        digest.update(ast.unparse(ast.parse(source_of(module))).encode())
    digest.update(visible_part(source_of("autograder.judging"), shared).encode())
    return digest.hexdigest()[:16]


def main(args: argparse.Namespace) -> int:
    """Measure what has changed, cheap exercises first, and write the table; 1 if there is anything to look at."""
    require_sandbox()
    lesson = lesson_named(args.lesson).name if args.lesson else None
    chosen = [one for one in everything() if lesson in (None, one.lesson)]
    chosen = [one for one in chosen if not args.only or one.name in args.only]
    results = _read()
    left = [one for one in chosen if args.again or results.get(one.name, {}).get("stamp") != stamp_of(one)]
    left.sort(key=lambda one: results.get(one.name, {}).get("seconds", 0.0))
    print(f"{len(chosen) - len(left)} of {len(chosen)} exercises are measured already.", flush=True)
    if left:
        with Bubble(left, _first_compile(left)) as bubble:
            for exercise in left:
                _take(results, measure(bubble, exercise, args))
    _write(results)
    odd = ("survivors", "lucky", "passing", "refused")
    return int(any(results[one.name][kind] for one in chosen for kind in odd))


def _take(results: dict[str, dict[str, Any]], found: Quality) -> None:
    """Keep one measurement; another process may have written others meanwhile."""
    results |= {name: one for name, one in _read().items() if name != found.exercise}
    results[found.exercise] = asdict(found)
    _write(results)
    survive = f"{len(found.survivors)} survive, {len(found.lucky)} by luck, {len(found.refused)} refused"
    print(f"{found.exercise}: {found.killed} of {found.mutants} mutants killed, {survive}", flush=True)


def _read() -> dict[str, dict[str, Any]]:
    """What was measured before, as far as this version of it counted the same."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return {name: one for name, one in stored.items() if set(one) == {each.name for each in fields(Quality)}}


def _write(results: dict[str, dict[str, Any]]) -> None:
    ordered = {one.name: results[one.name] for one in everything() if one.name in results}
    RESULTS.write_text(json.dumps(ordered, indent=1) + "\n")
    TABLE.write_text(table(ordered))


def _first_compile(exercises: list[Exercise]) -> Path:
    """A trusted cache with a first compile in it, so that no job has to try the compiler out."""
    return ready_cache(CACHE / f"torch-{torch.__version__}", [Question.of(exercises[0])], LIMITS, answers=False)
