"""capstone_1: a branch on a value, a print and a counter, in one graph."""

from __future__ import annotations

from typing import Any

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.capstone.planted import START, gpt_of, size_drawn
from autograder.judging import (
    beside,
    called,
    eager_operations,
    exact,
    graphs_made,
    none_outside,
    really_compiled,
    same_numbers,
)
from compilescope import observe

LABEL = "tame(block, x)"


def ask(draw: Draw) -> Values:
    """A limit, and inputs: beyond it, within it, by chance, beyond it below zero only, and one that just reaches it."""
    asked = size_drawn(draw, depth=1, limit=draw.size(8, 20) / 4)  # a number that float32 has
    within, beyond = (0.3, 0.8), (1.5, 3.0)
    inputs = []
    for reach in (beyond, within, draw.choice((beyond, within)), beyond, beyond):
        x = draw.tensor(3, 5, asked["width"])
        inputs.append(x * (asked["limit"] * draw.number(*reach) / float(x.abs().max())))
    inputs[3] = -inputs[3].abs()
    inputs[4] = inputs[4].clamp(-asked["limit"], asked["limit"])
    return {**asked, "inputs": inputs}


def probe(answer: Answer, asked: Values) -> Values:
    """The compiled answer on each input; the count after each."""
    inputs = asked["inputs"]
    block = gpt_of(asked, inputs[0].device).blocks[0]
    if not callable(answer.tame):
        called(LABEL, answer.tame)
    compiled = torch.compile(answer.tame, backend="aot_eager")
    runs, results, clips = [], [], []
    with beside(inputs[0]):
        for x in inputs:
            runs.append(observe(compiled, block, x.clone()))
            results.append(runs[-1].result)
            clips.append(block.clips.clone() if isinstance(block.clips, torch.Tensor) else block.clips)
        outside = list(eager_operations(compiled, block, inputs[1].clone()))
    return {"runs": runs, "results": results, "clips": clips, "outside": outside}


def judge(asked: Values, found: Values) -> str:
    """Numbers and count of the plain block; one graph for all inputs, and nothing outside it."""
    beyond = 0
    for number, (x, got, clips) in enumerate(zip(asked["inputs"], found["results"], found["clips"], strict=True), 1):
        same_numbers(f"tame on input {number}", got, exact(x).clamp(-asked["limit"], asked["limit"]), torch.float32)
        beyond += float(x.abs().max()) > asked["limit"]
        _counted(number, clips, beyond)
    graphs_made(found["runs"][0], LABEL, 1)
    really_compiled(found["runs"][0], LABEL)
    for number, run in enumerate(found["runs"][1:], 2):
        if run.graphs:
            again = f"compiled again for input {number}"
            raise NotYet(LABEL, again, "one graph for all of them is wanted", "Look for what becomes a Python value.")
    none_outside(LABEL, found["outside"])
    return "1 graph, clipped or not, and every clip is counted"


def _counted(number: int, clips: Any, wanted: int) -> None:
    if not isinstance(clips, torch.Tensor) or clips.numel() != 1:
        raise NotYet(
            "block.clips", "is no single number in a tensor any more", "the buffer stays", "Add to the buffer."
        )
    if int(clips) != wanted:
        times = f"is {int(clips)} after input {number}"
        raise NotYet("block.clips", times, f"{wanted} of them were clipped", "Look at what you count, and when.")


def _tame(*lines: str) -> str:
    return START + "def tame(block, x):\n" + "".join(f"    {line}\n" for line in lines)


_COUNT = "block.clips += x.abs().max() > block.limit"
_CLAMP = "return x.clamp(-block.limit, block.limit)"

EXERCISE = Exercise(
    name="capstone_1",
    lesson="08_capstone",
    points=2,
    asks_for=("tame",),
    check=Check(ask, probe, judge),
    hints=(
        "What does clamp do to values that lie within the limit already? Is the if needed for them?",
        "A comparison of tensors is a tensor, too. Added to a buffer it counts as 0 or 1, and stays in the graph.",
        "block.clips += x.abs().max() > block.limit; then return x.clamp(...), always.",
    ),
    known_mistakes=(
        KnownMistake(  # as it was
            _tame("if x.abs().max() > block.limit:", "    print('clipped')", "    block.clips += 1",
                  "    x = x.clamp(-block.limit, block.limit)", "return x"),
            "Dynamo stopped",
        ),
        KnownMistake(  # only the print is gone
            _tame("if x.abs().max() > block.limit:", "    block.clips += 1",
                  "    x = x.clamp(-block.limit, block.limit)", "return x"),
            "GB0170",
        ),
        KnownMistake(_tame(_CLAMP), "block.clips is 0"),  # nobody counts
        KnownMistake(_tame("block.clips += 1", _CLAMP), "Look at what you count"),  # each call
        KnownMistake(_tame("block.clips += (x.abs() > block.limit).sum()", _CLAMP), "Look at what you count"),
        KnownMistake(_tame(_COUNT, "return x"), "float64 result"),
        KnownMistake(_tame(_COUNT, "return x.clamp(max=block.limit)"), "float64 result"),
        KnownMistake(_tame("block.clips += int((x.abs().max() > block.limit).item())", _CLAMP), "Dynamo stopped"),
        KnownMistake(  # kept out of the graph
            START + "@torch.compiler.disable\ndef plainly(block, x):\n" f"    {_COUNT}\n    {_CLAMP}\n"
            "def tame(block, x):\n    return plainly(block, x)\n", "made 0 graphs"
        ),
        KnownMistake(  # another path when compiled
            _tame("if torch.compiler.is_compiling():", f"    {_CLAMP}", _COUNT, _CLAMP), "block.clips is 0"
        ),
        KnownMistake(_tame("block.clips = int(x.abs().max() > block.limit)", _CLAMP), "clips"),
    ),
    alternatives=(
        _tame(_COUNT, _CLAMP),
        _tame(
            "outside = (x.abs() > block.limit).any()",
            "block.clips.add_(outside)",
            "return torch.where(outside, x.clip(-block.limit, block.limit), x)",
        ),
        _tame(
            "inside = torch.minimum(torch.maximum(x, torch.tensor(-block.limit)), torch.tensor(block.limit))",
            "block.clips += (inside != x).any().long()",
            "return inside",
        ),
    ),
)  # fmt: skip
