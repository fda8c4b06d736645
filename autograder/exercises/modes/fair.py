"""modes_7: a comparison of modes that measures fairly, judged where the true times are known."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.judging import called, kind_of

NAMES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_LIMIT = 200_000


class Machine:
    """A device with a clock of its own, whose true times are known; nothing here takes real time.

    A call returns at once; the device works on. It compiles in its first call, in some modes records in later ones,
    now and then is interrupted, and gets slower as it warms up.
    """

    def __init__(self, asked: Values) -> None:
        self.time = 0.0
        self.busy_until = 0.0
        self.done = 0.0
        self._asked = asked
        self._random = random.Random(asked["seed"])
        self.calls: dict[str, int] = dict.fromkeys(asked["modes"], 0)

    def clock(self) -> float:
        """Seconds."""
        self.time += 1e-7
        return self.time

    def wait(self) -> None:
        """Until the device is done."""
        self.time = max(self.time, self.busy_until)

    def run(self, mode: str) -> None:
        """One call in this mode."""
        true = self._asked["modes"][mode]
        self.calls[mode] += 1
        if sum(self.calls.values()) > _LIMIT:
            raise NotYet("compare_modes(…)", f"made {_LIMIT:,} calls", "it must end", "Look at your loop.")
        starts = true["start"]
        work = starts[self.calls[mode] - 1] if self.calls[mode] <= len(starts) else self._steady(true["steady"])
        self.time += 2e-6
        self.busy_until = max(self.time, self.busy_until) + work
        self.done += work

    def _steady(self, steady: float) -> float:
        slower = 1 + self._asked["drift"] * min(1.0, self.done / self._asked["warms_in"])
        interrupted = 12.0 if self._random.random() < 0.04 else 1.0
        work: float = steady * slower * interrupted * self._random.uniform(0.985, 1.015)
        return work


def ask(draw: Draw) -> Values:
    """True times of four modes: those of the first calls, and of all others on a cold device."""
    base = draw.number(0.5e-3, 4e-3)
    factors = sorted((1.0, 1.08, 1.5, 2.2), key=lambda _: draw.number(0, 1))
    modes: dict[str, Any] = {}
    for name, factor in zip(NAMES, factors, strict=True):
        more = draw.size(1, 3) if name in ("reduce-overhead", "max-autotune") else 0
        start = [draw.number(2, 60)] + [draw.number(0.05, 0.4) for _ in range(more)]
        modes[name] = {"steady": base * factor, "start": start}
    order = sorted(NAMES, key=lambda name: modes[name]["steady"])  # the best is measured last by whoever goes in turn
    return {
        "modes": {name: modes[name] for name in reversed(order)},
        "seed": draw.size(0, 10**9),
        "drift": 0.3,
        "warms_in": sum(sum(one["start"]) for one in modes.values()) + 0.12,
    }


def probe(answer: Answer, asked: Values) -> Values:
    """What the answer says of the modes of a machine."""
    machine = Machine(asked)
    calls: dict[str, Callable[[], None]] = {name: lambda name=name: machine.run(name) for name in asked["modes"]}  # type: ignore[misc]
    result = called("compare_modes(calls, clock, wait)", answer.compare_modes, calls, machine.clock, machine.wait)
    return {"result": result, "calls": machine.calls}


def judge(asked: Values, found: Values) -> str:
    """First calls within 1 %, the order of the modes, and their ratios within 4 %."""
    label, result = "compare_modes(calls, clock, wait)", found["result"]
    if not isinstance(result, dict) or set(result) != set(asked["modes"]) or not all(map(_is_pair, result.values())):
        said = kind_of(result) if not isinstance(result, dict) else "a dict of something else"
        raise NotYet(
            label, f"returned {said}", "{mode: (first, steady)} in seconds is wanted", "Look at the docstring."
        )
    for name, (first, _) in result.items():
        true = asked["modes"][name]["start"][0]
        if abs(first / true - 1) > 0.01:
            raise NotYet(
                label,
                f"says {first:.3g} s for the first call of {name}",
                f"it took {true:.3g} s",
                "Time the very first call alone, and wait for the device.",
            )
    _steady(label, asked, result)
    return f"right about {len(result)} modes, from {sum(found['calls'].values())} calls"


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(one, (int, float)) for one in value)


def _steady(label: str, asked: Values, result: dict[str, Any]) -> None:
    true = {name: one["steady"] for name, one in asked["modes"].items()}
    for name, (_, steady) in result.items():
        if not 0.9 * true[name] < steady < 1.5 * true[name]:
            look = "Record first, then measure." if steady > true[name] else "A call returns before its work is done."
            raise NotYet(
                label,
                f"says {1e3 * steady:.3g} ms for {name} in steady state",
                f"{1e3 * true[name]:.3g} ms is true",
                f"{look} A median bears interruptions.",
            )
    best = min(true, key=lambda name: true[name])
    for name in true:
        got, want = result[name][1] / result[best][1], true[name] / true[best]
        if abs(got / want - 1) > 0.04:
            raise NotYet(
                label,
                f"finds {name} {got:.2f} times as slow as {best}",
                f"{want:.2f} is true",
                "The device changes while you measure. Take the modes in turn, round by round.",
            )


_START = "import statistics\n"

EXERCISE = Exercise(
    name="modes_7",
    lesson="05_modes",
    points=3,
    asks_for=("compare_modes",),
    check=Check(ask, probe, judge),
    hints=(
        "Print each single time of one mode, in order: which are no steady state, and which are no work of yours?",
        "First call alone. Warm up past recording. wait() before each look at the clock. Medians. Modes in turn.",
        "Time the first call of each mode; call each five times more; then 50 rounds in which each mode is timed once; "
        "the median of each.",
    ),
    known_mistakes=(
        KnownMistake(  # one after the other, on a device that changes
            _START
            + """
