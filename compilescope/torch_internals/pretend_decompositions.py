"""Decompositions that ask for the device: on a pretended GPU they take the branch of a GPU, though tensors are CPU's.

AOTAutograd decomposes operations before Inductor sees them, and some decompositions differ by device: a layer norm in
bfloat16 keeps float32 statistics on a GPU, a matrix product with a single row becomes a sum on a CPU.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch

_KEEP = frozenset(
    (
        "_to_copy",
        "tensor_split_tensor_indices_or_sections_py_impl",
        "full",
        "scalar_tensor",
        "masked_fill",
        "_internal_new_from_data",
    )
)
"""Here the word is no question about the tensor that is computed with."""


@contextmanager
def gpu_decompositions() -> Iterator[None]:
    """Inside, ``x.device.type == "cpu"`` is false and ``== "cuda"`` is true for CPU tensors in decompositions.

    Leans on the functions of ``torch._decomp.decompositions``, ``torch._inductor.decomposition``, ``torch._refs`` and
    ``torch._inductor.fx_passes.fuse_attention`` (2.11 to 2.15): the strings in their code are exchanged, and put back
    afterwards; and on ``joint_graph.check_device``, which makes one product of a batch of one on a GPU only. A function
    that asks otherwise is left as it is.
    """
    from torch._inductor.fx_passes import joint_graph

    changed = _asking_for_the_device()
    before = [(function, function.__code__) for function, _ in changed]
    try:
        for function, code in changed:
            function.__code__ = code
        with mock.patch.object(joint_graph, "check_device", _both_on_the_cpu):
            yield
    finally:
        for function, code in before:
            function.__code__ = code


def _both_on_the_cpu(first: torch.Tensor, second: torch.Tensor, device: str = "cuda") -> bool:
    return first.device.type == second.device.type == "cpu"


@functools.cache
def _asking_for_the_device() -> tuple[tuple[Any, types.CodeType], ...]:
    import torch._decomp.decompositions as core
    import torch._inductor.decomposition as inductor
    import torch._inductor.fx_passes.fuse_attention as attention
    import torch._refs as references

    found: dict[int, tuple[Any, types.CodeType]] = {}
    for module in (core, inductor, references, attention):
        for value in vars(module).values():
            function = inspect.unwrap(value) if callable(value) else None
            if not isinstance(function, types.FunctionType) or function.__module__ != module.__name__:
                continue
            code = function.__code__
            constants = tuple(_exchanged(one) for one in code.co_consts)
            asks = {"device", "type"} <= set(code.co_names) and function.__name__ not in _KEEP
            if asks and constants != code.co_consts:
                found[id(function)] = (function, code.replace(co_consts=constants))
    return tuple(found.values())


def _exchanged(constant: object) -> object:
    if isinstance(constant, tuple):
        return tuple(_exchanged(one) for one in constant)
    if isinstance(constant, frozenset):
        return frozenset(_exchanged(one) for one in constant)
    return {"cpu": "not a cpu", "cuda": "cpu"}.get(constant, constant) if isinstance(constant, str) else constant
