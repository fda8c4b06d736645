"""timing_3: after how many calls compiling has paid."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.judging import called

LABEL = "calls_until_paid(warmup, compiled, eager)"


def ask(draw: Draw) -> Values:
    """Seven functions in whole microseconds: two pay late, one never, one at once, one on the spot, two in warm-up."""
    cases: list[Values] = []
    for kind in ("late", "very late", "never", "at once", "exactly"):
        eager = draw.size(200, 900)
        compiled = eager + draw.size(0, 50) if kind == "never" else draw.size(20, eager // 2)
        if kind == "very late":
            compiled = eager - draw.size(2, 3)
        warmup = [draw.size(2 * 10**5, 9 * 10**5), *(draw.size(eager, 4 * 10**4) for _ in range(draw.size(0, 2)))]
        if kind == "at once":
            warmup = [eager - draw.size(1, 9)]
        if kind == "exactly":  # the calls after the warm-up make up for it to the microsecond
            warmup = [eager + (eager - compiled) * draw.size(40, 90)]
        elif kind in ("late", "very late") and (sum(warmup) - len(warmup) * eager) % (eager - compiled) == 0:
            warmup[0] += 1  # the debt is no multiple of the gain: rounding down is wrong
        cases.append({"warmup": warmup, "compiled": compiled, "eager": eager})
    return {"cases": [*cases, *_paid_in_the_warmup(draw)]}


def _paid_in_the_warmup(draw: Draw) -> Iterator[Values]:
    """Paid before the last call of the warm-up, one microsecond short a call earlier; and with the very last one."""
    eager, debt = draw.size(200, 900), draw.size(20, 90)
    warmup = [eager + debt, eager - debt + 1, eager - 1, eager - draw.size(1, 9)]
    yield {"warmup": warmup, "compiled": eager // 2, "eager": eager}
    yield {"warmup": [eager + debt, eager - debt], "compiled": eager + draw.size(0, 50), "eager": eager}


def paid_after(case: Values) -> int | None:
    """The smallest n for which n compiled calls, the warm-up among them, took no longer than n eager ones."""
    warmup, compiled, eager = case["warmup"], case["compiled"], case["eager"]
    behind = 0
    for n, seconds in enumerate(warmup, 1):
        behind += seconds - eager
        if behind <= 0:
            return n
    gain = eager - compiled
    return len(warmup) - (-behind // gain) if gain > 0 else None


def probe(answer: Answer, asked: Values) -> Values:
    """What the function says of each case."""
    said = []
    for case in asked["cases"]:
        value = called(LABEL, answer.calls_until_paid, list(case["warmup"]), case["compiled"], case["eager"])
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise NotYet(LABEL, f"returned {str(value)[:30]}", "a whole number or None", "Look at the docstring.")
        said.append(value)
    return {"said": said}


def judge(asked: Values, found: Values) -> str:
    """The number of calls for each case; None where compiling never pays."""
    for case, said in zip(asked["cases"], found["said"], strict=True):
        true = paid_after(case)
        if said == true:
            continue
        warmup = ", ".join(f"{one:,}" for one in case["warmup"])
        ran = f"calls_until_paid([{warmup}], {case['compiled']}, {case['eager']})"
        raise NotYet(ran, f"says {said}", f"{true} is right", _look(case, said, true))
    return "the break-even, to the call"


def _look(case: Values, said: int | None, true: int | None) -> str:
    if true is None:
        return "Look at a compiled call that is no faster: it never makes up for anything."
    if case["warmup"][0] < case["eager"]:
        return "Look at a first call that is cheap."
    if said is not None and abs(said - true) == 1:
        return f"Add up both sides after {min(said, true)} and after {max(said, true)} calls."
    return "Look at what all of the warm-up calls cost, and that they are calls, too."


_CLOSED = """
def calls_until_paid(warmup, compiled, eager):
    behind = 0
    for n, spent in enumerate(warmup, 1):
        behind += spent - eager
        if behind <= 0:
            return n
    if compiled >= eager:
        return None
    return len(warmup) - (-behind // (eager - compiled))
"""

EXERCISE = Exercise(
    name="timing_3",
    lesson="02_timing",
    points=2,
    asks_for=("calls_until_paid",),
    check=Check(ask, probe, judge),
    hints=(
        "Write down both sums after n calls: the warm-up and then compiled calls on one side, n · eager on the other.",
        "The warm-up leaves you behind by sum(warmup) - len(warmup) · eager. Each later call brings you "
        "eager - compiled.",
        "Walk through the warm-up and return early if you are not behind. Then: None if there is no gain, else "
        "len(warmup) + the debt divided by the gain, rounded up.",
    ),
    known_mistakes=(
        KnownMistake(  # the warm-up calls would have had to be made anyway
            """
def calls_until_paid(warmup, compiled, eager):
    return None if compiled >= eager else -(-sum(warmup) // (eager - compiled))
""",
            "is right",
        ),
        KnownMistake(_CLOSED.replace("- (-behind //", "+ (behind //"), "Add up both sides"),
        KnownMistake(
            _CLOSED.replace("len(warmup) - (-behind // (eager - compiled))", "-(-behind // (eager - compiled))"),
            "is right",
        ),
        KnownMistake(
            _CLOSED.replace(
                "    if compiled >= eager:\n        return None\n", "    eager = max(eager, compiled + 1)\n"
            ),
            "never makes up",
        ),
        KnownMistake(
            _CLOSED.replace("- (-behind // (eager - compiled))", "+ behind // (eager - compiled) + 1"),
            "Add up both sides",
        ),
        KnownMistake(  # takes for granted that the warm-up is slow
            """
def calls_until_paid(warmup, compiled, eager):
    behind = sum(warmup) - len(warmup) * eager
    if compiled >= eager:
        return None
    return len(warmup) + max(1, -(-behind // (eager - compiled)))
""",
            "a first call that is cheap",
        ),
        KnownMistake(
            "def calls_until_paid(warmup, compiled, eager):\n    return warmup[0] / (eager - compiled + 0.1)\n",
            "a whole number",
        ),
        KnownMistake("def calls_until_paid(warmup, compiled, eager):\n    return 1000\n", "is right"),
    ),
    alternatives=(
        _CLOSED,
        """
import math
from fractions import Fraction

def calls_until_paid(warmup, compiled, eager):
    sums = [sum(warmup[:n]) for n in range(1, len(warmup) + 1)]
    early = [n for n, spent in enumerate(sums, 1) if spent <= n * eager]
    if early or compiled >= eager:
        return early[0] if early else None
    return len(warmup) + math.ceil(Fraction(sums[-1] - len(warmup) * eager, eager - compiled))
""",
        """
from itertools import accumulate, chain, repeat

def calls_until_paid(warmup, compiled, eager):
    if compiled >= eager and not any(sum(warmup[:n]) <= n * eager for n in range(1, len(warmup) + 1)):
        return None
    sums = accumulate(chain(warmup, repeat(compiled)))
    return next(n for n, spent in enumerate(sums, 1) if spent <= n * eager)
""",
    ),
)
