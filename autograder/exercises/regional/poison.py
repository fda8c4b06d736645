"""regional_4: the attribute for which blocks of one class do not share their compiled code."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.regional.blocks import shuffled
from autograder.judge import namespace_of
from autograder.judging import called

BLOCKS = 3
NAMES = ("layer_idx", "depth", "tag", "stage", "rank", "rate", "order", "level", "label", "place")

_SOURCE = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width, number):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.{number} = number
        self.{text} = f"block {{number}}"
        self.{flag} = number == 0
        self.{same} = 3
        self.register_buffer("{tensor}", torch.tensor(number + 1.0))

    def forward(self, x):
        y = self.linear(x) / self.{tensor} * self.{same}
        {reads}
        return x + y
"""
_READS = {
    "number": "y = y / (self.{number} + 2)",
    "text": 'y = y if self.{text}.endswith("0") else y.tanh()',
    "flag": "y = y.relu() if self.{flag} else y",
    "clean": "y = y.sigmoid()",
}


def ask(draw: Draw) -> Values:
    """Four models by source: in three of them one attribute that differs is read, in one none is."""
    guilty = ["number", "flag", "text", "clean"]
    width = draw.size(3, 8)
    cases = []
    for reads in shuffled(draw, guilty):
        names = dict(zip(("number", "text", "flag", "same", "tensor"), shuffled(draw, list(NAMES)), strict=False))
        source = _SOURCE.format(**names, reads=_READS[reads].format(**names))
        cases.append({"source": source, "guilty": names.get(reads), "width": width})
    return {"cases": cases, "x": draw.tensor(draw.size(2, 6), width)}


def blocks_of(case: Values, device: torch.device) -> list[nn.Module]:
    """New blocks of the case's class, where the input is."""
    kind: Any = namespace_of(case["source"], "a block of the check")["Block"]
    return [kind(case["width"], number).to(device) for number in range(BLOCKS)]


def probe(answer: Answer, asked: Values) -> Values:
    """What the function says of each model."""
    said, x = [], asked["x"]
    for case in asked["cases"]:
        torch.compiler.reset()
        with torch.enable_grad():
            said.append(called("poison(blocks, x)", answer.poison, blocks_of(case, x.device), x.clone()))
    return {"said": said}


def judge(asked: Values, found: Values) -> str:
    """The name of the attribute, or None where the blocks do share."""
    for case, said in zip(asked["cases"], found["said"], strict=True):
        true = case["guilty"]
        if said == true:
            continue
        forward = case["source"].partition("y = self")[2].splitlines()[1].strip()
        ran = f"poison(blocks, x), forward reads {forward!r},"
        shown = "None" if said is None else f"{said!r}"[:40]
        raise NotYet(ran, f"returned {shown}", f"{true!r} is right", _look(said, true))
    return f"{len(asked['cases'])} models"


def _look(said: Any, true: str | None) -> str:
    if said == "x":
        return "That guard is about the input: leave gradients off."
    if true is None:
        return "These blocks share: no guard refused any of them."
    if isinstance(said, str) and "." in said:
        return "Give only the attribute's name."
    return "Look at the guard that refused the second block."


_FIND = """
import torch
from compilescope import observe

def poison(blocks, x):
    for block in blocks:
        block.compile(backend="aot_eager")
    with observe() as run, torch.no_grad():
        for block in blocks:
            x = block(x)
    for call in run.calls:
        for refusal in call.refusals:
            return refusal.subject.rpartition(".")[2]
"""

EXERCISE = Exercise(
    name="regional_4",
    lesson="07_regional",
    points=2,
    asks_for=("poison",),
    check=Check(ask, probe, judge),
    hints=(
        "Compile the blocks as regions and watch their calls. Which call is no hit, and what does it say?",
        "A call that compiled again has refusals. Its subject is what the guard looked at, self.something.",
        "with observe() as run, torch.no_grad(): call the blocks in turn. Then the first refusal among run.calls: "
        'refusal.subject.rpartition(".")[2]; None if there is none.',
    ),
    known_mistakes=(
        KnownMistake(_FIND.replace(", torch.no_grad()", ""), "leave gradients off"),
        KnownMistake(_FIND.replace('.rpartition(".")[2]', ""), "Give only the attribute's name"),
        KnownMistake(  # what differs, whether it matters or not
            """
def poison(blocks, x):
    first, second = vars(blocks[0]), vars(blocks[1])
    for name in first:
        if isinstance(first[name], (int, str)) and first[name] != second[name]:
            return name
""",
            "is right",
        ),
        KnownMistake(  # one block by itself never disagrees
            _FIND.replace("for block in blocks:\n            x", "for block in blocks[:1]:\n            x"),
            "refused the second block",
        ),
        KnownMistake('def poison(blocks, x):\n    return "layer_idx"\n', "is right"),
        KnownMistake("def poison(blocks, x):\n    return None\n", "refused the second block"),
        KnownMistake(  # nothing is compiled
            _FIND.replace('block.compile(backend="aot_eager")', "pass"), "refused the second block"
        ),
    ),
    alternatives=(
        _FIND,
        """
import torch
from compilescope import would_recompile

def poison(blocks, x):
    call = torch.compile(lambda block, x: block(x), backend="aot_eager")
    with torch.no_grad():
        call(blocks[0], x)
        for block in blocks[1:]:
            verdict = would_recompile(call, block, x)
            if verdict:
                return verdict.refusals[0].subject.split(".")[-1]
""",
        """
import torch
from compilescope import observe

@torch.no_grad()
def poison(blocks, x):
    run_block = torch.compile(lambda block, x: block(x), backend="aot_eager")
    with observe() as run:
        for block in blocks:
            run_block(block, x)
    subjects = [one.subject for compiled in run.recompiles for one in compiled.refusals]
    return subjects[0].split(".")[-1] if subjects else None
""",
    ),
)
