"""How fast a kernel could be at best on a known GPU: bytes over bandwidth, FLOP over rate, whichever is longer."""

from __future__ import annotations

import math
from dataclasses import dataclass

from compilescope.facts import Graph, Node


@dataclass(frozen=True)
class Gpu:
    """Peak numbers of one GPU as its maker's data sheet gives them; rates in TFLOP/s, dense."""

    name: str
    bandwidth_tb_s: float
    float32: float
    half: float
    """float16 on tensor cores."""
    bfloat16: float
    """bfloat16 on tensor cores; where there are none, the float32 rate."""
    float64: float
    sheet: str


GPUS = {
    "t4": Gpu("NVIDIA T4", 0.32, 8.1, 65.0, 8.1, 0.25, "NVIDIA T4 data sheet"),
    "a100": Gpu("NVIDIA A100 80GB", 2.039, 19.5, 312.0, 312.0, 9.7, "NVIDIA A100 80GB SXM data sheet"),
    "h100": Gpu("NVIDIA H100", 3.35, 67.0, 989.0, 989.0, 34.0, "NVIDIA H100 SXM data sheet"),
}

_MATMULS = {"mm", "bmm", "addmm", "baddbmm", "_scaled_mm", "dot", "mv"}
_FREE = frozenset(
    [
        "view",
        "reshape",
        "permute",
        "transpose",
        "t",
        "expand",
        "squeeze",
        "unsqueeze",
        "slice",
        "select",
        "as_strided",
        "alias",
        "detach",
        "clone",
        "copy",
        "copy_",
        "cat",
        "full",
        "full_like",
        "empty",
        "empty_strided",
        "arange",
        "iota",
        "getitem",
        "index",
        "embedding",
        "gather",
        "scatter",
        "convert_element_type",
        "_to_copy",
        "unfold",
        "split",
        "split_with_sizes",
        "constant_pad_nd",
        "lift_fresh_copy",
        "diagonal",
        "flip",
        "inductor_seeds",
        "inductor_lookup_seed",
    ]
)
_REDUCTIONS = {"sum", "mean", "amax", "amin", "var", "var_mean", "argmax", "argmin", "prod", "any", "all", "max", "min"}


def flops(nodes: list[Node], graph: Graph) -> int | None:
    """Floating-point operations of `nodes` of a post-grad `graph`; None when a shape is dynamic.

    2·M·N·K for a matrix product, one per output element for an elementwise operation, one per input element for a
    reduction, nothing for what only moves data.
    """
    total = 0
    by_name = {node.name: node for node in graph.nodes}
    for node in nodes:
        count = _flops(node, by_name)
        if count is None:
            return None
        total += count
    return total


def _flops(node: Node, by_name: dict[str, Node]) -> int | None:
    name = operation(node)
    if node.op != "call" or name in _FREE:
        return 0
    inputs = [by_name[one] for one in node.inputs if one in by_name]
    if name in _MATMULS:
        factors = [one for one in inputs if one.shape is not None and len(one.shape) >= 1]
        inner = factors[-2].shape[-1] if len(factors) >= 2 and factors[-2].shape else None
        size = _elements(node)
        return 2 * size * inner if isinstance(inner, int) and size is not None else None
    if name in _REDUCTIONS:
        sizes = [_elements(one) for one in inputs[:1]]
        return sizes[0] if sizes else 0
    return _elements(node)


def operation(node: Node) -> str:
    """``mul`` for ``torch.ops.aten.mul.Tensor``."""
    parts = node.target.removeprefix("torch.ops.").split(".")
    return parts[1] if len(parts) > 1 and parts[0] in ("aten", "prims", "inductor") else parts[0]


def _elements(node: Node) -> int | None:
    if node.shape is None:
        return 0
    if not all(isinstance(size, int) for size in node.shape):
        return None
    return math.prod(size for size in node.shape if isinstance(size, int))


def floor_us(gpu: str, moved: int | None, work: int | None, dtype: str, matmul: bool) -> tuple[float | None, str]:
    """Roofline floor in microseconds, and in words where it comes from. None without the bytes.

    `dtype` is that of the result; tensor cores count for a matrix product in float16 or bfloat16 only (PyTorch's
    default keeps float32 products off them).
    """
    if moved is None:
        return None, ""
    peak = GPUS[gpu]
    rate = {"float16": peak.half, "bfloat16": peak.bfloat16}.get(dtype, peak.float32) if matmul else peak.float32
    if dtype == "float64":
        rate = peak.float64
    memory = moved / peak.bandwidth_tb_s / 1e6
    compute = (work or 0) / rate / 1e6
    if memory >= compute:
        return memory, f"{moved:,} bytes at {peak.bandwidth_tb_s} TB/s ({peak.sheet})"
    return compute, f"{work:,} FLOP at {rate} TFLOP/s ({peak.sheet})"
