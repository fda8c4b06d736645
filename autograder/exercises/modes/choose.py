"""modes_2: choose a mode for a workload from measured facts, and say what the choice saves."""

from __future__ import annotations

import math
from typing import Any

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.judging import called, kind_of
from compilescope.facts_modes import TimedCall, Trial
from compilescope.recorded import recorded_modes

REGRET = 0.02
"""How much more than the best choice an answer may cost."""
CLEARLY = 0.9
"""The share of eager's time below which the best choice stays where compiling must pay."""
_KINDS = ("once", "often", "little memory", "failed")


def ask(draw: Draw) -> Values:
    """Four workloads of the recording: called a few times, for ever, in little memory, with a mode that failed.

    The numbers are changed a little, and the compiled modes swap names: what one remembers of the lesson is no answer.
    """
    table = recorded_modes("modes")
    names = [one.name for one in table.group("modes") if _worth_compiling(table.of(one.name))]
    cases = []
    for kind, name in zip(_KINDS, (sorted(names, key=lambda _: draw.number(0, 1)) * 4)[:4], strict=True):
        trials = _changed([one for one in table.of(name) if one.steady_us is not None], draw)
        calls = draw.size(1, 6) if kind == "once" else int(10 ** draw.number(4, 7))
        fastest = min((one for one in trials if one["mode"] != "eager"), key=lambda one: one["steady_us"])
        eager = next(one for one in trials if one["mode"] == "eager")
        while kind != "once" and _total(fastest, calls) > CLEARLY * _total(eager, calls):
            calls *= 2
        best = min((one for one in trials if one["mode"] != "eager"), key=lambda one: _total(one, calls))
        case: Values = {"workload": name, "calls": calls, "most_bytes": None, "trials": trials}
        if kind == "little memory":
            best["kept_bytes"] = draw.size(300, 900) * 2**20
            case["most_bytes"] = draw.size(150, 250) * 2**20
        if kind == "failed":
            best["steady_us"] = None
        cases.append(case | {"trials": sorted(trials, key=lambda _: draw.number(0, 1))})
    return {"cases": cases}


def _worth_compiling(trials: tuple[Trial, ...]) -> bool:
    """In steady state some mode takes less than two thirds of eager's time: 0.82 at most, changed by 10 % each."""
    times = {one.mode: one.steady_us for one in trials if one.steady_us is not None}
    return min(times.values()) < times.get("eager", 0) * 2 / 3


def _changed(trials: list[Trial], draw: Draw) -> list[Values]:
    compiled = [one.mode for one in trials if one.mode != "eager"]
    names = {"eager": "eager", **dict(zip(compiled, sorted(compiled, key=lambda _: draw.number(0, 1)), strict=True))}
    return [_with_name(one, names[one.mode], draw.number(0.9, 1.1)) for one in trials]


def _with_name(trial: Trial, mode: str, factor: float) -> Values:
    calls = [
        {
            "seconds": one.seconds * factor,
            "compiles": one.compiles,
            "warmed_up": one.warmed_up,
            "recorded": one.recorded,
        }
        for one in trial.calls
    ]
    kept = min(trial.kept_bytes or 0, 100 * 2**20)
    return {"mode": mode, "calls": calls, "steady_us": (trial.steady_us or 0) * factor, "kept_bytes": kept}


def _trial(workload: str, given: Values) -> Trial:
    calls = tuple(TimedCall(**one) for one in given["calls"])
    return Trial(workload, given["mode"], calls, steady_us=given["steady_us"], kept_bytes=given["kept_bytes"])


def _total(given: Values, calls: int) -> float:
    return _trial("", given).total_s(calls)


def probe(answer: Answer, asked: Values) -> Values:
    """What the answer chooses in each case."""
    found = []
    for case in asked["cases"]:
        trials = [_trial(case["workload"], one) for one in case["trials"]]
        label = f"choose_mode(trials of {case['workload']!r}, …)"
        found.append(called(label, answer.choose_mode, trials, case["calls"], case["most_bytes"]))
    return {"chosen": found}


def judge(asked: Values, found: Values) -> str:
    """Each choice is allowed, costs at most `REGRET` more than the best, and its defense is right."""
    worst = 0.0
    for case, chosen in zip(asked["cases"], found["chosen"], strict=True):
        worst = max(worst, _one(case, chosen))
    return f"{len(asked['cases'])} choices, at most {worst:.1%} above the best"


