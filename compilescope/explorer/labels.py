"""Short names for what the explorer draws, sizes and bytes."""

from __future__ import annotations

import re

from compilescope.facts import Kernel, Node

_DTYPES = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2", "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "b8",
    "complex64": "c64", "complex128": "c128",
}  # fmt: skip
"""As ``print_readable`` writes them."""

_NAMESPACES = re.compile(
    r"^(torch\.ops\.|higher_order\.|torch\.nn\.functional\.|torch\.|_operator\.|operator\.|builtins\.|math\.|Tensor\.)+"
)
_OPERATOR = re.compile(r"^(?:aten|prims|inductor(?:_prims)?|quantized|_?c10d_functional|rngprims)\.(\w+)(?:\.\w+)?$")
_ARGUMENT = re.compile(r"^[LG]_(?:self_)?(.+?)_$")
_MODULES = re.compile(r"(?:^|_)(?:modules|parameters|buffers)_")


def label(node: Node) -> str:
    """What stands in the node's box: ``relu`` for ``aten.relu.default``, ``linear.weight`` for a parameter."""
    if node.op == "call":
        target = _NAMESPACES.sub("", node.target)
        operator = _OPERATOR.match(target)
        return operator.group(1) if operator else target or node.name
    if node.op == "output":
        return "output"
    if match := _ARGUMENT.match(node.target or node.name):
        return _MODULES.sub(".", match.group(1)).strip("._") or node.name
    return node.target if node.op == "get_attr" and node.target else node.name.rpartition(".")[2]


def size_text(node: Node) -> str:
    """``f32[64, 256]``, as the printed graph has it; empty where nothing is known."""
    if node.dtype is None or node.shape is None:
        return ""
    dtype = node.dtype.removeprefix("torch.")
    return f"{_DTYPES.get(dtype, dtype)}[{', '.join(map(str, node.shape))}]"


def fused(kernel: Kernel) -> str:
    """``3 ops fused``, ``1 op``, ``library call``: what the kernel computes, in two words."""
    count = len(kernel.nodes)
    if kernel.language == "extern":
        return "library call" if count < 2 else f"library call for {count} ops"
    return f"{count} ops fused" if count > 1 else "1 op" if count else "generated"