def compare_modes(calls, clock, wait):
    def timed(call):
        wait()
        start = clock()
        call()
        wait()
        return clock() - start
    found = {}
    for name, call in calls.items():
        first = timed(call)
        for _ in range(5):
            timed(call)
        found[name] = first, statistics.median(timed(call) for _ in range(40))
    return found
""",
            "Take the modes in turn",
        ),
        KnownMistake(  # does not wait for the device
            _START
            + """
def compare_modes(calls, clock, wait):
    def timed(call):
        start = clock()
        call()
        return clock() - start
    first = {name: timed(call) for name, call in calls.items()}
    rounds = [{name: timed(call) for name, call in calls.items()} for _ in range(60)]
    return {name: (first[name], statistics.median(r[name] for r in rounds[6:])) for name in calls}
""",
            "wait for the device",
        ),
        KnownMistake(  # the mean, with interruptions and recording in it
            _START
            + """
def compare_modes(calls, clock, wait):
    def timed(call):
        start = clock()
        call()
        wait()
        return clock() - start
    first = {name: timed(call) for name, call in calls.items()}
    rounds = [{name: timed(call) for name, call in calls.items()} for _ in range(60)]
    return {name: (first[name], statistics.mean(r[name] for r in rounds)) for name in calls}
""",
            "steady state",
        ),
        KnownMistake(  # measures while graphs are still recorded
            _START
            + """
def compare_modes(calls, clock, wait):
    def timed(call):
        start = clock()
        call()
        wait()
        return clock() - start
    first = {name: timed(call) for name, call in calls.items()}
    return {name: (first[name], timed(call)) for name, call in calls.items()}
""",
            "Record first",
        ),
        KnownMistake(  # warms up before the first call
            _START
            + """
def compare_modes(calls, clock, wait):
    def timed(call):
        start = clock()
        call()
        wait()
        return clock() - start
    for call in calls.values():
        for _ in range(6):
            call()
    wait()
    first = {name: timed(call) for name, call in calls.items()}
    rounds = [{name: timed(call) for name, call in calls.items()} for _ in range(50)]
    return {name: (first[name], statistics.median(r[name] for r in rounds)) for name in calls}
""",
            "for the first call of",
        ),
        KnownMistake(  # the computer's clock knows nothing of this device
            _START
            + """
import time
def compare_modes(calls, clock, wait):
    def timed(call):
        start = time.perf_counter()
        call()
        wait()
        return time.perf_counter() - start
    first = {name: timed(call) for name, call in calls.items()}
    rounds = [{name: timed(call) for name, call in calls.items()} for _ in range(60)]
    return {name: (first[name], statistics.median(r[name] for r in rounds)) for name in calls}
""",
            "for the first call of",
        ),
    ),
    alternatives=(
        _START
        + """
def compare_modes(calls, clock, wait):
    def timed(call):
        wait()
        start = clock()
        call()
        wait()
        return clock() - start

    times = {name: [] for name in calls}
    for _ in range(70):
        for name, call in calls.items():
            times[name].append(timed(call))
    return {name: (found[0], statistics.median(found[10:])) for name, found in times.items()}
""",
        """
import random

def compare_modes(calls, clock, wait):
    times = {name: [] for name in calls}
    for _ in range(90):
        for name in random.sample(list(calls), len(calls)):
            before = clock()
            calls[name]()
            wait()
            times[name].append(clock() - before)
    return {name: [found[0], sorted(found[6:])[(len(found) - 6) // 2]] for name, found in times.items()}
""",
    ),
)
