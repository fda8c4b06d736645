"""modes_5: what CUDA graphs of several sizes keep, predicted and compared with the recording."""

from __future__ import annotations

from typing import Any

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.judging import called, kind_of
from compilescope.recorded import recorded_modes

MIB = 2**20
RECORDED = {
    "8 MiB": [8],
    "64 MiB": [64],
    "8 then 64 MiB": [8, 64],
    "64 then 8 MiB": [64, 8],
    "16, 32, 48, 64 MiB": [16, 32, 48, 64],
}
"""Workload of the recording to the sizes of its inputs in MiB; each result is as large as its input."""
SMALLEST = "1 MiB"
WITHIN = 0.1


def ask(draw: Draw) -> Values:
    """The recorded cases, and others of which only the rule is known."""
    table = recorded_modes("cuda_graphs")
    base = (table.trial(SMALLEST, "reduce-overhead").pool_bytes or 0) // MIB - 2
    cases: list[Values] = []
    for name, sizes in RECORDED.items():
        pool = table.trial(name, "reduce-overhead").pool_bytes
        cases.append({"sizes": sizes, "base": base, "kept": None if pool is None else pool / MIB})
    for _ in range(4):
        sizes = [8 * draw.size(1, 40) for _ in range(draw.size(3, 7))]
        other = draw.size(0, 9) * 20
        cases.append({"sizes": sizes, "base": other, "kept": other + sum(sizes) + max(sizes)})
    return {"cases": sorted(cases, key=lambda _: draw.number(0, 1))}


def probe(answer: Answer, asked: Values) -> Values:
    """The prediction for each case."""
    found = []
    for case in asked["cases"]:
        label = f"kept_mib({case['sizes']}, {case['base']})"
        found.append(called(label, answer.kept_mib, list(case["sizes"]), case["base"]))
    return {"predicted": found}


def judge(asked: Values, found: Values) -> str:
    """Each prediction is within 10 % of what was recorded, or of the rule."""
    worst = 0.0
    for case, got in zip(asked["cases"], found["predicted"], strict=True):
        label = f"kept_mib({case['sizes']}, {case['base']})"
        worst = max(worst, _off(label, case, got))
    return f"within {worst:.0%} of what was kept"


def _off(label: str, case: Values, got: Any) -> float:
    if not isinstance(got, (int, float)):
        raise NotYet(label, f"returned {kind_of(got)}", "a number of MiB is wanted", "Look at your return line.")
    off: float = abs(got / case["kept"] - 1)
    if not off <= WITHIN:
        look = "Which memory is alive for each size for ever, and which for one call only?"
        raise NotYet(label, f"predicted {got:.0f} MiB", f"{case['kept']:.0f} MiB are kept", look)
    return off


EXERCISE = Exercise(
    name="modes_5",
    lesson="05_modes",
    points=2,
    asks_for=("kept_mib",),
    check=Check(ask, probe, judge),
    hints=(
        "Read the last column of the picture: by how much does it grow with each new size, and when does it not?",
        "Each graph keeps the static copy of its input. Results of all graphs take turns in one pool.",
        "base + the sum of all inputs + the largest result.",
    ),
    known_mistakes=(
        KnownMistake("def kept_mib(sizes, base):\n    return base + 2 * sum(sizes)\n", "MiB are kept"),
        KnownMistake("def kept_mib(sizes, base):\n    return base + 2 * max(sizes)\n", "MiB are kept"),
        KnownMistake("def kept_mib(sizes, base):\n    return base + sum(sizes)\n", "MiB are kept"),
        KnownMistake("def kept_mib(sizes, base):\n    return sum(sizes) + max(sizes)\n", "MiB are kept"),
        KnownMistake("def kept_mib(sizes, base):\n    print(base + sum(sizes) + max(sizes))\n", "returned None"),
        KnownMistake("def kept_mib(sizes, base):\n    return 264\n", "predicted 264 MiB"),
        KnownMistake("def kept_mib(sizes, base):\n    return float('nan')\n", "predicted nan MiB"),
    ),
    alternatives=(
        "def kept_mib(sizes, base):\n    return base + sum(sizes) + max(sizes)\n",
        """
def kept_mib(sizes, base):
    inputs = largest = 0
    for size in sizes:
        inputs += size
        largest = max(largest, size)
    return float(base + inputs + largest)
""",
    ),
)
