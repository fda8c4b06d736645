"""Tensors on their way to a process that may see other GPUs, or none."""

from __future__ import annotations

import io
from typing import Any

import torch

FETCHER = ("torch.storage", "_load_from_bytes")
"""Module and name of the function that a pickle calls for the bytes of a tensor (2.11 to 2.15)."""
_GPUS = 64


def fetch(raw: bytes) -> Any:
    """The storage in these bytes: from a GPU it comes to this process's default device, from the CPU to the CPU.

    Stands in for ``torch.storage._load_from_bytes`` (2.11 to 2.15), which asks for the very GPU that it was on.
    """
    here = str(torch.get_default_device())
    return torch.load(io.BytesIO(raw), {f"cuda:{gpu}": here for gpu in range(_GPUS)}, weights_only=False)
