"""Lines of a Triton kernel and the graph nodes they compute, where only one node of the kernel can be meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from compilescope.facts import Node
from compilescope.reading.cpp_lines import fitting_nodes
from compilescope.roofline import operation

_COMPOSITE = ("var_mean", "var", "prepare_softmax_online", "native_layer_norm")
"""One node, several lines: they subtract, multiply and sum for themselves."""

# A line of generated Triton, and the operations it can stand for. The first pattern that fits counts.
_PATTERNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"tl\.load\(.*seed|tl\.rand\(|inductor_random", ("inductor_random", "rand", "bernoulli")),
    (r"triton_helpers\.welford|tl\.reduce.*welford", ("var_mean", "var", "native_layer_norm")),
    (r"= tl\.sum\(|triton_helpers\.promote_to_tensor\(tl\.sum", ("sum", "mean", *_COMPOSITE)),
    (r"triton_helpers\.max2\(", ("amax", "max", "prepare_softmax_online")),
    (r"triton_helpers\.min2\(", ("amin", "min")),
    (r"max_with_index", ("argmax", "max")),
    (r"min_with_index", ("argmin", "min")),
    (r"triton_helpers\.any\(", ("any", "all")),
    (r"associative_scan", ("cumsum", "cumprod")),
    (r"sort_with_index", ("sort",)),
    (r"\btl\.dot\(", ("mm", "bmm", "addmm")),
    (r"triton_helpers\.maximum\(", ("relu", "maximum", "clamp_min", "clamp")),
    (r"triton_helpers\.minimum\(", ("minimum", "clamp_max", "clamp")),
    (r"(?:libdevice|tl_math|tl)\.(\w+)\(", ()),
    (r"= tmp\d+ \* tmp\d+$", ("mul", "square", "pow", *_COMPOSITE)),
    (r"= tmp\d+ \+ tmp\d+$", ("add",)),
    (r"= tmp\d+ - tmp\d+$", ("sub", *_COMPOSITE)),
    (r"= \(?tmp\d+ / tmp\d+\)?$", ("div", "mean", *_COMPOSITE)),
    (r"= -tmp\d+$", ("neg",)),
    (r"= tmp\d+ > tmp\d+$", ("gt",)),
    (r"= tmp\d+ >= tmp\d+$", ("ge",)),
    (r"= tmp\d+ < tmp\d+$", ("lt",)),
    (r"= tmp\d+ <= tmp\d+$", ("le",)),
    (r"= tmp\d+ == tmp\d+$", ("eq",)),
    (r"= tmp\d+ != tmp\d+$", ("ne",)),
)
_NAMESAKES = {
    "exp": ("exp", "prepare_softmax_online"),
    "where": ("where", "masked_fill"),
    "fma": ("fma", "addcmul"),
    "sqrt_rn": ("sqrt",),
    "div_rn": ("div",),
}
_NOT_OPERATIONS = {"load", "store", "full", "broadcast_to", "arange", "program_id", "reshape", "range", "device_assert"}


def line_nodes(source: str, nodes: list[Node], around: Iterable[Node] = ()) -> dict[int, tuple[str, ...]]:
    """1-based line of `source` to the name of the post-grad node it computes.

    `nodes` are the kernel's, `around` those of the whole graph: the views between two nodes may be nobody's.

    A line is mapped when exactly one of the kernel's `nodes` is of the line's operation and computes with what the
    line computes with; others stay out, so what is there can be trusted.
    """
    # a composite node's later lines compute with its earlier ones
    nodes = [_with_itself(node) for node in nodes]
    squares = {n.name for n in nodes if len(set(n.inputs)) == 1 or operation(n) in _COMPOSITE}
    by_operation: dict[str, list[str]] = {}
    for node in nodes:
        by_operation.setdefault(operation(node), []).append(node.name)
    meant: dict[int, set[str]] = {}
    operands: dict[int, set[int]] = {}
    defined: dict[str, int] = {}
    for number, text in enumerate(source.splitlines(), 1):
        assigned = _ASSIGNED.match(text.strip())
        if not assigned:
            continue
        used = [defined[one] for one in re.findall(r"\btmp\d+\b", assigned[2]) if one in defined]
        if _SAME_VALUE.search(assigned[2]):  # a reshaped, converted or masked copy stands for what was computed
            if used:
                defined[assigned[1]] = used[0]
            continue
        names = {name for one in _operations(text.strip()) for name in by_operation.get(one, ())}
        if _SQUARE.match(assigned[2]):
            names &= squares
        if names:
            meant[number] = names
            operands[number] = {one for one in used if one in meant}
            defined[assigned[1]] = number
    return fitting_nodes(meant, operands, [_with_itself(node) for node in around] or nodes)


def _with_itself(node: Node) -> Node:
    return replace(node, inputs=(*node.inputs, node.name)) if operation(node) in _COMPOSITE else node


_ASSIGNED = re.compile(r"^(tmp\w+) = (.*)$")
_SQUARE = re.compile(r"^(tmp\d+) \* \1$")
_SAME_VALUE = re.compile(r"^tl\.broadcast_to\(|^tmp\d+\.to\(|^tl\.where\(\w*mask|^tl\.reshape\(|^tmp\d+\[")


def _operations(line: str) -> tuple[str, ...]:
    for pattern, operations in _PATTERNS:
        if match := re.search(pattern, line):
            if operations:
                return operations
            name = match[1]
            if name in _NOT_OPERATIONS:
                return ()
            return _NAMESAKES.get(name, (name,))
    return ()
