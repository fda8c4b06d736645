"""Floats that vary from call to call: Dynamo hands them over as tensors of one element, of which `item` is taken."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from compilescope.torch_internals.pretend_capture import Captured, copy_graph

T = TypeVar("T")


def inputs_with_numbers(captured: Captured) -> list[Any]:
    """The fake inputs; those that stand for a number, and only they, have their symbol as ``item_memo``.

    Leans on ``FakeTensor.item_memo`` (2.11 to 2.15), which Dynamo sets and a change of the fake mode loses.
    """
    placeholders = [node for node in captured.module.graph.nodes if node.op == "placeholder"]
    numbers = [any(user.target == "item" for user in node.users) for node in placeholders]
    return [_in_mode(value, captured.fake_mode, number) for value, number in zip(captured.inputs, numbers, strict=True)]


def _in_mode(value: Any, mode: Any, number: bool) -> Any:
    symbol = getattr(value, "item_memo", None)
    if symbol is None or mode is None or value.fake_mode is mode:
        return value
    there = mode.from_tensor(value)
    there.item_memo = symbol if number else None
    return there


def is_number(value: Any) -> bool:
    """Whether this input of a graph is a number in a tensor: on a GPU it stays on the CPU."""
    return getattr(value, "item_memo", None) is not None


def number_in(value: torch.Tensor, mode: Any) -> torch.Tensor:
    """The same number in another fake mode."""
    with mode, torch.no_grad():
        there = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="cpu")
    there.item_memo = value.item_memo  # type: ignore[attr-defined]
    return there


def with_fixed_floats(captured: Captured, attempt: Callable[[Captured], T]) -> T:
    """What `attempt` gives, again with the floats fixed that the compiler asks to fix, as Dynamo would begin anew.

    Leans on ``TensorifyScalarRestartAnalysis`` and on ``TensorifyState.force_specializations`` (2.11 to 2.15).
    """
    from torch._dynamo.exc import TensorifyScalarRestartAnalysis
    from torch._dynamo.symbolic_convert import TensorifyState

    before = set(TensorifyState.force_specializations)
    try:
        return attempt(captured)
    except TensorifyScalarRestartAnalysis:
        return attempt(_fixed(captured, set(TensorifyState.force_specializations)))
    finally:
        TensorifyState.force_specializations.clear()
        TensorifyState.force_specializations.update(before)


def _fixed(captured: Captured, symbols: set[str]) -> Captured:
    module = copy_graph(captured.module)
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for node, value in zip(placeholders, captured.inputs, strict=True):
        number = getattr(value, "item_memo", None)
        if not isinstance(number, torch.SymFloat) or str(number) not in symbols:
            continue
        for user in list(node.users):
            if user.op == "call_method" and user.target == "item":
                user.replace_all_uses_with(number.node.hint)
                module.graph.erase_node(user)
    module.recompile()
    return dataclasses.replace(captured, module=module)
