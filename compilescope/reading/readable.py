"""`GraphModule.print_readable` text, read into a `Graph`: nodes, edges, shapes and source lines."""

from __future__ import annotations

import ast
import itertools
import re
from typing import Any

from compilescope.facts import Graph, Node, Size, Source

_DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0fnu": "float8_e8m0fnu",
    "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8",
    "b8": "bool", "c32": "complex32", "c64": "complex64", "c128": "complex128",
}  # fmt: skip
_TENSOR = re.compile(
    r"^(?P<dtype>[a-z][a-z0-9]*)\[(?P<shape>[^\]]*)\](?:\[(?P<stride>[^\]]*)\])?(?P<device>[a-z]+(?::\d+)?)?"
)
_SYMBOL = re.compile(r"^Sym\((?P<value>.*)\)$")
_FILE = re.compile(r"#\s*File: (?P<file>.+?):(?P<line>\d+)(?: in (?P<function>[^,]+))?(?:, code: ?(?P<code>.*))?$")
_NOTE = re.compile(r"#\s*(\w+AOT(?:Input|Output)\b.*)$")
_SIGNS = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "&": "and", "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift",
}  # fmt: skip
_OPERATORS = {
    "Add": "add", "Sub": "sub", "Mult": "mul", "Div": "truediv", "FloorDiv": "floordiv", "Mod": "mod", "Pow": "pow",
    "MatMult": "matmul", "BitAnd": "and_", "BitOr": "or_", "BitXor": "xor", "LShift": "lshift", "RShift": "rshift",
    "Eq": "eq", "NotEq": "ne", "Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge", "Is": "is_", "IsNot": "is_not",
    "USub": "neg", "UAdd": "pos", "Invert": "invert", "Not": "not_", "In": "contains",
}  # fmt: skip


_ASSIGN = re.compile(r'^(\w+)(?:: "([^"]*)")? = (.*)$')
_DECLARED = re.compile(r'^(\w+): "([^"]*)",?(?:\s+#.*)?$')
_PARAMETER = re.compile(r'(\w+): "([^"]*)"')
_CALL = re.compile(r"^([A-Za-z_][\w.]*)\((.*)\)$")
_NAME = re.compile(r"(?<![\w.'\"])[A-Za-z_]\w*(?!\w|\s*=(?!=)|\()")
_IN_PLACE = re.compile(r"^(\w+\[.*\]|\w+) ([-+*/@&|^%]|//|\*\*|<<|>>)?= ")
_INDENT = " " * 4
_BODY = _INDENT * 2
_INNER_CLASS = _INDENT + "class "


def read_graph(text: str, stage: str, compile_id: str) -> Graph:
    """A `Graph` from what ``print_readable(include_stride=True, include_device=True)`` printed.

    Read line by line, as it is printed: a graph of 20,000 nodes takes a second. A line that says something unknown
    gives no node; the text remains. Bodies of nested graphs (``torch.cond``) become graphs in `Graph.inner`.
    """
    lines = text.splitlines()
    return Graph(stage, compile_id, _Reader(lines).read(), text, inner=_nested(lines, 0, stage, compile_id))


def _nested(lines: list[str], above: int, stage: str, compile_id: str) -> tuple[Graph, ...]:
    """The classes printed inside the outermost one of `lines`, which follow `above` other lines of the whole text."""
    starts = [at for at, line in enumerate(lines) if at and line.startswith(_INNER_CLASS)]
    found = []
    for first, last in itertools.pairwise([*starts, len(lines)]):
        body = [line[len(_INDENT) :] for line in lines[first:last]]
        name = body[0].removeprefix("class ").partition("(")[0]
        inner = _nested(body, above + first, stage, compile_id)
        found.append(Graph(stage, compile_id, _Reader(body, above + first).read(), name=name, inner=inner))
    return tuple(found)


