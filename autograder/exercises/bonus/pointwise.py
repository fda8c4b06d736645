"""basic_5's kernel on an array far larger than any cache: its bandwidth beside that of a plain copy."""

from __future__ import annotations

from typing import Any

import torch

from autograder.exercise import Answer, Bonus, Draw, Lap, Values

BLOCK = 1024
SHOWN = 64
"""Elements that a lap gives back."""


def ask(draw: Draw) -> Values:
    """A shape, and the scale; on a CPU, where nothing is raced, a small one."""
    rows = 2**14 if draw.device == "cuda" else 32
    return {"rows": rows + draw.size(0, 63), "width": 4096, "scale": draw.number(2.7, 3.3)}


def start_of(asked: Values, device: str) -> torch.Tensor:
    """Numbers from -0.9 to -0.3, from which the kernel, applied again and again, goes to a point that scale sets."""
    count = asked["rows"] * asked["width"]
    return -0.3 - 0.6 * (torch.arange(count, device=device, dtype=torch.int32) % 977).float() / 977


def scale_of(asked: Values, nonce: int) -> float:
    """Another one in each lap."""
    return float(asked["scale"] + (nonce % 1000) / 5000)


def prepare(answer: Answer, asked: Values) -> Lap:
    """The kernel from one array into another and back; the reference copies instead."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    start = start_of(asked, device)
    count, width = start.numel(), asked["width"]
    arrays, scale = [start.clone(), start.clone()], torch.empty(width, device=device)
    grid = (-(-count // BLOCK),)
    kernel: Any = None if asked["reference"] else answer.gate_kernel

    def lap(calls: int, nonce: int) -> Values:
        arrays[0].copy_(start)
        scale.fill_(scale_of(asked, nonce))
        for call in range(calls):
            source, target = arrays[call % 2], arrays[1 - call % 2]
            if kernel is None:
                target.copy_(source)
            else:
                kernel[grid](source, scale, target, count, width, BLOCK=BLOCK)
        return {"shown": arrays[calls % 2][:: count // SHOWN][:SHOWN].cpu()}

    return lap


def right(asked: Values, calls: int, nonce: int, values: Values) -> bool:
    """Whether the shown elements are what so many calls make of them."""
    start = start_of(asked, "cpu")
    x, scale = start[:: start.numel() // SHOWN][:SHOWN].double(), scale_of(asked, nonce)
    for _ in range(calls):
        x = x * x.sigmoid() * scale
    return torch.allclose(values["shown"].double(), x, rtol=1e-3)


BONUS = Bonus(prepare, ask, right, reference="", wanted=0.9, of="a plain copy")
