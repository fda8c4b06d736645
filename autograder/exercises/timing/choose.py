"""timing_6: what to compile when compile time is limited and each function is called so many times only."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.judging import called

LABEL = "choose(parts, startup)"
Part = dict[str, Any]
_NAMES = ("encoder", "attention", "mlp", "decoder", "loss", "metrics", "augment")


def ask(draw: Draw) -> Values:
    """Two programs of seven functions, times in whole ms, and the compile time that each may spend.

    Drawn until the two greedy ways, most gain first and most gain for each ms first, both miss the best. Whoever
    counts one call too many or too few goes wrong as well: compiling augment saves 1 ms and belongs to the best,
    compiling loss costs 1 ms and would fit into the second program. The best of the first fits to the millisecond.
    """
    programs: list[Values] = []
    while len(programs) < 2:
        parts = [_part(name, draw) for name in _NAMES]
        startup = sum(part["first"] for part in parts) * draw.size(35, 55) // 100
        chosen, least = best(parts, startup)
        first = {part["name"]: part["first"] for part in parts}
        spent = sum(first[name] for name in chosen)
        startup, room = (startup, startup - spent) if programs else (spent, spent - first["augment"])
        greedy = (total(parts, way(parts, startup)) for way in (by_gain, by_rate))
        if "augment" in chosen and room >= first["loss"] and min(greedy) > least:
            programs.append({"parts": parts, "startup": startup})
    return {"programs": programs}


def _part(name: str, draw: Draw) -> Part:
    if name in ("loss", "augment"):
        calls, eager, compiled = draw.size(2, 4), draw.size(30, 60), draw.size(10, 25)
        first = calls * eager - (calls - 1) * compiled + (1 if name == "loss" else -1)
    else:
        calls, eager, first = draw.size(200, 3000), draw.size(4, 40), draw.size(900, 9000)
        compiled = eager + draw.size(1, 5) if name == "metrics" else draw.size(1, eager - 1)
    return {"name": name, "calls": calls, "eager": eager, "compiled": compiled, "first": first}


def gain(part: Part) -> int:
    """Milliseconds that compiling this part saves over all of its calls; negative where it costs."""
    return int(part["calls"] * part["eager"] - part["first"] - (part["calls"] - 1) * part["compiled"])


def total(parts: Iterable[Part], names: Iterable[str]) -> int:
    """Milliseconds of the whole program if exactly these parts are compiled."""
    chosen = set(names)
    return sum(part["calls"] * part["eager"] - (gain(part) if part["name"] in chosen else 0) for part in parts)


def best(parts: list[Part], startup: int) -> tuple[set[str], int]:
    """The cheapest choice among all that keep within `startup`, and its milliseconds."""
    each = [(part["name"], part["first"], gain(part)) for part in parts]
    sets = (some for size in range(len(parts) + 1) for some in combinations(each, size))
    allowed = (some for some in sets if sum(first for _, first, _ in some) <= startup)
    found = {name for name, _, _ in max(allowed, key=lambda some: sum(saved for _, _, saved in some))}
    return found, total(parts, found)


def by_gain(parts: list[Part], startup: int) -> set[str]:
    """The greedy choice: what saves most comes first."""
    return _greedy(sorted(parts, key=gain, reverse=True), startup)


def by_rate(parts: list[Part], startup: int) -> set[str]:
    """The other greedy choice: what saves most for each millisecond of compile time comes first."""
    return _greedy(sorted(parts, key=lambda part: gain(part) / part["first"], reverse=True), startup)


def _greedy(ordered: list[Part], startup: int) -> set[str]:
    chosen, left = set(), startup
    for part in ordered:
        if gain(part) > 0 and part["first"] <= left:
            chosen.add(part["name"])
            left -= part["first"]
    return chosen


def probe(answer: Answer, asked: Values) -> Values:
    """The names that were chosen for each program."""
    chosen = []
    for program in asked["programs"]:
        parts = [dict(part) for part in program["parts"]]
        names = called(LABEL, answer.choose, parts, program["startup"])
        if not isinstance(names, (set, list, tuple, frozenset)) or not set(names) <= set(_NAMES):
            raise NotYet(LABEL, f"returned {str(names)[:40]}", "a set of names is wanted", "Look at the docstring.")
        chosen.append(sorted(set(names)))
    return {"chosen": chosen}


def judge(asked: Values, found: Values) -> str:
    """Within the compile time, and no other choice makes the program faster."""
    saved = 0.0
    for program, names in zip(asked["programs"], found["chosen"], strict=True):
        parts, startup = program["parts"], program["startup"]
        by_name = {part["name"]: part for part in parts}
        spent = sum(by_name[name]["first"] for name in names)
        if spent > startup:
            got = f"spends {spent:,} ms on first calls"
            raise NotYet(LABEL, got, f"{startup:,} are allowed", "Look at the sum of `first` over what you chose.")
        for name in names:
            if gain(by_name[name]) < 0:
                look = f"Look at how often it is called: {by_name[name]['calls']}."
                raise NotYet(LABEL, f"compiles {name}", f"that costs {-gain(by_name[name]):,} ms in all", look)
        wanted, least = best(parts, startup)
        if total(parts, names) > least:
            got = f"chose {', '.join(names) or 'nothing'}: {total(parts, names):,} ms"
            better = f"{', '.join(sorted(wanted))}: {least:,} ms"
            raise NotYet(LABEL, got, better, "Count the first call once. Of 128 choices, try them all.")
        saved = 1 - least / total(parts, ())
    return f"{saved:.0%} less time than eager, the best there is"


_GAIN = """
def gain(part):
    return part["calls"] * part["eager"] - part["first"] - (part["calls"] - 1) * part["compiled"]
