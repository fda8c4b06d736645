"""modes_6: what a table of timed candidates is worth, and after how many calls tuning has paid."""

from __future__ import annotations

import math
from typing import Any

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.judging import called, kind_of
from compilescope.facts import Autotuning, Choice
from compilescope.recorded import recorded_modes

LIBRARY = ("mm", "addmm", "bmm", "bias_addmm")
"""Names of candidates that call cuBLAS; those of Triton's templates begin with ``triton_``."""


def ask(draw: Draw) -> Values:
    """Tables recorded on the H200, changed a little, in any order: one won by the library, one with a failure."""
    tables = [table for table in _recorded() if len(table.choices) > 4]
    found: list[dict[str, Any]] = []
    for table in sorted(tables, key=lambda _: draw.number(0, 1))[: draw.size(3, 4)]:
        choices = [
            {"name": one.name, "time_us": None if one.time_us is None else one.time_us * draw.number(0.7, 1.4)}
            for one in table.choices
        ]
        found.append({"subject": table.subject, "choices": sorted(choices, key=lambda _: draw.number(0, 1))})
    times = [one["time_us"] for one in found[0]["choices"] if one["time_us"] is not None]
    for one in found[0]["choices"]:  # here cuBLAS is the fastest already
        if one["name"] in LIBRARY:
            one["time_us"] = 0.9 * min(times)
    templates = [one for one in found[1]["choices"] if one["name"] not in LIBRARY]
    templates[0]["time_us"] = None
    templates[1]["time_us"] = 0.6 * min(one["time_us"] for one in found[1]["choices"] if one["time_us"] is not None)
    return {"tables": sorted(found, key=lambda _: draw.number(0, 1)), "tuning_s": draw.number(5, 90)}


def _recorded() -> list[Autotuning]:
    """The algorithm tables of the recording that hold a library call and templates, each subject once."""
    found: dict[str, Autotuning] = {}
    for trial in recorded_modes("modes").trials:
        for one in trial.autotuning:
            names = [choice.name for choice in one.choices]
            both = any(name in LIBRARY for name in names) and sum(name.startswith("triton_") for name in names) > 2
            if one.kind == "algorithm" and both and all(name in LIBRARY or "triton_" in name for name in names):
                found.setdefault(one.subject, one)
    return list(found.values())


def probe(answer: Answer, asked: Values) -> Values:
    """What the answer says of the tables together, and of one where the library is the fastest."""
    tables = [_table(one) for one in asked["tables"]]
    seconds = asked["tuning_s"]
    nothing = [table for table in tables if _saved(table) == 0][:1]
    return {
        "all": called("worth_tuning(tables, tuning_s)", answer.worth_tuning, tables, seconds),
        "nothing": called("worth_tuning(one table, tuning_s)", answer.worth_tuning, nothing, seconds),
    }


def _table(given: dict[str, Any]) -> Autotuning:
    choices = tuple(Choice(one["name"], one["time_us"]) for one in given["choices"])
    return Autotuning("algorithm", given["subject"], choices)


def _saved(table: Autotuning) -> float:
    timed = [(one.name, one.time_us) for one in table.choices if one.time_us is not None]
    return min(time for name, time in timed if name in LIBRARY) - min(time for _, time in timed)


def judge(asked: Values, found: Values) -> str:
    """The time that all best candidates save over the library, and the calls until tuning has paid."""
    saved = sum(_saved(_table(one)) for one in asked["tables"])
    label = "worth_tuning(tables, tuning_s)"
    _pair(label, found["all"])
    got, calls = found["all"]
    if not isinstance(got, (int, float)) or not math.isclose(got, saved, rel_tol=0.01):
        raise NotYet(
            label,
            f"says {_short(got)} µs saved in a call",
            f"{saved:.1f} is right",
            "Best of all minus best library, table by table. Some failed; nothing is sorted.",
        )
    want = math.ceil(asked["tuning_s"] * 1e6 / saved)
    if not isinstance(calls, (int, float)) or abs(calls - want) > max(1.0, 0.01 * want):
        raise NotYet(
            label, f"says it pays after {_short(calls)} calls", f"{want} is right", "Seconds and microseconds."
        )
    label = "worth_tuning(a table that the library wins)"
    _pair(label, found["nothing"])
    if found["nothing"] != [0, None]:
        raise NotYet(label, f"returned {found['nothing']}", "(0, None) is wanted", "Nothing saved never pays.")
    return f"{saved:.0f} µs saved in a call, paid after {want:,} calls"


