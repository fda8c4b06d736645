"""Guards in words: what must hold, and what change would break it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from compilescope.facts import Guard

_PARTS = re.compile(r"\._(?:modules|parameters|buffers)\['([^']+)'\]|\['([^']+)'\]|\.(\w+)|\[(\d+)\]|\.__dict__")
_TENSOR = re.compile(
    r"check_tensor\(.*?torch\.(?P<dtype>\w+), device=\w+, requires_grad=(?P<grad>\w+), size=(?P<size>\[.*?\])"
)
_OURS = re.compile(
    r"__builtins_dict__|__import_|^G\['torch'\]|_dynamo_|\._modules$|\._parameters$|\._buffers$|\.__dict__"
)
_SIZE = re.compile(r"L\['(\w+)'\]\.size\(\)\[(\d+)\]")


@dataclass(frozen=True)
class Words:
    """One guard for a reader."""

    root: str
    """The argument, attribute holder or global that it looks into: ``x``, ``self``, ``global scale``."""
    subject: str
    holds: str
    breaks: str
    guard: Guard


def words(guard: Guard) -> Words | None:
    """`guard` in words; None where it is Dynamo's own housekeeping and no value of the learner's."""
    if _OURS.search(guard.subject) or guard.kind == "DIMENSION_DYNAMIC_MARKING_GUARD":
        return None
    if not guard.subject:
        return _of_sizes(guard)
    subject = plain_name(guard.subject)
    root = ("global " if guard.subject.startswith("G[") else "") + re.split(r"[.\[]", subject)[0]
    holds, breaks = _said(guard)
    return Words(root, subject, holds, breaks, guard)


def plain_name(subject: str) -> str:
    """``self.up.bias`` for ``L['self']._modules['up']._parameters['bias']``."""
    start = re.match(r"[LG]\['([^']+)'\]", subject)
    if start is None:
        return subject
    name = start.group(1)
    for module, key, attribute, index in _PARTS.findall(subject[start.end() :]):
        name += f".{module or attribute}" if module or attribute else f"[{index}]" if index else f"[{key!r}]"
    return name


def _said(guard: Guard) -> tuple[str, str]:
    expression = re.sub(r"\s+#.*", "", guard.expression)
    if guard.kind == "TENSOR_MATCH" and (found := _TENSOR.search(expression)):
        grad = "gradient wanted" if found["grad"] == "True" else "no gradient"
        size = found["size"].replace("None", "any")
        return f"{found['dtype']} tensor of size {size}, {grad}", _tensor_breaks(size)
    match guard.kind:
        case "EQUALS_MATCH" | "CONSTANT_MATCH":
            return f"equals {expression.partition('==')[2].strip() or expression}", "any other value"
        case "TYPE_MATCH":
            kind = re.search(r"type=<class '([^']+)'>", expression)
            return f"is of type {kind.group(1).rpartition('.')[2] if kind else '?'}", "another type, a subclass too"
        case "ID_MATCH" | "FUNCTION_MATCH" | "CLOSURE_MATCH" | "NN_MODULE":
            return "is this very object", "another object, even an equal one"
        case "SEQUENCE_LENGTH" | "LENGTH_CHECK" | "TUPLE_ITERATOR_LEN" | "DICT_LENGTH":
            return f"has length {expression.rpartition('==')[2].strip()}", "another length"
        case "BOOL_MATCH" | "NONE_MATCH":
            return f"is {expression.rpartition(' ')[2].strip(')')}", "any other value"
        case "DICT_CONTAINS" | "SET_CONTAINS":
            return expression.replace("___dict_contains", "holds"), "a key added or removed"
        case _:
            return expression, "whatever makes this false"


def _tensor_breaks(size: str) -> str:
    parts = [part.strip() for part in size.strip("[]").split(",") if part.strip()]
    fixed = [part for part in parts if part != "any"]
    sizes = [] if not fixed else ["size"] if len(fixed) == len(parts) else ["size where it is a number"]
    return "another " + ", ".join([*sizes, "dtype, device, number of dimensions or requires_grad"])


def _of_sizes(guard: Guard) -> Words | None:
    expression = re.sub(r"\s+#.*", "", guard.expression)
    found = _SIZE.search(expression)
    if not found:
        return None
    plain = _SIZE.sub(r"\1.size(\2)", expression)
    return Words(found.group(1), f"{found.group(1)}.size({found.group(2)})", plain, "a size outside this range", guard)