"""
_ALL = (
    _GAIN
    + """
from itertools import combinations

def choose(parts, startup):
    sets = [some for size in range(len(parts) + 1) for some in combinations(parts, size)]
    allowed = [some for some in sets if sum(part["first"] for part in some) <= startup]
    return {part["name"] for part in max(allowed, key=lambda some: sum(map(gain, some)))}
"""
)
_GREEDY = (
    _GAIN
    + """
def choose(parts, startup):
    chosen = set()
    for part in sorted(parts, key=KEY, reverse=True):
        if gain(part) > 0 and part["first"] <= startup:
            chosen.add(part["name"])
            startup -= part["first"]
    return chosen
"""
)

EXERCISE = Exercise(
    name="timing_6",
    lesson="02_timing",
    points=3,
    asks_for=("choose",),
    check=Check(ask, probe, judge),
    hints=(
        "For one part first: how many ms does compiling it save over all of its calls? It can be less than nothing.",
        "A part that saves much may be so dear that two others together save more. With seven parts you can try "
        "all sets.",
        "For each set of parts (itertools.combinations) whose `first` add up to at most startup: the sum of gains. "
        "Return the names of the set with the largest sum.",
    ),
    known_mistakes=(
        KnownMistake("def choose(parts, startup):\n    return {part['name'] for part in parts}\n", "are allowed"),
        KnownMistake("def choose(parts, startup):\n    return set()\n", "try them all"),
        KnownMistake(_GREEDY.replace("KEY", "gain"), "try them all"),
        KnownMistake(_GREEDY.replace("KEY", "lambda part: gain(part) / part['first']"), "try them all"),
        KnownMistake(  # looks at one call
            "def choose(parts, startup):\n"
            "    return {part['name'] for part in parts if part['compiled'] < part['eager'] and part['calls'] < 10}\n",
            "how often it is called",
        ),
        KnownMistake(  # the best one alone
            _GAIN + "\ndef choose(parts, startup):\n"
            "    return {max((p for p in parts if p['first'] <= startup), key=gain)['name']}\n",
            "try them all",
        ),
        KnownMistake(_ALL.replace(" <= startup", " <= 10 * startup"), "are allowed"),
        KnownMistake("def choose(parts, startup):\n    return len(parts)\n", "a set of names"),
    ),
    alternatives=(
        _ALL,
        _GAIN
        + """
def choose(parts, startup):
    best = {0: (0, frozenset())}
    for part in parts:
        for spent, (saved, names) in list(best.items()):
            cost = spent + part["first"]
            if cost <= startup and saved + gain(part) > best.get(cost, (-1, None))[0]:
                best[cost] = saved + gain(part), names | {part["name"]}
    return set(max(best.values(), key=lambda pair: pair[0])[1])
""",
        _GAIN
        + """
def choose(parts, startup):
    def search(rest, left):
        if not rest:
            return 0, []
        head, *tail = rest
        without = search(tail, left)
        if head["first"] > left or gain(head) <= 0:
            return without
        saved, names = search(tail, left - head["first"])
        return max(without, (saved + gain(head), [head["name"], *names]))

    return search(parts, startup)[1]
""",
    ),
)