def _pair(label: str, found: Any) -> None:
    if not isinstance(found, list) or len(found) != 2:
        raise NotYet(label, f"returned {kind_of(found)}", "(saved_us, calls) is wanted", "Look at the docstring.")


def _short(value: Any) -> str:
    return f"{value:.1f}" if isinstance(value, (int, float)) else str(value)[:20]


_START = "import math\n"

EXERCISE = Exercise(
    name="modes_6",
    lesson="05_modes",
    points=2,
    asks_for=("worth_tuning",),
    check=Check(ask, probe, judge),
    hints=(
        "Print the choices of one table: which have no time, which are library calls, and are they in order?",
        "Compare the fastest of all with the fastest library call: without tuning you would get the latter.",
        "For each table: times of choices with a time; min over the library ones minus min over all. Sum; "
        "ceil(tuning_s * 1e6 / saved), None if nothing is saved.",
    ),
    known_mistakes=(
        KnownMistake(  # the wrong way round
            _START
            + """
def worth_tuning(tables, tuning_s):
    saved = 0
    for t in tables:
        timed = [c for c in t.choices if c.time_us is not None]
        saved += min(c.time_us for c in timed) - min(c.time_us for c in timed if not c.name.startswith("triton_"))
    return (saved, math.ceil(tuning_s * 1e6 / saved)) if saved else (0, None)
""",
            "µs saved in a call",
        ),
        KnownMistake(  # the slowest is what nobody would take
            _START
            + """
def worth_tuning(tables, tuning_s):
    saved = 0
    for t in tables:
        times = [c.time_us for c in t.choices if c.time_us is not None]
        saved += max(times) - min(times)
    return saved, math.ceil(tuning_s * 1e6 / saved)
""",
            "Best of all minus best library",
        ),
        KnownMistake(  # a failed candidate has no time
            _START
            + """
def worth_tuning(tables, tuning_s):
    saved = 0
    for t in tables:
        best = min(t.choices, key=lambda c: c.time_us)
        library = min((c for c in t.choices if not c.name.startswith("triton_")), key=lambda c: c.time_us)
        saved += library.time_us - best.time_us
    return saved, math.ceil(tuning_s * 1e6 / saved)
""",
            "TypeError",
        ),
        KnownMistake(  # seconds by microseconds
            _START
            + """
def worth_tuning(tables, tuning_s):
    saved = 0
    for t in tables:
        timed = [c for c in t.choices if c.time_us is not None]
        saved += min(c.time_us for c in timed if not c.name.startswith("triton_")) - min(c.time_us for c in timed)
    return (saved, math.ceil(tuning_s / saved)) if saved else (0, None)
""",
            "Seconds and microseconds",
        ),
        KnownMistake(  # nothing saved
            _START
            + """
def worth_tuning(tables, tuning_s):
    saved = 0
    for t in tables:
        timed = [c for c in t.choices if c.time_us is not None]
        saved += min(c.time_us for c in timed if not c.name.startswith("triton_")) - min(c.time_us for c in timed)
    return saved, math.ceil(tuning_s * 1e6 / saved)
""",
            "ZeroDivisionError",
        ),
        KnownMistake("def worth_tuning(tables, tuning_s):\n    return 100.0\n", "(saved_us, calls) is wanted"),
    ),
    alternatives=(
        _START
        + """
def fastest(choices):
    return min((c.time_us for c in choices if c.time_us is not None), default=math.inf)

def worth_tuning(tables, tuning_s):
    saved = sum(
        fastest(c for c in t.choices if not c.name.startswith("triton")) - fastest(t.choices) for t in tables
    )
    return (saved, math.ceil(tuning_s * 1e6 / saved)) if saved > 0 else (0, None)
""",
        _START
        + """
def worth_tuning(tables, tuning_s):
    gains = []
    for table in tables:
        in_order = sorted((c for c in table.choices if c.time_us), key=lambda c: c.time_us)
        library = next(c for c in in_order if "triton" not in c.name)
        gains.append(library.time_us - in_order[0].time_us)
    total = math.fsum(gains)
    if not total:
        return 0, None
    return total, -(-tuning_s * 1e6 // total)
""",
    ),
)
