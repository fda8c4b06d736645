"""How fast an answer is beside another program: a ratio on the grader's own clock, or that it cannot be told.

A lap is so many calls, each fed by the one before, from a number drawn for this lap. It is timed from here: from the
moment when the order goes out until the values are back. What a submission does to its own clocks, events or
synchronization changes nothing here, and a result that it had kept, or did not wait for, is no result of this lap.

The two run in turn, in an order that is drawn for each pair, in processes of their own, so that whatever slows the
machine down slows both. Pairs are added until a bootstrap interval of the median ratio lies on one side of what is
wanted; where it does not, the outcome is "undecided", which is nobody's fault and costs nothing.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from autograder.exercise import Bonus, Draw, Values
from autograder.grading.referee import heard
from autograder.sandbox.bubble import Bubble
from autograder.sandbox.job import Job
from autograder.sandbox.limits import Limits
from autograder.wire import encode, plain
from compilescope.bootstrap import median_interval

Verdict = Literal["reached", "missed", "undecided"]
SHORTEST_LAP = 0.05
"""Seconds: the way to the process and back, some 0.1 ms, is nothing beside it."""
MOST_CALLS = 1 << 16
WARMUP = 3
"""Laps before anything counts."""
FEWEST, STEP, MOST = 10, 5, 100
"""Pairs before the first look, between looks, and at most."""
CONFIDENCE = 0.99

TimedLap = Callable[[int, int], Any]
"""Runs so many calls from a number; what came out, after it came out."""
Right = Callable[[int, int, Any], bool]
"""Calls, number and what came out, to whether it is right."""


class LapFailedError(RuntimeError):
    """The answer raised, ended, or gave wrong values in a lap; one sentence."""


@dataclass(frozen=True)
class Pace:
    """The outcome of a race. `times`: median of reference seconds over answer's seconds; `interval` at 99 %."""

    verdict: Verdict
    times: float
    interval: tuple[float, float]
    pairs: int
    calls: int

    def sentence(self, wanted: float, of: str) -> str:
        """For the student: a bonus, whatever the outcome."""
        low, high = self.interval
        found = f"{self.times:.2f} times the speed of {of} ({low:.2f} to {high:.2f}); {wanted:g} was the aim"
        said = {"reached": "reached", "missed": "not reached", "undecided": "too close or too noisy to tell"}
        return f"Bonus without points, {said[self.verdict]}: {found}."


class Race:
    """Times laps of two programs on `clock` (seconds) and compares them."""

    def __init__(
        self,
        answer: TimedLap,
        reference: TimedLap,
        right: Right,
        *,
        clock: Callable[[], float] = time.monotonic,
        seed: int | None = None,
    ) -> None:
        self._laps, self._right, self._clock = (answer, reference), right, clock
        self._random = random.SystemRandom() if seed is None else random.Random(seed)

    def run(self, wanted: float, seconds: float = 60.0) -> Pace:
        """Race until it is decided, or for about so many seconds. Raises LapFailedError."""
        calls = self._calls_for_a_lap()
        for _ in range(WARMUP):
            self._pair(calls)
        began, ratios = self._clock(), [self._pair(calls) for _ in range(FEWEST)]
        while True:
            low, high = median_interval(ratios, CONFIDENCE)
            verdict: Verdict = "reached" if low >= wanted else "missed" if high < wanted else "undecided"
            if verdict != "undecided" or len(ratios) >= MOST or self._clock() - began > seconds:
                return Pace(verdict, statistics.median(ratios), (low, high), len(ratios), calls)
            ratios += [self._pair(calls) for _ in range(STEP)]

    def _pair(self, calls: int) -> float:
        """Seconds of the reference over those of the answer, in one pair."""
        order = [0, 1]
        self._random.shuffle(order)
        spent = {which: self._lap(which, calls) for which in order}
        return spent[1] / max(spent[0], 1e-9)

    def _lap(self, which: int, calls: int) -> float:
        nonce = self._random.randrange(1 << 30)
        start = self._clock()
        values = self._laps[which](calls, nonce)
        spent = self._clock() - start
        if which == 0 and not self._right(calls, nonce, values):
            raise LapFailedError("its values in the race were not those of its calls")
        return spent

    def _calls_for_a_lap(self) -> int:
        """As many calls as make a lap of either long enough, once both are warm."""
        calls = 1
        for which in (0, 1):
            self._lap(which, calls)
        while calls < MOST_CALLS and min(self._lap(which, calls) for which in (0, 1)) < SHORTEST_LAP:
            calls *= 2
        return calls


def bonus_of(bubbles: tuple[Bubble, Bubble], bonus: Bonus, cells: Sequence[str], limits: Limits) -> str:
    """The sentence about a right answer's race, whatever becomes of it."""
    try:
        return raced(bubbles, bonus, cells, limits).sentence(bonus.wanted, bonus.of)
    except LapFailedError as error:
        return f"Bonus without points, not raced: {error}."


def raced(bubbles: tuple[Bubble, Bubble], bonus: Bonus, cells: Sequence[str], limits: Limits) -> Pace:
    """Race the answer in `cells` against the bonus's reference, each in a sandbox of its own. Raises LapFailedError.

    `bubbles`: the one of the submission, and one in which only programs of ours run.
    """
    asked = plain(bonus.ask(Draw.fresh(bonus.prepare.__module__)), strict=True)
    jobs = [bubble.start(limits) for bubble in bubbles]
    try:
        for job, some, reference in zip(jobs, (cells, (bonus.reference,)), (False, True), strict=True):
            _make_ready(job, bonus, some, {**asked, "reference": reference})
        mine, reference_lap = (_lap_of(job) for job in jobs)
        race = Race(mine, reference_lap, lambda calls, nonce, values: _is_right(bonus, asked, calls, nonce, values))
        return race.run(bonus.wanted, seconds=limits.wall / 4)
    finally:
        for job in jobs:
            job.end()


def _make_ready(job: Job, bonus: Bonus, cells: Sequence[str], asked: Values) -> None:
    job.send({"cells": list(cells)})
    order = {"prepare": bonus.prepare.__name__, "module": bonus.prepare.__module__, "asked": asked}
    encode(order, strict=True)
    job.send(order)
    answer = heard(job, ("ready", "error"))
    if "ready" not in answer:
        raise LapFailedError(str(answer.get("error", "it ended"))[:200])


def _lap_of(job: Job) -> TimedLap:
    def lap(calls: int, nonce: int) -> Any:
        job.send({"lap": calls, "nonce": nonce})
        answer = heard(job, ("lap", "error"))
        if "lap" not in answer:
            raise LapFailedError(str(answer.get("error", "it ended"))[:200])
        return answer["lap"]

    return lap


def _is_right(bonus: Bonus, asked: Values, calls: int, nonce: int, values: Any) -> bool:
    try:
        return bonus.right(asked, calls, nonce, values)
    except Exception:  # a submission says what it likes
        return False
