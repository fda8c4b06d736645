"""Judge as on a machine with a GPU, where there is none: inputs and results lie elsewhere, references on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from autograder.exercise import Exercise

COMPILED_BY_THE_JUDGE = ("basic_1", "basic_2", "guards_7")
"""Exercises whose judge compiles functions of its own with what was asked, wherever that lies."""

_TAKES_AWAY = {torch.Tensor.cpu, torch.Tensor.tolist, torch.Tensor.item, torch.Tensor.copy_}
"""What works over devices: out of one, and from one into another."""


class Elsewhere(torch.Tensor):
    """A tensor of the CPU that refuses what one of a GPU refuses: to be computed with together with one of the CPU."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Hands on, RuntimeError for tensors of both kinds; what comes of such tensors lies elsewhere, too."""
        kwargs = kwargs or {}
        found = super().__torch_function__(func, types, args, kwargs)
        if func in _TAKES_AWAY or (func is torch.Tensor.to and "cpu" in map(str, (*args[1:], *kwargs.values()))):
            return plain(found)
        if func is torch.Tensor.numpy or any(
            not isinstance(one, Elsewhere) and one.dim() for one in _tensors([args, kwargs])
        ):
            raise RuntimeError(f"{getattr(func, '__name__', func)} got tensors of the CPU and of another device.")
        return found


def plain(found: Any) -> Any:
    """`found` on the CPU, where it is such a tensor."""
    return found.as_subclass(torch.Tensor) if isinstance(found, Elsewhere) else found


def judged_elsewhere(exercise: Exercise) -> Exercise:
    """The exercise, with a judge to which all tensors that it gets lie elsewhere. On a GPU's machine they do anyway."""
    check = exercise.check
    if torch.cuda.is_available() or exercise.name in COMPILED_BY_THE_JUDGE:
        return exercise
    return replace(exercise, check=replace(check, judge=lambda asked, found: check.judge(_moved(asked), _moved(found))))


def _moved(values: Any) -> Any:
    """The same values, with each tensor elsewhere."""
    if isinstance(values, torch.Tensor):
        return values.detach().as_subclass(Elsewhere).requires_grad_(values.requires_grad)
    if isinstance(values, Mapping):
        return {name: _moved(value) for name, value in values.items()}
    return [_moved(one) for one in values] if isinstance(values, (list, tuple)) else values


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, (Mapping, Sequence)) and not isinstance(values, str):
        for one in values.values() if isinstance(values, Mapping) else values:
            yield from _tensors(one)
