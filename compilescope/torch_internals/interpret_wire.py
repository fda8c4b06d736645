"""Tensors between this process and the interpreter's: raw bytes and a line of JSON, never a pickle."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

Told = dict[str, Any]


def write_tensor(tensor: torch.Tensor, path: Path) -> Told:
    """Write the bytes that `tensor` spans to `path`; gives dtype, shape and stride."""
    tensor = tensor.detach()
    span = _span(tuple(tensor.size()), tuple(tensor.stride()))
    flat = tensor.as_strided((span,), (1,), tensor.storage_offset()).contiguous()
    path.write_bytes(flat.view(torch.uint8).numpy().tobytes() if span else b"")
    return {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.size()),
        "stride": list(tensor.stride()),
    }


def read_tensor(told: Told, path: Path) -> torch.Tensor:
    """The tensor that `write_tensor` wrote. Raises ValueError when bytes and description do not fit together."""
    dtype = getattr(torch, str(told["dtype"]), None)
    shape, stride = tuple(map(int, told["shape"])), tuple(map(int, told["stride"]))
    if not isinstance(dtype, torch.dtype) or len(shape) != len(stride) or any(one < 0 for one in (*shape, *stride)):
        raise ValueError(f"no tensor is described by {told}")
    span = _span(shape, stride)
    raw = bytearray(path.read_bytes())
    if len(raw) != span * dtype.itemsize:
        raise ValueError(f"{len(raw)} bytes are not a {dtype} tensor of shape {shape}")
    flat = torch.frombuffer(raw, dtype=dtype) if span else torch.empty(0, dtype=dtype)
    return flat.as_strided(shape, stride)


def _span(shape: tuple[int, ...], stride: tuple[int, ...]) -> int:
    if math.prod(shape) == 0:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