class _Reader:
    """Reads the outermost ``forward`` line by line; `above` lines of the whole text stand before `lines`."""

    def __init__(self, lines: list[str], above: int = 0) -> None:
        self.lines = lines
        self.above = above
        self.nodes: list[Node] = []
        self.known: set[str] = set()
        self.alias: dict[str, str] = {}
        self.source: Source | None = None
        self.seen: dict[str, Source] = {}
        self.types: dict[str, dict[str, Any]] = {}

    def read(self) -> tuple[Node, ...]:
        start = next((at for at, line in enumerate(self.lines) if line.lstrip().startswith("def forward(")), None)
        if start is None:
            return ()
        at = self._parameters(start)
        while at < len(self.lines):
            line = self.lines[at]
            if line.strip() and not line.startswith(_BODY):
                break  # the next class: a nested graph
            at = self._line(line.strip(), at + 1)
        return tuple(self.nodes)

    def _parameters(self, start: int) -> int:
        """Read the head of ``forward``; gives the index of the first line of its body."""
        at = start
        while at < len(self.lines):
            line = self.lines[at]
            for name, printed in _PARAMETER.findall(line):
                self._add(name, "placeholder", name, (), at + 1, printed)
            at += 1
            if line.rstrip().endswith("):") or line.strip() == "):":
                break
        return at

    def _line(self, line: str, number: int) -> int:
        """Read one line of the body, its 1-based number given; gives the index of the next one to read."""
        if line.startswith("#"):
            self._comment(line)
        elif line.startswith("return"):
            return self._return(number)
        elif line:
            first, *others = line.split(";  ")
            self._statement(first, others, number)
        return number

    def _comment(self, line: str) -> None:
        if "No stacktrace found" in line:
            self.source = None
        elif line in self.seen:
            self.source = self.seen[line]
        elif match := _FILE.search(line):
            file, function, code = match["file"], (match["function"] or "").strip(), (match["code"] or "").strip()
            self.source = self.seen[line] = Source(file, int(match["line"]), function, code)

    def _return(self, number: int) -> int:
        """The output, which may go over several lines: everything up to the end of this body."""
        end = number
        while end < len(self.lines) and self.lines[end].startswith(_BODY):
            end += 1
        printed = " ".join(line.partition("  # ")[0] for line in self.lines[number - 1 : end])
        self._add("output", "output", "output", self._names(printed), number)
        return end

    def _statement(self, statement: str, others: list[str], number: int) -> None:
        if match := _ASSIGN.match(statement):
            name, printed, expression = match.groups()
            self._value(name, expression, number, printed)
        elif match := _DECLARED.match(statement):
            self._add(match[1], "placeholder", match[1], (), number, match[2])
        elif match := _IN_PLACE.match(statement):
            target = "operator.setitem" if not match[2] else f"operator.i{_SIGNS.get(match[2], match[2])}"
            renamed = next((m for other in others if (m := _ASSIGN.match(other)) and m[3] != "None"), None)
            if renamed:  # 'x[0] = y;  setitem = x': the node is the new name
                self._add(renamed[1], "call", target, self._names(statement), number)

    def _value(self, name: str, expression: str, number: int, printed: str | None) -> None:
        if expression in self.known or expression in self.alias:
            self.alias[name] = self.alias.get(expression, expression)
        elif expression == "None":
            pass
        elif match := _CALL.match(expression):
            root = match[1].partition(".")[0]
            if root in self.known or root in self.alias:
                target, inputs = f"Tensor.{match[1].rpartition('.')[2]}", self._names(f"{root}, {match[2]}")
            else:
                target, inputs = match[1].removeprefix("torch.ops."), self._names(match[2])
            self._add(name, "call", target, inputs, number, printed)
        elif expression.startswith("self."):
            self._add(name, "get_attr", expression.removeprefix("self."), (), number, printed)
        else:
            self._add(name, "call", _target_of(expression), self._names(expression), number, printed)

    def _names(self, expression: str) -> tuple[str, ...]:
        found = (self.alias.get(name, name) for name in _NAME.findall(expression))
        return tuple(dict.fromkeys(name for name in found if name in self.known))

    def _add(
        self, name: str, op: str, target: str, inputs: tuple[str, ...], number: int, printed: str | None = None
    ) -> None:
        line = self.lines[number - 1]
        note = _NOTE.search(line) if "AOT" in line and op == "placeholder" else None
        source = self.source if op in ("call", "get_attr") else None
        self.known.add(name)
        tensor: dict[str, Any] = {}
        if printed is not None:
            tensor = self.types.get(printed) or self.types.setdefault(printed, read_type(printed))
        kind: Any = op
        self.nodes.append(
            Node(
                name, kind, target, inputs, source=source, line=self.above + number,
                note=note[1] if note else "", **tensor,
            )
        )  # fmt: skip


def _target_of(expression: str) -> str:
    """``operator.mul`` for ``relu * 2``, ``operator.getitem`` for ``split[0]``, ``Tensor.shape`` for ``x.shape``."""
    try:
        value = ast.parse(expression, mode="eval").body
    except (SyntaxError, RecursionError, ValueError):
        return expression[:80]
    match value:
        case ast.BinOp(op=op) | ast.UnaryOp(op=op) | ast.Compare(ops=[op, *_]):
            return f"operator.{_operator(op)}"
        case ast.Subscript():
            return "operator.getitem"
        case ast.Attribute(attr=attribute):
            return f"Tensor.{attribute}"
        case _:
            return type(value).__name__


def _operator(op: ast.AST) -> str:
    name = type(op).__name__
    return _OPERATORS.get(name, name.lower())


def read_type(text: str) -> dict[str, Any]:
    """``f32[8, s77][s77, 1]cpu`` as dtype, shape, stride, device; ``Sym(s77)`` as dtype ``SymInt``."""
    if _SYMBOL.match(text):
        return {"dtype": "SymInt", "shape": ()}
    match = _TENSOR.match(text)
    if not match:
        return {}
    return {
        "dtype": _DTYPES.get(match["dtype"], match["dtype"]),
        "shape": _sizes(match["shape"]),
        "stride": None if match["stride"] is None else _sizes(match["stride"]),
        "device": match["device"],
    }


def _sizes(text: str) -> tuple[Size, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return tuple(int(part) if part.lstrip("-").isdigit() else part for part in parts)
