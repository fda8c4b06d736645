"""Replay into the same memory: CUDA graphs where there is a GPU, elsewhere a stand-in with their rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from compilescope.torch_internals.static_graph import StaticGraph as StaticGraph


def replayed(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`, called without gradients: under CUDA graphs on a GPU, as a `StaticGraph` where there is none.

    `fn` takes tensors and returns tensors. Call it inside ``torch.no_grad()``. On a GPU, code that was replayed before
    finds its graph; after ``torch.compiler.reset()`` it warms up anew, as a `StaticGraph` always does.
    """
    if not torch.cuda.is_available():
        return StaticGraph(fn)
    compiled: Callable[..., Any] = torch.compile(fn, mode="reduce-overhead")
    return compiled
