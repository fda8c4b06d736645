"""guards_6: twelve blocks that differ in a number of their own, and still share one compile."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.bonus import regional
from autograder.exercises.guards.served import always_compiled, compiles_at_most
from autograder.judging import beside, called, exact, same_numbers
from compilescope import observe

BLOCKS = 12


def ask(draw: Draw) -> Values:
    """The width, and weights and biases of twelve blocks, and two inputs."""
    width, rows = draw.size(3, 9), draw.size(2, 6)
    return {
        "width": width,
        "weights": [draw.tensor(width, width) / width for _ in range(BLOCKS)],
        "biases": [draw.tensor(width) for _ in range(BLOCKS)],
        "inputs": [draw.tensor(rows, width) for _ in range(2)],
    }


def probe(answer: Answer, asked: Values) -> Values:
    """Makes the blocks from the answer's class, compiles each in place, and runs them one after the other."""
    torch.compiler.reset()
    results: list[Any] = []
    with beside(asked["inputs"][0]):  # a block makes weights, and a tensor of its number
        blocks = _compiled_blocks(answer, asked)
        with observe() as run, torch.no_grad():
            for x in asked["inputs"]:
                for block in blocks:
                    x = block(x)
                results.append(x)
    return {"run": run, "results": results}


def _compiled_blocks(answer: Answer, asked: Values) -> list[nn.Module]:
    blocks = []
    for number in range(BLOCKS):
        block = called("Block(width, number)", answer.Block, asked["width"], number)
        linear = getattr(block, "linear", None)
        if not isinstance(block, nn.Module) or not isinstance(linear, nn.Linear):
            raise NotYet("Block(width, number)", "has no linear layer", "an nn.Linear is wanted", "Keep self.linear.")
        with torch.no_grad():
            linear.weight.copy_(asked["weights"][number])
            linear.bias.copy_(asked["biases"][number])
        block.compile(backend="aot_eager")
        blocks.append(block)
    return blocks


def judge(asked: Values, found: Values) -> str:
    """Numbers as in float64, one compile for 24 calls."""
    for number, (x, got) in enumerate(zip(asked["inputs"], found["results"], strict=True), 1):
        want = exact(x)
        for i in range(BLOCKS):
            out = want @ exact(asked["weights"][i]).T + exact(asked["biases"][i])
            want = want + out / (i + 1)
        same_numbers(f"Twelve blocks, call {number},", got, want, torch.float32)
    calls = BLOCKS * len(asked["inputs"])
    always_compiled(found["run"], "Twelve blocks", calls)
    compiles_at_most(found["run"], "Twelve blocks", 1, calls)
    return f"{BLOCKS} blocks, 1 compile"


_START = "import torch, torch._dynamo\nfrom torch import nn\n"


def _block(init: str, forward: str) -> str:
    return (
        _START
        + f"""
class Block(nn.Module):
    def __init__(self, width, number):
        super().__init__()
        self.linear = nn.Linear(width, width)
        {init}

    def forward(self, x):
        {forward}
"""
    )


_PATCHED = """
    def __call__(self, x):
        with torch._dynamo.config.patch({}):
            return super().__call__(x)
"""
_BUFFER = 'self.register_buffer("depth", torch.tensor(number + 1.0))'

EXERCISE = Exercise(
    name="guards_6",
    lesson="04_guards",
    points=2,
    asks_for=("Block",),
    check=Check(ask, probe, judge),
    hints=(
        "Two blocks of one class share their code. Which guard of the first block does the second one fail?",
        "An int or a float of a module is compiled in; parameters and buffers are not.",
        'In __init__: self.register_buffer("depth", torch.tensor(number + 1.0)). In forward: divide by self.depth.',
    ),
    known_mistakes=(
        KnownMistake(  # the int
            _block("self.number = number", "return x + self.linear(x) / (self.number + 1)"), "self.number"
        ),
        KnownMistake(  # the float: the second value makes it dynamic, so two
            _block("self.scale = 1 / (number + 1)", "return x + self.linear(x) * self.scale"), "compiled 2 times"
        ),
        KnownMistake(  # a name for each block
            _block("self.name = f'block {number}'", "return x + self.linear(x) / (int(self.name.split()[1]) + 1)"),
            "plain Python",
        ),
        KnownMistake(_block("pass", "return x + self.linear(x)"), "float64 result"),  # without the number
        KnownMistake(
            _block(_BUFFER, "return x + self.linear(x) / self.depth + 0 * self.depth.item()"), "Twelve blocks"
        ),
        KnownMistake(  # nobody compiles it
            _block(_BUFFER, "return x + self.linear(x) / self.depth")
            + "    def compile(self, **options):\n        pass\n",
            "0 of 24 calls",
        ),
        KnownMistake(
            _block("self.number = number", "return x + self.linear(x) / (self.number + 1)")
            + _PATCHED.format("recompile_limit=64"),
            "compiled 12 times",
        ),
        KnownMistake(
            _block("self.number = number", "return x + self.linear(x) / (self.number + 1)")
            + _PATCHED.format("allow_unspec_int_on_nn_module=True"),
            "compiled 2 times",
        ),
        KnownMistake(
            _START + "def Block(width, number):\n    return lambda x: x\n",
            "has no linear layer",
        ),
    ),
    alternatives=(
        _block(_BUFFER, "return x + self.linear(x) / self.depth"),
        _block("self.scale = torch.tensor(1 / (number + 1))", "return torch.addcmul(x, self.linear(x), self.scale)"),
        _block(
            "self.scale = nn.Parameter(torch.full((width,), 1 / (number + 1)), requires_grad=False)",
            "return x + self.scale * self.linear(x)",
        ),
    ),
    bonus=regional.BONUS,
)
