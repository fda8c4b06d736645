"""Attention on a pretended GPU: the library call that a GPU takes, in a graph whose tensors are the CPU's.

``F.scaled_dot_product_attention`` is one function in Dynamo's graph. Which library computes it is decided in C++ by the
device of its tensors, before Inductor sees anything; so that decision is taken here, by the rules of a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from compilescope.torch_internals.pretend_device import capability

_HALF = (torch.float16, torch.bfloat16)
_ATEN = torch.ops.aten
_OPERATIONS = (torch._C._nn.scaled_dot_product_attention, _ATEN.scaled_dot_product_attention)


class GpuAttention(TorchFunctionMode):  # type: ignore[misc]
    """Inside, ``scaled_dot_product_attention`` of CPU tensors becomes the operation that `gpu` would take.

    The rules are those of ``aten/src/ATen/native/transformers`` (``attention.cpp``, ``cuda/sdp_utils.cpp``; 2.11 to
    2.15) for dense tensors with as many heads in key and value as in query; other calls are left to the CPU's rules.
    """

    def __init__(self, gpu: str) -> None:
        super().__init__()
        self.arch = capability(gpu)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in _OPERATIONS:
            return func(*args, **(kwargs or {}))
        return self._attention(func, *args, **(kwargs or {}))

    def _attention(
        self,
        func: Callable[..., Any],
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        tensors = (query, key, value)
        given = {"scale": scale, "enable_gqa": enable_gqa}
        library = _library(self.arch, tensors, attn_mask)
        if library == "math":
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
                return _tensor(func(*tensors, attn_mask, dropout_p, is_causal, **given))
        keep_sums = torch.is_grad_enabled() and any(one.requires_grad for one in tensors)
        mask = _added(attn_mask, query.dtype)
        if library == "efficient":
            mask = _aligned(mask, query, key)
            call = _ATEN._scaled_dot_product_efficient_attention.default
            return _tensor(call(*tensors, mask, keep_sums, dropout_p, is_causal, scale=scale)[0])
        if library == "cudnn":
            call = _ATEN._scaled_dot_product_cudnn_attention.default
            return _tensor(call(*tensors, mask, keep_sums, dropout_p, is_causal, False, scale=scale)[0])
        width = query.size(-1)
        padded = [torch.nn.functional.pad(one, (0, 8 - width % 8)) if width % 8 else one for one in tensors]
        scale = scale if scale is not None else float(width) ** -0.5
        result = _ATEN._scaled_dot_product_flash_attention.default(*padded, dropout_p, is_causal, False, scale=scale)[0]
        return _tensor(result[..., :width] if width % 8 else result)


def _tensor(result: Any) -> torch.Tensor:
    assert isinstance(result, torch.Tensor)
    return result


def _library(arch: int, tensors: Sequence[torch.Tensor], mask: torch.Tensor | None) -> str:
    """``cudnn``, ``flash``, ``efficient`` or ``math``: the first in a GPU's order that takes these tensors."""
    query, key, value = tensors
    width, value_width, dtype = query.size(-1), value.size(-1), query.dtype
    if any(one.dim() != 4 or one.stride(-1) != 1 or one.size(2) == 0 for one in tensors):
        return "math"
    if query.shape[:2] != key.shape[:2] or key.shape[:3] != value.shape[:3] or width != key.size(-1):
        return "math"
    half, allowed = dtype in _HALF, torch.backends.cuda
    for_cudnn = half and arch // 10 in (9, 10) and key.size(2) != 1 and max(width, value_width) <= 128
    if allowed.cudnn_sdp_enabled() and for_cudnn and width % 8 == value_width % 8 == 0:
        return "cudnn"
    for_flash = half and arch >= 80 and mask is None and width == value_width
    if allowed.flash_sdp_enabled() and for_flash and width <= 256:
        return "flash"
    known = dtype == torch.float32 or dtype == torch.float16 or (half and arch >= 80)
    tensor_cores = arch >= 80 or half
    alignment = (8 if half else 4) if tensor_cores else 1
    aligned = width % alignment == value_width % alignment == 0 and (mask is None or mask.stride(-1) == 1)
    if allowed.mem_efficient_sdp_enabled() and known and aligned:
        return "efficient"
    return "math"


def _added(mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    """A mask of bool as what is added to the scores: 0 where a key counts, minus infinity where it does not."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.where(mask, 0.0, torch.scalar_tensor(-torch.inf, dtype=dtype, device=mask.device))


def _aligned(mask: torch.Tensor | None, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor | None:
    """A mask whose rows begin at multiples of 8 elements, as a view of batch x heads x queries x keys."""
    if mask is None:
        return None
    if mask.stride(-1) != 1 or any(mask.stride(dim) % 8 for dim in range(mask.dim() - 1)):
        keys = mask.size(-1)
        mask = torch.nn.functional.pad(mask, (0, 8 - keys % 8))[..., :keys]
    return mask.expand(query.size(0), query.size(1), query.size(2), key.size(2))
