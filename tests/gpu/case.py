"""A function whose Triton code is compared, and how to make its arguments on a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Make = Callable[[str], Any]
BF16, F16, I64 = torch.bfloat16, torch.float16, torch.int64


@dataclass(frozen=True)
class Case:
    """One function and how to make its arguments on a device; `backward` also compiles and runs the backward."""

    name: str
    fn: Callable[..., Any]
    inputs: tuple[Any, ...]
    backward: bool = False
    dynamic: bool | None = None

    def args(self, device: str) -> tuple[Any, ...]:
        torch.manual_seed(0)
        made = [one(device) if callable(one) else one for one in self.inputs]
        if self.backward:
            made = [
                one.requires_grad_() if isinstance(one, torch.Tensor) and one.is_floating_point() else one
                for one in made
            ]
        return tuple(made)

    def run(self, compiled: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call it, and run the backward where the case has one."""
        result = compiled(*args)
        if self.backward:
            leaves = result if isinstance(result, (tuple, list)) else (result,)
            sum(one.float().sum() for one in leaves if one.requires_grad).backward()
        return result


CASES: list[Case] = []


def case(*inputs: Any, backward: bool = False, dynamic: bool | None = None) -> Callable[[Any], Any]:
    def add(fn: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append(Case(fn.__name__, fn, inputs, backward, dynamic))
        return fn

    return add


def floats(*shape: int, dtype: torch.dtype = torch.float32) -> Make:
    return lambda device: torch.randn(*shape).to(device=device, dtype=dtype)


def positive(*shape: int) -> Make:
    return lambda device: (torch.rand(*shape) + 0.5).to(device)


def ints(*shape: int, high: int, dtype: torch.dtype = I64) -> Make:
    return lambda device: torch.randint(0, high, shape).to(device=device, dtype=dtype)


def bools(*shape: int) -> Make:
    return lambda device: (torch.rand(*shape) > 0.5).to(device)
