"""modes_4's function as the step of a decoder: called many times on little data, under reduce-overhead."""

from __future__ import annotations

from typing import Any

import torch

from autograder.exercise import Answer, Bonus, Draw, Lap, Values


def ask(draw: Draw) -> Values:
    """How wide the state is."""
    return {"width": 64 * draw.size(16, 32)}


def input_of(asked: Values, nonce: int) -> torch.Tensor:
    """Another one in each lap, from 0.1 to 1.1, on the CPU in float64."""
    return (torch.arange(asked["width"], dtype=torch.float64) + nonce) % 101 / 101 + 0.1


def prepare(answer: Answer, asked: Values) -> Lap:
    """Steps that hand their state on."""
    cuda = torch.cuda.is_available()
    device = "cuda" if cuda else "cpu"
    torch.compiler.reset()
    options: dict[str, Any] = {"mode": "reduce-overhead"} if cuda else {"backend": "aot_eager"}
    step: Any = torch.compile(answer.averaged, **options)

    def lap(calls: int, nonce: int) -> Values:
        x = input_of(asked, nonce).float().to(device)
        state, result = torch.zeros_like(x), x
        with torch.no_grad():
            for _ in range(calls):
                result, state = step(state, x)
                state = state.clone()  # torch refuses what the first two calls gave as an input
        return {"result": result.clone().cpu(), "state": state.cpu()}

    return lap


def right(asked: Values, calls: int, nonce: int, values: Values) -> bool:
    """Whether state and result are those of so many steps."""
    x = input_of(asked, nonce)
    state = x * (1 - 0.99**calls)
    same = torch.allclose(values["state"].double(), state, rtol=1e-3, atol=1e-5)
    return same and torch.allclose(values["result"].double(), torch.tanh(x - state), rtol=1e-3, atol=1e-4)


REFERENCE = """
import torch

def averaged(state, x):
    new = torch.lerp(state, x, 0.01)
    return torch.tanh(x - new), new
"""

BONUS = Bonus(prepare, ask, right, REFERENCE, wanted=0.8, of="our own answer under reduce-overhead")
