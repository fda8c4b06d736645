"""breaks_2: the break inside a loop, which costs the whole frame."""

from __future__ import annotations

from typing import Any

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.breaks.seen import call_of, captured, one_graph
from autograder.judging import same_numbers

LABEL = "diffuse(x, rounds)"


def reference(x: torch.Tensor, rounds: int) -> tuple[torch.Tensor, torch.Tensor]:
    """X after so many rounds of smoothing along its last dimension, and the mean square after each [rounds]."""
    energy = []
    for _ in range(rounds):
        x = (x + x.roll(1, -1)) / 2
        energy.append(x.square().mean())
    return x, torch.stack(energy)


def ask(draw: Draw) -> Values:
    """Two inputs of different size and number of rounds."""
    dtype = draw.choice((torch.float32, torch.float64))
    sizes = [(draw.size(3, 6), draw.size(5, 9), 2), (draw.size(7, 9), draw.size(10, 14), draw.size(4, 6))]
    return {"cases": [[draw.tensor(rows, columns, dtype=dtype), rounds] for rows, columns, rounds in sizes]}


def probe(answer: Answer, asked: Values) -> Values:
    """A first call for each input; a pair comes back as a list."""
    return {"cases": [_one(call_of(captured(LABEL, answer.diffuse), *case)) for case in asked["cases"]]}


def _one(found: Values) -> Values:
    result = found["result"]
    return {**found, "result": list(result) if isinstance(result, (tuple, list)) else result}


def judge(asked: Values, found: Values) -> None:
    """Both values as in float64, in one graph that holds everything."""
    for (x, rounds), one in zip(asked["cases"], found["cases"], strict=True):
        smooth, energy = reference(x.double(), rounds)
        values: Any = one["result"]
        if not isinstance(values, list) or len(values) != 2:
            kind = type(values).__name__
            raise NotYet(LABEL, f"returned a {kind}", "x and energy are wanted", "Look at your return line.")
        same_numbers(f"x of {LABEL}", values[0], smooth, x.dtype)
        same_numbers(f"energy of {LABEL}", values[1], energy, x.dtype)
        one_graph(one, LABEL)


_START = "import torch\n"

EXERCISE = Exercise(
    name="breaks_2",
    lesson="03_graph_breaks",
    points=2,
    asks_for=("diffuse",),
    check=Check(ask, probe, judge),
    hints=(
        "Look at run.not_compiled: it names the line that gives the whole function up.",
        "Inside a loop nothing may break. What the loop collects can stay a tensor until the loop is over.",
        "Append x.square().mean() without .item(), and return torch.stack(energy).",
    ),
    known_mistakes=(
        KnownMistake(  # as it was, with a tensor made of the numbers
            _START
            + """
def diffuse(x, rounds):
    energy = []
    for _ in range(rounds):
        x = (x + x.roll(1, -1)) / 2
        energy.append(x.square().mean().item())
    return x, torch.tensor(energy, dtype=x.dtype)
""",
            "made 0 graphs",
        ),
        KnownMistake(  # still a list of numbers
            _START
            + """
def diffuse(x, rounds):
    energy = []
    for _ in range(rounds):
        x = (x + x.roll(1, -1)) / 2
        energy.append(x.square().mean().item())
    return x, energy
""",
            "returned a list",
        ),
        KnownMistake(  # the numbers are taken after the loop: two graphs
            _START
            + """
def diffuse(x, rounds):
    energy = []
    for _ in range(rounds):
        x = (x + x.roll(1, -1)) / 2
        energy.append(x.square().mean())
    return x * 1, torch.tensor(torch.stack(energy).tolist(), dtype=x.dtype) * 1
""",
            "made 2 graphs",
        ),
        KnownMistake(  # the loop runs in a function that Dynamo leaves alone
            _START
            + """
@torch.compiler.disable
def rounds_of(x, rounds):
    energy = []
    for _ in range(rounds):
        x = (x + x.roll(1, -1)) / 2
        energy.append(x.square().mean().item())
    return x, torch.tensor(energy, dtype=x.dtype)

def diffuse(x, rounds):
    x, energy = rounds_of(x, rounds)
    return x * 1, energy * 1
""",
            "no break is wanted",
        ),
        KnownMistake(  # written for the number of rounds of the example
            _START
            + """
def diffuse(x, rounds):
    energy = []
    for _ in range(3):
        x = (x + x.roll(1, -1)) / 2
        energy.append(x.square().mean())
    return x, torch.stack(energy)
""",
            "float64 result",
        ),
        KnownMistake(  # nothing is collected
            _START
            + """
def diffuse(x, rounds):
    for _ in range(rounds):
        x = (x + x.roll(1, -1)) / 2
    return x
""",
            "x and energy are wanted",
        ),
    ),
    alternatives=(
        _START
        + """
def diffuse(x, rounds):
    energy = x.new_zeros(rounds)
    for i in range(rounds):
        x = (x + x.roll(1, -1)) / 2
        energy[i] = x.square().mean()
    return x, energy
""",
        _START
        + """
def diffuse(x, rounds):
    states = [x]
    while len(states) <= rounds:
        states.append((states[-1] + states[-1].roll(1, -1)) / 2)
    return states[-1], torch.stack(states[1:]).square().mean((-1, -2))
""",
        _START
        + """
from torch._higher_order_ops import scan

def diffuse(x, rounds):
    def step(x, _):
        x = (x + x.roll(1, -1)) / 2
        return x, x.square().mean()
    return scan(step, x, torch.zeros(rounds, dtype=x.dtype, device=x.device))
""",
    ),
)
