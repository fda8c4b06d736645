"""guards_6's twelve blocks, each compiled in place, beside one compile of all of them: the whole first call."""

from __future__ import annotations

from typing import Any

import torch

from autograder.exercise import Answer, Bonus, Draw, Lap, Values

BLOCKS = 12


def ask(draw: Draw) -> Values:
    """How wide the blocks are."""
    return {"width": 64 * draw.size(4, 8)}


def weight_of(asked: Values, number: int) -> torch.Tensor:
    """The weight of a block, [width, width] in float64, on the CPU."""
    width = asked["width"]
    made: torch.Tensor = torch.sin(torch.arange(width * width, dtype=torch.float64) + number) / width
    return made.reshape(width, width)


def input_of(asked: Values, nonce: int) -> torch.Tensor:
    """Another one in each lap, [8, width] in float64, on the CPU."""
    return torch.cos(torch.arange(8 * asked["width"], dtype=torch.float64).reshape(8, -1) + nonce)


def prepare(answer: Answer, asked: Values) -> Lap:
    """First calls of fresh blocks with nothing compiled and nothing cached; the reference compiles all as one."""
    cuda = torch.cuda.is_available()
    device = "cuda" if cuda else "cpu"
    options: dict[str, Any] = {} if cuda else {"backend": "aot_eager"}

    def blocks_of() -> list[Any]:
        blocks = [answer.Block(asked["width"], number).to(device) for number in range(BLOCKS)]
        for number, block in enumerate(blocks):
            block.linear.weight.data = weight_of(asked, number).float().to(device)
            torch.nn.init.zeros_(block.linear.bias)
        return blocks

    def lap(calls: int, nonce: int) -> Values:
        x = input_of(asked, nonce).float().to(device)
        with torch.no_grad(), torch.compiler.config.patch(force_disable_caches=True):  # type: ignore[attr-defined]
            for _ in range(calls):
                torch.compiler.reset()
                x = _first_call(blocks_of(), x, options, asked["reference"])
        return {"result": x.cpu()}

    return lap


def _first_call(blocks: list[Any], x: torch.Tensor, options: dict[str, Any], whole: bool) -> torch.Tensor:
    def through(x: torch.Tensor) -> torch.Tensor:
        for block in blocks:
            x = block(x)
        return x

    if whole:
        compiled: Any = torch.compile(through, **options)
        out: torch.Tensor = compiled(x)
        return out
    for block in blocks:
        block.compile(**options)
    return through(x)


def right(asked: Values, calls: int, nonce: int, values: Values) -> bool:
    """Whether the result is that of so many times twelve blocks."""
    x = input_of(asked, nonce)
    for number in (number for _ in range(calls) for number in range(BLOCKS)):
        x = x + x @ weight_of(asked, number).T / (number + 1)
    return torch.allclose(values["result"].double(), x, rtol=1e-2, atol=1e-3)


REFERENCE = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width, number):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.register_buffer("depth", torch.tensor(number + 1.0))

    def forward(self, x):
        return x + self.linear(x) / self.depth
"""

BONUS = Bonus(prepare, ask, right, REFERENCE, wanted=2.0, of="one compile of the whole")
