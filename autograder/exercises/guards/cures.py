"""guards_4: three functions that compile again and again, cured."""

from __future__ import annotations

from typing import Any

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.guards.served import always_compiled, compiles_at_most, each_call
from autograder.judging import beside, called, exact, same_numbers

NAMES = ("faded", "to_meters", "summed")
FACTORS = {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "km": 1e3, "in": 0.0254, "ft": 0.3048, "yd": 0.9144, "mi": 1609.344}
MOST = 2


def ask(draw: Draw) -> Values:
    """Ten calls of each function: tensors, units, and lists of growing length."""
    width = draw.size(3, 8)
    units = [draw.choice(tuple(FACTORS)) for _ in range(10 - len(FACTORS))] + list(FACTORS)
    return {
        "x": [draw.tensor(width) for _ in range(10)],
        "units": sorted(units, key=lambda _: draw.size(0, 10**6)),
        "parts": [[draw.tensor(width) for _ in range(length)] for length in range(draw.size(1, 3), 12)],
    }


def _inputs(asked: Values) -> dict[str, list[tuple[Any, ...]]]:
    return {
        "faded": [(x,) for x in asked["x"]],
        "to_meters": list(zip(asked["x"], asked["units"], strict=True)),
        "summed": [(parts,) for parts in asked["parts"]],
    }


def probe(answer: Answer, asked: Values) -> Values:
    """The calls of each of the three, one run each."""
    with beside(asked["x"][0]):  # steps and factors become tensors
        return _calls(answer, asked)


def _calls(answer: Answer, asked: Values) -> Values:
    three = called("three_cures()", answer.three_cures)
    if not isinstance(three, tuple | list) or len(three) != len(NAMES):
        raise NotYet(
            "three_cures()",
            f"returned a {type(three).__name__}",
            "three functions are wanted",
            "Look at your return line.",
        )
    inputs = _inputs(asked)
    return {name: each_call(name, fn, inputs[name]) for name, fn in zip(NAMES, three, strict=True)}


def judge(asked: Values, found: Values) -> str:
    """Numbers as in float64, and two compiles at most each."""
    want: dict[str, list[Any]] = {
        "faded": [exact(x) / number for number, x in enumerate(asked["x"], 1)],
        "to_meters": [exact(x) * FACTORS[unit] for x, unit in zip(asked["x"], asked["units"], strict=True)],
        "summed": [sum(exact(part) for part in parts) for parts in asked["parts"]],
    }
    for name in NAMES:
        results, run = found[name]["results"], found[name]["run"]
        for number, (got, true) in enumerate(zip(results, want[name], strict=True), 1):
            same_numbers(f"Call {number} of {name}", got, torch.as_tensor(true), torch.float32)
        always_compiled(run, name, len(results))
        compiles_at_most(run, name, MOST, len(results))
    return "30 calls, at most 2 compiles each"


_START = f"""import torch
from torch import nn

FACTORS = {FACTORS!r}
"""
_FADED = """
class Faded(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("step", torch.tensor(0))

    def forward(self, x):
        self.step += 1
        return x / self.step
"""
_CURED = """
def three_cures():
    def compiled(fn):
        return torch.compile(fn, backend="aot_eager")

    scaled, added = compiled(lambda x, k: x * k), compiled(lambda parts: parts.sum(0))
    return (
        compiled(Faded()),
        lambda x, unit: scaled(x, torch.tensor(FACTORS[unit])),
        lambda parts: added(torch.stack(parts)),
    )
"""

EXERCISE = Exercise(
    name="guards_4",
    lesson="04_guards",
    points=3,
    asks_for=("three_cures",),
    check=Check(ask, probe, judge),
    hints=(
        "Look at the last three columns of the table above: the counter, the string, and the list each have a row.",
        "What changes at each call must be a tensor when it reaches the compiled function. Looking a string up and "
        "stacking a list can happen before, in plain Python.",
        "faded: self.step = torch.tensor(0). to_meters: a plain function that looks FACTORS[unit] up, and calls a "
        "compiled one with a tensor. summed: torch.stack(parts) outside, .sum(0) inside.",
    ),
    known_mistakes=(
        KnownMistake(_START + _FADED.replace("torch.tensor(0)", "torch.tensor(1)") + _CURED, "float64 result"),
        KnownMistake(  # the counter stays an int
            _START + _FADED.replace('self.register_buffer("step", torch.tensor(0))', "self.step = 0") + _CURED,
            "faded",
        ),
        KnownMistake(  # the string goes in
            _START
            + _FADED
            + _CURED.replace(
                "lambda x, unit: scaled(x, torch.tensor(FACTORS[unit]))", "compiled(lambda x, unit: x * FACTORS[unit])"
            ),
            "to_meters",
        ),
        KnownMistake(  # the list goes in
            _START
            + _FADED
            + _CURED.replace("lambda parts: added(torch.stack(parts))", "compiled(lambda parts: sum(parts))"),
            "summed",
        ),
        KnownMistake(  # no limit: it compiles each time
            _START
            + _FADED
            + """
import torch._dynamo
def three_cures():
    raised = torch._dynamo.config.patch(recompile_limit=64)
    compiled = lambda fn: raised(torch.compile(fn, backend="aot_eager"))
    return compiled(Faded()), compiled(lambda x, unit: x * FACTORS[unit]), compiled(lambda parts: sum(parts))
""",
            "at most 2 are wanted",
        ),
        KnownMistake(  # the stance hides it
            _START
            + _FADED
            + """
def three_cures():
    torch.compiler.set_stance("eager_on_recompile")
    compiled = lambda fn: torch.compile(fn, backend="aot_eager")
    return compiled(Faded()), compiled(lambda x, unit: x * FACTORS[unit]), compiled(lambda parts: sum(parts))
""",
            "plain Python",
        ),
        KnownMistake(
            _START + _FADED + _CURED.replace('backend="aot_eager"', 'backend="eager"'), "compiled nothing of it"
        ),
        KnownMistake(
            _START
            + _FADED
            + "\ndef three_cures():\n    return Faded(), lambda x, unit: x * FACTORS[unit], lambda parts: sum(parts)\n",
            "0 of 10 calls",
        ),
        KnownMistake(_START + _FADED + "\ndef three_cures():\n    return torch.compile(Faded())\n", "three functions"),
    ),
    alternatives=(
        _START + _FADED + _CURED,
        _START
        + """
class Counting(nn.Module):
    def forward(self, x, step):
        return x / step

def three_cures():
    fade = torch.compile(Counting(), backend="aot_eager", dynamic=True)
    steps = iter(range(1, 1000))
    factors = {unit: torch.tensor(value) for unit, value in FACTORS.items()}

    @torch.compile(backend="aot_eager")
    def multiply(x, factor):
        return x * factor

    @torch.compile(backend="aot_eager")
    def add(total, part):
        return total + part

    def total(parts):
        result = torch.zeros_like(parts[0])
        for part in parts:
            result = add(result, part)
        return result

    return (lambda x: fade(x, torch.tensor(next(steps)))), (lambda x, unit: multiply(x, factors[unit])), total
""",
    ),
)
