"""Does any draw of inputs make a check judge wrongly? Each known mistake and right answer, on draws that are rare.

Run: ``make draws`` (``DRAWS="capstone_3"`` for one exercise, ``DRAWS="--seconds 600"`` for longer). A check draws its
sizes at random, and some mistakes show only while two sizes differ: one draw in sixty tells another story, and one
learner in sixty hears it. So the first draws are made on purpose: each size at its smallest and at its largest, and
each two sizes alike; then come random ones until the exercise's time is up. On each draw a right answer must get full
points, and a known mistake its own sentence. The table goes to tests/draws.md; a draw that came out otherwise is named
there so that it can be made again: ``Forced(seed, {number of the size: value})``.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime
import itertools
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from autograder.exercise import Draw, Exercise, KnownMistake
from autograder.exercises import everything
from autograder.grading.referee import with_own_operators
from autograder.judge import judge, namespace_of

TABLE = Path(__file__).with_name("draws.md")
RESULTS = TABLE.with_suffix(".json")
WIDEST = 2000
"""Sizes from a wider span are seeds and orders: that two of them are alike never happens."""
MOST = 60
"""An exercise that draws until its inputs are telling may ask for thousands of sizes: so many of them are forced."""


class Forced(Draw):
    """A draw whose sizes are set: `forced` is {number of the call of `size`: what it gives}; keeps each span asked."""

    def __init__(self, seed: int, forced: dict[int, int] | None = None) -> None:
        super().__init__(seed)
        self.forced, self.spans, self.given = forced or {}, list[tuple[int, int]](), list[int]()

    def size(self, low: int, high: int) -> int:
        """As a draw gives it, unless it is forced and lies in the span: what is asked for may depend on a draw."""
        drawn, wanted = super().size(low, high), self.forced.get(len(self.given))
        self.spans.append((low, high))
        self.given.append(drawn if wanted is None or not low <= wanted <= high else wanted)
        return self.given[-1]


def on_purpose(exercise: Exercise) -> list[dict[int, int]]:
    """What to force: each size at both ends of its span, and each two alike that can be; of many sizes, some."""
    plain = Forced(_seed())
    exercise.check.ask(plain)
    sizes = [(n, (low, high)) for n, (low, high) in enumerate(plain.spans) if low < high <= low + WIDEST]
    spans = dict(random.sample(sizes, min(len(sizes), MOST)))
    ends = [{n: end} for n, span in spans.items() for end in span]
    both = [
        (first, second, _overlap(spans[first], spans[second])) for first, second in itertools.combinations(spans, 2)
    ]
    return ends + [dict.fromkeys(pair, random.choice(common)) for *pair, common in both if common]


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> range:
    return range(max(one[0], other[0]), min(one[1], other[1]) + 1)


def _seed() -> int:
    return int.from_bytes(os.urandom(5), "big")


@dataclass
class Swept:
    """One exercise: programs, verdicts on draws made on purpose and on random ones, and what came out otherwise."""

    exercise: str
    programs: int = 0
    wanted: int = 0
    purposely: int = 0
    randomly: int = 0
    odd: list[str] = field(default_factory=list)
    date: str = ""


def draws(exercise: Exercise, programs: int, found: Swept) -> Iterator[tuple[int, int, dict[int, int]]]:
    """(program, seed, what is forced), without end: those made on purpose in any order, then random ones."""
    made = [(program, _seed(), forced) for forced in on_purpose(exercise) for program in range(programs)]
    random.shuffle(made)
    found.wanted = len(made)
    for one in made:
        found.purposely += 1
        yield one
    for number in itertools.count():
        found.randomly += 1
        yield number % programs, _seed(), {}


def sweep_named(name: str, seconds: float) -> Swept:
    """`sweep` of the exercise of that name: a process of its own needs no more than the name."""
    until = time.monotonic() + seconds
    return sweep(next(one for one in everything() if one.name == name), lambda _: time.monotonic() > until)


def sweep(exercise: Exercise, enough: Callable[[Swept], bool]) -> Swept:
    """All programs of one exercise, draw after draw, until what was found is `enough`."""
    right = [KnownMistake(code, "") for code in exercise.alternatives]
    programs = [*exercise.known_mistakes, *right]
    found = Swept(exercise.name, len(programs), date=str(datetime.date.today()))
    for which, seed, forced in draws(exercise, len(programs), found):
        program = programs[which]
        code = with_own_operators(
            program.code, f"in_{found.purposely}_{found.randomly}"
        )  # a process has each name once
        verdict = judge(exercise, namespace_of(code), Forced(seed, forced))
        if verdict.passed != (program in right) or program.says not in verdict.sentence:
            kind = f"mistake {which}" if program not in right else f"alternative {which - len(programs) + len(right)}"
            found.odd.append(f"{exercise.name}, {kind}, Forced({seed}, {forced}): {verdict.sentence}")
        if enough(found):
            return found
    raise AssertionError("draws have no end")


def table(results: dict[str, Swept]) -> str:
    """One row an exercise, and what came out otherwise."""
    every = list(results.values())
    lines = [
        "# Known mistakes and right answers on rare draws",
        "",
        f"Made by `make draws`, last on {max(one.date for one in every)}. Each known mistake must be told its own "
        "sentence and each",
        "right answer get full points: with each size at the ends of its span, with each two sizes alike (as many of",
        "these as fit into the exercise's time), and on random draws.",
        "",
        "| exercise | programs | verdicts on draws made on purpose | on random draws | came out otherwise | on |",
        "|---|---|---|---|---|---|",
        *(
            f"| {one.exercise} | {one.programs} | {one.purposely} of {one.wanted} | {one.randomly} | {len(one.odd)} "
            f"| {one.date} |"
            for one in every
        ),
        "",
        f"Verdicts: {sum(one.purposely + one.randomly for one in every)}.",
    ]
    odd = [f"- {said}" for one in every for said in one.odd]
    return "\n".join([*lines, *(["", *odd] if odd else []), ""])


def main() -> int:
    """Sweep the named exercises, or all; exit 1 if anything came out otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("exercises", nargs="*", help="such as capstone_3; all without it")
    parser.add_argument("--seconds", type=float, default=120, help="for each exercise")
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    names = [one.name for one in everything()]
    wanted = args.exercises or names
    if unknown := [name for name in wanted if name not in names]:
        parser.error(f"there is no exercise {unknown[0]}; there are {', '.join(names)}")
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results = {name: Swept(**known[name]) for name in names if name in known}
    with concurrent.futures.ProcessPoolExecutor(args.processes, max_tasks_per_child=1) as pool:
        for done in concurrent.futures.as_completed([pool.submit(sweep_named, name, args.seconds) for name in wanted]):
            one = done.result()
            results[one.exercise] = one
            ordered = {name: results[name] for name in names if name in results}
            RESULTS.write_text(json.dumps({name: asdict(swept) for name, swept in ordered.items()}, indent=1) + "\n")
            TABLE.write_text(table(ordered))
            print(
                f"{one.exercise}: {one.purposely} of {one.wanted}, and {one.randomly}", *one.odd, sep="\n  ", flush=True
            )
    return int(any(results[name].odd for name in wanted))


if __name__ == "__main__":
    sys.exit(main())
