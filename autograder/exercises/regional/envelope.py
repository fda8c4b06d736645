"""regional_2: which of several ways is the cheapest, for every number of steps."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.regional.blocks import shuffled
from autograder.judging import called, kind_of

NAMES = ("whole", "regional", "nested")


def ask(draw: Draw) -> Values:
    """Four models in whole microseconds: all three ways have their time, two have, one beats all, one comes late."""
    return {"cases": [_case(draw, kind) for kind in ("all", "two", "one", "late")]}


def _case(draw: Draw, kind: str) -> Values:
    """Start and step of the three ways under drawn names, so that no name is right by itself."""
    quick, middle, slow = (draw.size(*span) for span in ((10**5, 10**6), (2 * 10**6, 6 * 10**6), (10**7, 3 * 10**7)))
    least = draw.size(2000, 5000)
    if kind == "all":  # the middle one has its turn: well below the line through the other two
        far = draw.size(4000, 8000)
        costs = [(quick, least + far), (middle, least + far // 8), (slow, least)]
    elif kind == "two":  # the middle one comes too late: above that line
        far = draw.size(800, 1600)
        costs = [(quick, least + far), (slow - 1000, least + far * 9 // 10), (slow, least)]
    elif kind == "one":
        costs = [(quick, least), (middle, least + draw.size(1, 900)), (slow, least + draw.size(1, 900))]
    else:  # two that differ by a microsecond a step
        costs = [(quick, least + 1), (middle, least), (slow, least)]
    names = shuffled(draw, list(NAMES))
    return {name: list(cost) for name, cost in zip(names, costs, strict=True)}


def total(cost: list[int], steps: int) -> int:
    """Microseconds of so many steps, of which the first costs `cost[0]`, each other one `cost[1]`."""
    return cost[0] + (steps - 1) * cost[1]


def turns(ways: Values) -> list[list[Any]]:
    """``[first step, name]`` of each way that is the cheapest from there on, in order; at a tie the earlier stays."""
    now = min(ways, key=lambda name: (ways[name][0], ways[name][1]))
    found: list[list[Any]] = [[1, now]]
    while True:
        later = {}
        for name, (first, step) in ways.items():
            if step < ways[now][1]:
                meet = Fraction(first - ways[now][0], ways[now][1] - step) + 1
                later[name] = max(found[-1][0] + 1, meet.__floor__() + 1)
        if not later:
            return found
        begins = min(later.values())
        now = min((name for name in later if later[name] == begins), key=lambda name: total(ways[name], begins))
        found.append([begins, now])


def probe(answer: Answer, asked: Values) -> Values:
    """What the function says of each model."""
    said = []
    for case in asked["cases"]:
        ways = {name: tuple(cost) for name, cost in case.items()}
        said.append(called("cheapest(ways)", answer.cheapest, ways))
    return {"said": said}


def judge(asked: Values, found: Values) -> str:
    """The list of turns, to the step."""
    for case, said in zip(asked["cases"], found["said"], strict=True):
        true = turns(case)
        if said != true:
            raise _not_yet(case, said, true)
    return "every turn, to the step"


def _not_yet(case: Values, said: Any, true: list[list[Any]]) -> NotYet:
    ran = "cheapest({" + ", ".join(f"{name}: {tuple(cost)}" for name, cost in case.items()) + "})"
    pairs = isinstance(said, list) and all(
        isinstance(one, list) and len(one) == 2 and one[1] in case and type(one[0]) is int for one in said
    )
    if not pairs or not said:
        got = str(said)[:40] if isinstance(said, list) else kind_of(said)
        return NotYet(ran, f"returned {got}", "a list of (step, name) is wanted", "Look at the docstring.")
    for step in sorted({one[0] for one in [*said, *true]} | {1}):
        mine, right = _at(said, step), _at(true, step)
        if mine != right:
            wrong = f"has {mine or 'nobody'} at step {step:,}"
            return NotYet(ran, wrong, f"{right} costs less by then", "Write down both sums for that step.")
    return NotYet(ran, f"has {len(said)} turns", f"{len(true)} are wanted", "Name a way only where its turn begins.")


def _at(said: list[list[Any]], step: int) -> str:
    return next((name for begins, name in reversed(said) if begins <= step), "")


_BRUTE = """
def cheapest(ways):
    def total(name, n):
        return ways[name][0] + (n - 1) * ways[name][1]
    def best(n, now):
        least = min(ways, key=lambda name: (total(name, n), ways[name][1]))
        return now if now and total(now, n) == total(least, n) else least
    turns = [(1, min(ways, key=lambda name: ways[name]))]
    candidates = sorted({1 + d for a in ways for b in ways if ways[a][1] > ways[b][1]
                         for d in [(ways[b][0] - ways[a][0]) // (ways[a][1] - ways[b][1]) + 1] if d > 0})
    for n in candidates:
        name = best(n, turns[-1][1])
        if name != turns[-1][1]:
            turns.append((n, name))
    return turns
"""

_WALK = """
def cheapest(ways):
    now = min(ways, key=lambda name: ways[name])
    turns = [(1, now)]
    while True:
        (first, step), later = ways[now], []
        for name, (start, each) in ways.items():
            if each < step:
                steps = (start - first) // (step - each) + 2
                later.append((max(steps, turns[-1][0] + 1), each, name))
        if not later:
            return turns
        n = min(later)[0]
        now = min((ways[name][0] + (n - 1) * each, name) for steps, each, name in later if steps == n)[1]
        turns.append((n, now))
"""

EXERCISE = Exercise(
    name="regional_2",
    lesson="07_regional",
    points=3,
    asks_for=("cheapest",),
    check=Check(ask, probe, judge),
    hints=(
        "Draw the total against the number of steps: a straight line for each way. Which one is lowest, and where?",
        "Begin with the least first step. Another way can take over only if its steps are shorter, and the one that "
        "crosses soonest does.",
        "From `now`, for each way with a shorter step: n = (first - first_now) // (step_now - step) + 2. The smallest "
        "n is the next turn; go on from there until nobody is shorter.",
    ),
    known_mistakes=(
        KnownMistake(  # every way gets a turn, in the order of the first step
            """
def cheapest(ways):
    order = sorted(ways, key=lambda name: ways[name])
    turns = [(1, order[0])]
    for name in order[1:]:
        (first, step), (start, each) = ways[turns[-1][1]], ways[name]
        if each < step:
            turns.append(((start - first) // (step - each) + 2, name))
    return turns
""",
            "costs less by then",
        ),
        KnownMistake(  # the first step counts as a step of the others, too
            _WALK.replace("// (step - each) + 2", "// (step - each) + 1"),
            "costs less by then",
        ),
        KnownMistake(  # the way with the fastest step, at once
            "def cheapest(ways):\n    return [(1, min(ways, key=lambda name: ways[name][1]))]\n", "costs less by then"
        ),
        KnownMistake(  # the way that starts first, for ever
            "def cheapest(ways):\n    return [(1, min(ways, key=lambda name: ways[name][0]))]\n", "costs less by then"
        ),
        KnownMistake(  # the names as the lesson has them
            'def cheapest(ways):\n    return [(1, "regional"), (500, "nested"), (3000, "whole")]\n',
            "costs less by then",
        ),
        KnownMistake("def cheapest(ways):\n    return min(ways, key=lambda name: sum(ways[name]))\n", "(step, name)"),
        KnownMistake(  # a turn for each boundary, also where nothing changes
            _WALK.replace("return turns", "return turns + [(turns[-1][0] + 5, turns[-1][1])]"), "Name a way only"
        ),
    ),
    alternatives=(_WALK, _BRUTE),
)
