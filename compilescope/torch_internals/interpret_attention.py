"""A GPU's attention, computed by the CPU: it stands between the kernels of a pretended GPU that are interpreted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.utils._pytree as pytree


@contextmanager
def attention_on_the_cpu() -> Iterator[None]:
    """Inside, a CPU has the attention operations of CUDA (efficient, flash, cuDNN), forward and backward.

    Kernels for ``torch.library`` under the key CPU, which these operations lack (2.11 to 2.15). Without dropout.
    """
    library = torch.library.Library("aten", "IMPL")
    try:
        for name, kernel in _KERNELS.items():
            library.impl(name, _laid_out(getattr(torch.ops.aten, name).default, kernel), "CPU")
        yield
    finally:
        library._destroy()


def _laid_out(operation: Any, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """`kernel` with results that lie in memory as those of the GPU's `operation` do, as its meta kernel says."""

    def run(*args: Any, **kwargs: Any) -> Any:
        on_meta = pytree.tree_map_only(torch.Tensor, lambda one: one.to("meta"), args)
        found = zip(kernel(*args, **kwargs), operation(*on_meta, **kwargs), strict=True)
        return tuple(_strided(one, like) for one, like in found)

    return run


def _strided(one: Any, like: Any) -> Any:
    """A result as the GPU's lies; None where the GPU gives none, as for a mask that wants no gradient."""
    if like is None:
        return None
    if not isinstance(one, torch.Tensor):
        return one
    return torch.empty_strided(one.size(), like.stride(), dtype=one.dtype).copy_(one)


def _scores(query: Any, key: Any, mask: Any, is_causal: bool, scale: float) -> Any:
    scores = query @ key.transpose(-2, -1) * scale
    if mask is not None:
        scores = scores + mask
    if is_causal:
        earlier = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(earlier.logical_not(), -torch.inf)
    return scores


def _weights(scores: Any) -> Any:
    """Softmax in which a row without any key is 0."""
    return torch.ops.aten._safe_softmax(scores, -1)


def _wide(*tensors: Any) -> list[Any]:
    """In the precision that a GPU adds up in: float32, for inputs in 16 bits too."""
    return [one.float() if one.dtype in (torch.float16, torch.bfloat16) else one for one in tensors]


def _each(shared: Any, query: Any) -> Any:
    """Keys or values for each head of the query, where several heads share one."""
    return shared.repeat_interleave(query.size(1) // shared.size(1), 1)


def _shared(gradient: Any, like: Any) -> Any:
    """The gradient of what several heads share: its sum over these heads."""
    return gradient.unflatten(1, (like.size(1), -1)).sum(2).to(like.dtype)


def _scale(scale: float | None, query: Any) -> float:
    return float(query.size(-1)) ** -0.5 if scale is None else scale


def _forward(query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float | None) -> tuple[Any, Any]:
    """Attention, and the logarithm of each row's sum."""
    first, second, third = _wide(query, _each(key, query), _each(value, query))
    scores = _scores(first, second, mask, is_causal, _scale(scale, query))
    return (_weights(scores) @ third).to(query.dtype), scores.logsumexp(-1)


def _backward(
    grad: Any, query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float | None
) -> tuple[Any, Any, Any, Any]:
    """Gradients of query, key, value and mask."""
    wide, first, second, third = _wide(grad, query, _each(key, query), _each(value, query))
    factor = _scale(scale, query)
    weights = _weights(_scores(first, second, mask, is_causal, factor))
    of_weights = wide @ third.transpose(-2, -1)
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True))
    return (
        (of_scores @ second * factor).to(query.dtype),
        _shared(of_scores.transpose(-2, -1) @ first * factor, key),
        _shared(weights.transpose(-2, -1) @ wide, value),
        None if mask is None else of_scores.to(mask.dtype),
    )


def _nothing(*size: int, dtype: torch.dtype = torch.int64) -> Any:
    """Stands for a state of random numbers, which nobody draws."""
    return torch.zeros(size, dtype=dtype)


def _efficient(q: Any, k: Any, v: Any, mask: Any, sums: bool, dropout: float = 0.0, causal: bool = False,
               *, scale: float | None = None) -> Any:  # fmt: skip
    out, added = _forward(q, k, v, mask, causal, scale)
    room = -added.size(-1) % 32 if sums else -added.size(-1)  # rows in blocks of 32; none when there is no backward
    return out, torch.nn.functional.pad(added, (0, room)), _nothing(), _nothing()


def _efficient_backward(grad: Any, q: Any, k: Any, v: Any, mask: Any, out: Any, sums: Any, seed: Any, offset: Any,
                        dropout: float, wanted: list[bool], causal: bool = False,
                        *, scale: float | None = None) -> Any:  # fmt: skip
    return _backward(grad, q, k, v, mask, causal, scale)


def _cudnn(q: Any, k: Any, v: Any, mask: Any, sums: bool, dropout: float = 0.0, causal: bool = False,
           debug: bool = False, *, scale: float | None = None) -> Any:  # fmt: skip
    out, added = _forward(q, k, v, mask, causal, scale)
    return out, added[..., None], None, None, q.size(2), k.size(2), _nothing(), _nothing(), None


def _cudnn_backward(grad: Any, q: Any, k: Any, v: Any, out: Any, sums: Any, seed: Any, offset: Any, mask: Any,
                    begins_q: Any, begins_k: Any, max_q: int, max_k: int, dropout: float, causal: bool,
                    *, scale: float | None = None) -> Any:  # fmt: skip
    return _backward(grad, q, k, v, mask, causal, scale)[:3]


def _flash(q: Any, k: Any, v: Any, dropout: float = 0.0, causal: bool = False, debug: bool = False,
           *, scale: float | None = None) -> Any:  # fmt: skip
    out, added = _forward(q, k, v, None, causal, scale)
    state = _nothing(2, dtype=torch.uint64), _nothing(dtype=torch.uint64)
    return out, added, None, None, q.size(2), k.size(2), *state, q.new_empty(0)


def _flash_backward(grad: Any, q: Any, k: Any, v: Any, out: Any, sums: Any, begins_q: Any, begins_k: Any, max_q: int,
                    max_k: int, dropout: float, causal: bool, seed: Any, offset: Any,
                    *, scale: float | None = None) -> Any:  # fmt: skip
    return _backward(grad, q, k, v, None, causal, scale)[:3]


_KERNELS: dict[str, Callable[..., Any]] = {
    "_scaled_dot_product_efficient_attention": _efficient,
    "_scaled_dot_product_efficient_attention_backward": _efficient_backward,
    "_scaled_dot_product_cudnn_attention": _cudnn,
    "_scaled_dot_product_cudnn_attention_backward": _cudnn_backward,
    "_scaled_dot_product_flash_attention": _flash,
    "_scaled_dot_product_flash_attention_backward": _flash_backward,
}