def _one(case: Values, chosen: Any) -> float:
    limit = "any memory" if case["most_bytes"] is None else f"{case['most_bytes'] / 2**20:.0f} MiB"
    label = f"choose_mode({case['workload']}, {case['calls']:,} calls, {limit})"
    by_mode = {one["mode"]: one for one in case["trials"]}
    if not isinstance(chosen, list) or len(chosen) != 2 or chosen[0] not in by_mode:
        said = kind_of(chosen) if not isinstance(chosen, list) else str(chosen)[:40]
        raise NotYet(label, f"returned {said}", "(mode, seconds saved) is wanted", "Look at the docstring.")
    mode, saved = chosen
    one = by_mode[mode]
    if one["steady_us"] is None:
        raise NotYet(label, f"chose {mode}, which failed", "a mode that works is wanted", "Look at steady_us: None.")
    if case["most_bytes"] is not None and one["kept_bytes"] > case["most_bytes"]:
        kept = f"{one['kept_bytes'] / 2**20:.0f} MiB"
        raise NotYet(label, f"chose {mode}, which keeps {kept}", f"at most {limit} is allowed", "Look at kept_bytes.")
    best = min(
        (
            other
            for other in by_mode.values()
            if case["most_bytes"] is None or other["kept_bytes"] <= case["most_bytes"]
        ),
        key=lambda other: _total(other, case["calls"]),
    )
    least, cost = (_total(which, case["calls"]) for which in (best, one))
    if cost > (1 + REGRET) * least:
        raise NotYet(
            label,
            f"chose {mode}, {cost:.3g} s in all",
            f"{best['mode']} takes {least:.3g} s",
            "Count the first calls, then the steady ones.",
        )
    defense = _total(by_mode["eager"], case["calls"]) - cost
    if not isinstance(saved, (int, float)) or not math.isclose(saved, defense, rel_tol=0.02, abs_tol=0.02 * cost):
        raise NotYet(label, f"says {saved} s saved", f"{defense:.3g} s less than eager is right", "Same sum for eager.")
    return cost / least - 1


_START = "import math\n"
_TOTAL = """
def total(trial, calls):
    if trial.steady_us is None:
        return math.inf
    first = trial.calls[:min(calls, trial.start_calls)]
    return sum(one.seconds for one in first) + (calls - len(first)) * trial.steady_us / 1e6
"""

EXERCISE = Exercise(
    name="modes_2",
    lesson="05_modes",
    points=3,
    asks_for=("choose_mode",),
    check=Check(ask, probe, judge),
    hints=(
        "Write the sum for one mode by hand: which calls cost what, and what follows after start_calls?",
        "Total = seconds of the first start_calls calls + the other calls × steady_us. Without steady_us it is out.",
        "total(trial) as in the rule; allowed = [those with steady_us and kept_bytes within most_bytes]; "
        "best = min(allowed, key=total); return best.mode, total(eager) - total(best).",
    ),
    known_mistakes=(
        KnownMistake(  # the name promises it
            _START
            + _TOTAL
            + """
def choose_mode(trials, calls, most_bytes):
    by_mode = {one.mode: one for one in trials}
    return "reduce-overhead", total(by_mode["eager"], calls) - total(by_mode["reduce-overhead"], calls)
""",
            "chose reduce-overhead",
        ),
        KnownMistake(  # steady state only
            _START
            + """
def choose_mode(trials, calls, most_bytes):
    allowed = [t for t in trials if t.steady_us is not None and (most_bytes is None or t.kept_bytes <= most_bytes)]
    best = min(allowed, key=lambda t: t.steady_us)
    eager = next(t for t in trials if t.mode == "eager")
    return best.mode, calls * (eager.steady_us - best.steady_us) / 1e6
""",
            "Count the first calls",
        ),
        KnownMistake(  # every memory
            _START
            + _TOTAL
            + """
def choose_mode(trials, calls, most_bytes):
    best = min(trials, key=lambda t: total(t, calls))
    eager = next(t for t in trials if t.mode == "eager")
    return best.mode, total(eager, calls) - total(best, calls)
""",
            "Look at kept_bytes",
        ),
        KnownMistake(  # a mode that failed looks free
            _START
            + """
def choose_mode(trials, calls, most_bytes):
    def total(t):
        first = t.calls[:min(calls, t.start_calls)]
        return sum(one.seconds for one in first) + (calls - len(first)) * (t.steady_us or 0) / 1e6
    allowed = [t for t in trials if most_bytes is None or t.kept_bytes <= most_bytes]
    best = min(allowed, key=total)
    return best.mode, total(next(t for t in trials if t.mode == "eager")) - total(best)
""",
            "which failed",
        ),
        KnownMistake(  # no defense
            _START
            + _TOTAL
            + """
def choose_mode(trials, calls, most_bytes):
    allowed = [t for t in trials if most_bytes is None or t.kept_bytes <= most_bytes]
    best = min(allowed, key=lambda t: total(t, calls))
    return best.mode, total(best, calls)
""",
            "less than eager is right",
        ),
        KnownMistake(  # only the name
            _START
            + _TOTAL
            + """
def choose_mode(trials, calls, most_bytes):
    return min(trials, key=lambda t: total(t, calls)).mode
""",
            "(mode, seconds saved) is wanted",
        ),
    ),
    alternatives=(
        """
def choose_mode(trials, calls, most_bytes):
    eager = next(t for t in trials if t.mode == "eager")
    fits = [t for t in trials if t.steady_us and (most_bytes is None or t.kept_bytes <= most_bytes)]
    best = min(fits, key=lambda t: t.total_s(calls))
    return best.mode, eager.total_s(calls) - best.total_s(calls)
""",
        _START
        + """
def choose_mode(trials, calls, most_bytes):
    costs = {}
    for trial in trials:
        cost, left = 0.0, calls
        for call in trial.calls[: trial.start_calls]:
            if left:
                cost += call.seconds
                left -= 1
        if trial.steady_us is not None:
            costs[trial.mode] = cost + left * trial.steady_us * 1e-6
    eager = costs["eager"]
    for trial in trials:
        if most_bytes is not None and trial.kept_bytes > most_bytes:
            costs.pop(trial.mode, None)
    best = min(costs, key=costs.get)
    return best, eager - costs[best]
""",
    ),
)
