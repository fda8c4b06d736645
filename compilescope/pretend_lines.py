"""Lines of a Triton kernel and the graph nodes they compute, where only one node of the kernel can be meant."""

from __future__ import annotations

import re

from compilescope.facts import Node
from compilescope.roofline import operation

# A line of generated Triton, and the operations it can stand for. The first pattern that fits counts.
_PATTERNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"tl\.load\(.*seed|tl\.rand\(|inductor_random", ("inductor_random", "rand", "bernoulli")),
    (r"triton_helpers\.welford|tl\.reduce.*welford", ("var_mean", "var", "native_layer_norm")),
    (r"= tl\.sum\(|triton_helpers\.promote_to_tensor\(tl\.sum", ("sum", "mean")),
    (r"triton_helpers\.max2\(", ("amax", "max")),
    (r"triton_helpers\.min2\(", ("amin", "min")),
    (r"max_with_index", ("argmax", "max")),
    (r"min_with_index", ("argmin", "min")),
    (r"triton_helpers\.any\(", ("any",)),
    (r"associative_scan", ("cumsum", "cumprod")),
    (r"sort_with_index", ("sort",)),
    (r"\btl\.dot\(", ("mm", "bmm", "addmm")),
    (r"triton_helpers\.maximum\(", ("relu", "maximum", "clamp_min", "clamp")),
    (r"triton_helpers\.minimum\(", ("minimum", "clamp_max", "clamp")),
    (r"(?:libdevice|tl_math|tl)\.(\w+)\(", ()),
    (r"= tmp\d+ \* tmp\d+$", ("mul", "square", "pow")),
    (r"= tmp\d+ \+ tmp\d+$", ("add",)),
    (r"= tmp\d+ - tmp\d+$", ("sub",)),
    (r"= \(?tmp\d+ / tmp\d+\)?$", ("div",)),
    (r"= -tmp\d+$", ("neg",)),
    (r"= tmp\d+ > tmp\d+$", ("gt",)),
    (r"= tmp\d+ >= tmp\d+$", ("ge",)),
    (r"= tmp\d+ < tmp\d+$", ("lt",)),
    (r"= tmp\d+ <= tmp\d+$", ("le",)),
    (r"= tmp\d+ == tmp\d+$", ("eq",)),
    (r"= tmp\d+ != tmp\d+$", ("ne",)),
)
_NAMESAKES = {"where": ("where", "masked_fill"), "fma": ("fma", "addcmul"), "sqrt_rn": ("sqrt",), "div_rn": ("div",)}
_NOT_OPERATIONS = {"load", "store", "full", "broadcast_to", "arange", "program_id", "reshape", "range", "device_assert"}


def line_nodes(source: str, nodes: list[Node]) -> dict[int, tuple[str, ...]]:
    """1-based line of `source` to the names of the post-grad nodes it computes.

    A line is mapped when exactly one of the kernel's `nodes` is of the line's operation; others stay out, so what is
    there can be trusted.
    """
    by_operation: dict[str, list[str]] = {}
    for node in nodes:
        by_operation.setdefault(operation(node), []).append(node.name)
    found: dict[int, tuple[str, ...]] = {}
    for number, line in enumerate(source.splitlines(), 1):
        candidates = [name for one in _operations(line.strip()) for name in by_operation.get(one, ())]
        if len(candidates) == 1:
            found[number] = (candidates[0],)
    return found


def _operations(line: str) -> tuple[str, ...]:
    if not re.match(r"\w+ = ", line) or re.search(r"tl\.where\(\w*mask", line):
        return ()  # a mask keeps other lanes out of a reduction: it is nobody's node
    for pattern, operations in _PATTERNS:
        if match := re.search(pattern, line):
            if operations:
                return operations
            name = match[1]
            if name in _NOT_OPERATIONS:
                return ()
            return _NAMESAKES.get(name, (name,))
    return ()
