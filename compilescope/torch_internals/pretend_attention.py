"""Attention on a pretended GPU: the library call that a GPU takes, in a graph whose tensors are the CPU's.

``F.scaled_dot_product_attention`` is one function in Dynamo's graph. Which library computes it is decided in C++ by the
device of its tensors, before Inductor sees anything; so that decision is taken here, by the rules of a GPU.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from compilescope.torch_internals.pretend_capture import allowed_backends, copy_graph
from compilescope.torch_internals.pretend_device import capability

_HALF = (torch.float16, torch.bfloat16)
_ATEN = torch.ops.aten
_FUNCTIONS = (
    torch._C._nn.scaled_dot_product_attention,
    _ATEN.scaled_dot_product_attention,
    _ATEN.scaled_dot_product_attention.default,
)


@contextmanager
def gpu_attention(gpu: str) -> Iterator[Callable[[torch.fx.GraphModule], torch.fx.GraphModule]]:
    """Yields what copies a graph from Dynamo, its branches and regions too, so that attention is that of `gpu`.

    Inside, attention that Inductor recognizes in products and a softmax is the GPU's as well
    (``torch._inductor.fx_passes.fuse_attention._scaled_dot_product_attention``, 2.11 to 2.15).
    """
    from torch._inductor.fx_passes import fuse_attention

    attention = functools.partial(_attention, capability(gpu))
    changed: dict[Any, Callable[..., Any]] = {one: _named("attention", attention) for one in _FUNCTIONS}
    many = functools.partial(_with_many_heads, attention)
    changed[functional.multi_head_attention_forward] = _named("attention_with_many_heads", many)
    copies: dict[int, torch.fx.GraphModule] = {}

    def copied(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
        if id(graph) not in copies:
            module = copies[id(graph)] = copy_graph(graph)
            for name, part in list(module._modules.items()):
                if isinstance(part, torch.fx.GraphModule):
                    setattr(module, name, copied(part))
            for node in module.graph.nodes:
                if node.op == "call_function":
                    node.target = changed.get(node.target, node.target)
            module.recompile()
        return copies[id(graph)]

    with mock.patch.object(fuse_attention, "_scaled_dot_product_attention", attention):
        yield copied


def _named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that a graph's code can name."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


def _with_many_heads(attention: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """``F.multi_head_attention_forward``, which Dynamo keeps as one function: it calls attention by its global name."""
    with mock.patch.object(functional, "scaled_dot_product_attention", attention):
        return functional.multi_head_attention_forward(*args, **kwargs)


@dataclass(frozen=True)
class _Call:
    """What decides about the library: query, key and value [batch, heads, length, width], and the options."""

    arch: int
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None
    dropout: float
    is_causal: bool
    shared_heads: bool

    @property
    def half(self) -> bool:
        return self.query.dtype in _HALF

    @property
    def learns(self) -> bool:
        return torch.is_grad_enabled() and any(one.requires_grad for one in (self.query, self.key, self.value))

    @property
    def widths(self) -> tuple[int, int]:
        return self.query.size(-1), self.value.size(-1)

    def library(self) -> SDPBackend:
        """The first in a GPU's order that takes these tensors; raises RuntimeError as a GPU does if none may."""
        takes = {
            SDPBackend.CUDNN_ATTENTION: self._cudnn,
            SDPBackend.FLASH_ATTENTION: self._flash,
            SDPBackend.EFFICIENT_ATTENTION: self._efficient,
            SDPBackend.MATH: lambda: True,
        }
        for backend in allowed_backends():
            if takes[backend]() and (backend == SDPBackend.MATH or self._dense()):
                return backend
        raise RuntimeError("No available kernel for this attention on a GPU among those that sdpa_kernel allows.")

    def _dense(self) -> bool:
        tensors = self.query, self.key, self.value
        if any(one.dim() != 4 or one.stride(-1) != 1 or one.size(2) == 0 for one in tensors):
            return False
        heads, of_key = self.query.size(1), self.key.size(1)
        fit = heads % of_key == 0 if self.shared_heads else heads == of_key
        same = self.query.size(0) == self.key.size(0) and self.query.size(-1) == self.key.size(-1)
        return fit and same and self.key.shape[:3] == self.value.shape[:3]

    def _cudnn(self) -> bool:
        width, value_width = self.widths
        strict = torch.are_deterministic_algorithms_enabled()
        if not self.half or self.arch // 10 not in (9, 10) or width % 8 or value_width % 8 or self.key.size(2) == 1:
            return False
        if strict and not torch.is_deterministic_algorithms_warn_only_enabled():
            return False
        both = max(width, value_width)
        backward = not self.learns or both <= 128 or (width, value_width) in ((192, 128), (256, 256))
        return both <= 256 and backward and self._mask_for_cudnn() and not (self.dropout and self.query.size(2) == 1)

    def _mask_for_cudnn(self) -> bool:
        if self.mask is None:
            return True
        wanted = (*self.query.shape[:3], self.key.size(2))[-self.mask.dim() :]
        fits = all(size in (1, want) for size, want in zip(self.mask.shape, wanted, strict=True))
        return fits and self.mask.dim() in (2, 4) and self.mask.stride(-1) == 1 and not self.mask.requires_grad

    def _flash(self) -> bool:
        width, value_width = self.widths
        square = self.query.size(-2) == self.key.size(-2)
        plain = self.mask is None and (square or not self.is_causal)
        return self.half and self.arch >= 80 and plain and width == value_width <= 256

    def _efficient(self) -> bool:
        tensor_cores = self.arch >= 80 or self.half
        alignment = (8 if self.half else 4) if tensor_cores else 1
        dtypes = (torch.float32, torch.float16, *([torch.bfloat16] if self.arch >= 80 else []))
        rows = self.mask is None or self.mask.stride(-1) == 1
        own_heads = self.query.size(1) == self.key.size(1)
        return self.query.dtype in dtypes and rows and own_heads and not any(one % alignment for one in self.widths)


