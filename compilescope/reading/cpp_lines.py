"""Lines of a generated C++ kernel and the graph nodes they compute, where only one node of the kernel can be meant."""

from __future__ import annotations

import re

from compilescope.facts import Node

# What stands right of "=" in a line of generated C++, and the operations it can be. The first pattern that fits counts.
_PATTERNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"welford_combine", ("var_mean", "var", "native_layer_norm")),
    (r"^sum_masked_reduce|^cascade_sum_combine|^tmp_acc\w* \+ ", ("sum", "mean")),
    (r"^(?:at::vec::maximum|max_propagate_nan|max_masked_reduce)\(tmp_acc", ("amax", "max")),
    (r"^(?:at::vec::minimum|min_propagate_nan|min_masked_reduce)\(tmp_acc", ("amin", "min")),
    (r"^argmax_combine", ("argmax", "max")),
    (r"^argmin_combine", ("argmin", "min")),
    (r"::fmadd\(|^std::fma\(", ("fma", "addcmul")),
    (r"^at::vec::clamp_min\(|^max_propagate_nan\(tmp\d+, decltype\(tmp\d+\)\(0\)\)", ("relu", "clamp_min")),
    (r"^(?:at::vec::maximum|max_propagate_nan)\(", ("maximum", "clamp_min", "clamp", "relu")),
    (r"^(?:at::vec::minimum|min_propagate_nan)\(", ("minimum", "clamp_max", "clamp")),
    (r"blendv\(|^tmp\d+ \? tmp\d+ : tmp\d+$", ("where", "masked_fill", "threshold_backward")),
    (r"^decltype\(tmp\d+\)\(1\) ?/ ?\(decltype\(tmp\d+\)\(1\) \+", ("sigmoid",)),
    (r"^tmp\d+\.(\w+)\(\)$|^std::(\w+)\(tmp\d+\)$", ()),
    (r"^tmp\d+\.(pow)\(|^std::(pow)\(", ()),
    (r"^tmp\d+ \* tmp\d+$", ("mul", "square", "pow")),
    (r"^tmp\d+ \+ tmp\d+$", ("add",)),
    (r"^tmp\d+ - tmp\d+$", ("sub",)),
    (r"^tmp\d+ / tmp\d+$", ("div",)),
    (r"^-tmp\d+$", ("neg",)),
    (r"tmp\d+ <= tmp\d+\)?", ("le", "threshold_backward")),
    (r"tmp\d+ >= tmp\d+\)?", ("ge",)),
    (r"tmp\d+ < tmp\d+\)?", ("lt",)),
    (r"tmp\d+ > tmp\d+\)?", ("gt",)),
    (r"tmp\d+ == tmp\d+\)?", ("eq",)),
    (r"tmp\d+ != tmp\d+\)?", ("ne",)),
)
_VIEWS = frozenset(
    {"view", "permute", "expand", "unsqueeze", "squeeze", "clone", "reshape", "slice", "select", "alias", "t"}
    | {"transpose", "as_strided", "convert_element_type", "split", "getitem"}
)
_NAMESAKES = {"exp_u20": "exp", "exp_u20_nonneg": "exp", "fexp_u20": "exp"}
_ASSIGNED = re.compile(r"^(?:auto |float |double )?(tmp\w+) = (.*?);?$")


def cpp_line_nodes(source: str, nodes: list[Node]) -> dict[int, tuple[str, ...]]:
    """1-based line of `source` to the name of the post-grad node it computes.

    A line is mapped when exactly one of the kernel's `nodes` is of the line's operation and fits the lines before and
    after it; others stay out, so what is there can be trusted. One node may have several lines: a vector loop and its
    scalar tail.
    """
    by_operation: dict[str, list[str]] = {}
    for node in nodes:
        by_operation.setdefault(_operation(node), []).append(node.name)
    return fitting_nodes(*_candidates(source, by_operation), nodes)


def fitting_nodes(
    meant: dict[int, set[str]], operands: dict[int, set[int]], nodes: list[Node]
) -> dict[int, tuple[str, ...]]:
    """Lines for which one node remains, once each line's candidates fit those of the lines it uses.

    `meant` holds the candidates of each line, by operation; `operands` the lines whose results it uses.
    """
    inputs = _inputs_through_views(nodes)
    changed = True
    while changed:
        changed = False
        for line, used in operands.items():
            for other in used & meant.keys():
                changed |= _narrow(meant, line, {name for name in meant[line] if inputs[name] & meant[other]})
                changed |= _narrow(meant, other, {n for n in meant[other] if any(n in inputs[m] for m in meant[line])})
    return {line: (next(iter(names)),) for line, names in sorted(meant.items()) if len(names) == 1}


def _inputs_through_views(nodes: list[Node]) -> dict[str, set[str]]:
    """What each node computes with; a view of a tensor counts as the tensor too, for it has no line of its own."""
    views = {node.name: node.inputs for node in nodes if _operation(node) in _VIEWS}
    inputs = {}
    for node in nodes:
        reached, front = set(node.inputs), list(node.inputs)
        while front:
            behind = views.get(front.pop(), ())
            front.extend(name for name in behind if name not in reached)
            reached.update(behind)
        inputs[node.name] = reached
    return inputs


def _narrow(meant: dict[int, set[str]], line: int, fitting: set[str]) -> bool:
    """Keep only the nodes that fit. None fits where Inductor rewrote the code: then nothing is concluded."""
    if not fitting or fitting == meant[line]:
        return False
    meant[line] = fitting
    return True


def _candidates(source: str, by_operation: dict[str, list[str]]) -> tuple[dict[int, set[str]], dict[int, set[int]]]:
    """Line to the nodes it may compute, and line to the lines that computed what it uses."""
    meant: dict[int, set[str]] = {}
    operands: dict[int, set[int]] = {}
    defined: dict[str, int] = {}
    for number, line in enumerate(source.splitlines(), 1):
        assigned = _ASSIGNED.match(line.strip())
        if not assigned:
            continue
        names = {name for one in _operations(assigned[2]) for name in by_operation.get(one, ())}
        if names:
            meant[number] = names
            used = {defined[tmp] for tmp in re.findall(r"\btmp\d+\b", assigned[2]) if tmp in defined}
            operands[number] = {one for one in used if one in meant}
        defined[assigned[1]] = number
    return meant, operands


def _operation(node: Node) -> str:
    """``mul`` for ``aten.mul.Tensor`` and ``prims.mul.default``."""
    parts = node.target.split(".")
    return parts[1] if len(parts) > 1 else node.target


def _operations(expression: str) -> tuple[str, ...]:
    for pattern, operations in _PATTERNS:
        if match := re.search(pattern, expression):
            if operations:
                return operations
            name = next(group for group in match.groups() if group)
            return (_NAMESAKES.get(name, name),)
    return ()