def _attention(
    arch: int,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """``scaled_dot_product_attention`` of CPU tensors by the operation that a GPU of that capability takes.

    The rules are those of ``aten/src/ATen/native/transformers`` (``attention.cpp``, ``cuda/sdp_utils.cpp``; 2.11 to
    2.15) for dense tensors. cuDNN's limits follow its version, too: widths over 128 are taken as in the newest.
    """
    device = query.device.type  # a program that runs on a GPU can be asked about another one
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        tensors = (_cast(one) for one in (query, key, value, attn_mask))
        with torch.autocast(device, enabled=False):
            return _attention(arch, *tensors, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)  # type: ignore[misc, arg-type]
    call = _Call(arch, query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    given, library = (query, key, value), call.library()
    if library == SDPBackend.MATH:
        with sdpa_kernel(SDPBackend.MATH):
            return _FUNCTIONS[0](*given, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    mask = _added(attn_mask, query.dtype)
    if library == SDPBackend.EFFICIENT_ATTENTION:
        mask = _aligned(mask, query, key)
        operation = _ATEN._scaled_dot_product_efficient_attention.default
        return operation(*given, mask, call.learns, dropout_p, is_causal, scale=scale)[0]
    if library == SDPBackend.CUDNN_ATTENTION:
        operation = _ATEN._scaled_dot_product_cudnn_attention.default
        return operation(*given, mask, call.learns, dropout_p, is_causal, False, scale=scale)[0]
    width = query.size(-1)
    padded = [functional.pad(one, (0, 8 - width % 8)) if width % 8 else one for one in given]
    scale = scale if scale is not None else float(width) ** -0.5
    result = _ATEN._scaled_dot_product_flash_attention.default(*padded, dropout_p, is_causal, False, scale=scale)[0]
    return result[..., :width] if width % 8 else result


def _cast(one: torch.Tensor | None) -> torch.Tensor | None:
    """As autocast casts the inputs of an operation that it runs in lower precision."""
    if one is None or not one.is_floating_point() or one.dtype == torch.float64:
        return one
    return one.to(torch.get_autocast_dtype(one.device.type))


def _added(mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    """A mask of bool as what is added to the scores: 0 where a key counts, minus infinity where it does not."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.where(mask, 0.0, torch.scalar_tensor(-torch.inf, dtype=dtype, device=mask.device))


def _aligned(mask: torch.Tensor | None, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor | None:
    """A mask whose rows begin at multiples of 8 elements, as a view of batch x heads x queries x keys.

    Where a graph is for every length, nobody knows whether they do: it pads always.
    """
    if mask is None:
        return None
    strides = [mask.stride(dim) for dim in range(mask.dim() - 1)]
    if any(not isinstance(stride, int) or stride % 8 for stride in strides):
        keys = mask.size(-1)
        mask = functional.pad(mask, (0, 8 - keys % 8))[..., :keys]
    return mask.expand(query.size(0), query.size(1), query.size(2), key.size(2))
