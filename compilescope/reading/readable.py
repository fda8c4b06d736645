"""`GraphModule.print_readable` text, read into a `Graph`: nodes, edges, shapes and source lines."""

from __future__ import annotations

import ast
import re

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
_OPERATORS = {
    "Add": "add", "Sub": "sub", "Mult": "mul", "Div": "truediv", "FloorDiv": "floordiv", "Mod": "mod", "Pow": "pow",
    "MatMult": "matmul", "BitAnd": "and_", "BitOr": "or_", "BitXor": "xor", "LShift": "lshift", "RShift": "rshift",
    "Eq": "eq", "NotEq": "ne", "Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge", "Is": "is_", "IsNot": "is_not",
    "USub": "neg", "UAdd": "pos", "Invert": "invert", "Not": "not_", "In": "contains",
}  # fmt: skip


def read_graph(text: str, stage: str, compile_id: str) -> Graph:
    """A `Graph` from what ``print_readable(include_stride=True, include_device=True)`` printed.

    A text that is no Python (a version printed something unknown) gives a graph without nodes: its text remains.
    """
    try:
        tree = ast.parse(text.replace("<lambda>", "_lambda_"))
    except (SyntaxError, RecursionError, ValueError):
        return Graph(stage, compile_id, (), text)
    forward = _forward(tree)
    nodes = _Reader(text).read(forward) if forward else ()
    return Graph(stage, compile_id, nodes, text)


def _forward(tree: ast.Module) -> ast.FunctionDef | None:
    for outer in tree.body:
        if isinstance(outer, ast.ClassDef):
            for part in outer.body:
                if isinstance(part, ast.FunctionDef) and part.name == "forward":
                    return part
    return None


class _Reader:
    """Reads one ``forward`` statement by statement."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.nodes: list[Node] = []
        self.known: set[str] = set()
        self.alias: dict[str, str] = {}
        self.pending: tuple[str, tuple[str, ...]] | None = None
        self.sources = self._source_of_each_line()

    def _source_of_each_line(self) -> list[Source | None]:
        current: Source | None = None
        seen: dict[Source, Source] = {}
        of_line: list[Source | None] = [None]
        for line in self.lines:
            if "#" in line:
                if match := _FILE.search(line):
                    source = Source(
                        match["file"],
                        int(match["line"]),
                        (match["function"] or "").strip(),
                        (match["code"] or "").strip(),
                    )
                    current = seen.setdefault(source, source)
                elif "No stacktrace found" in line:
                    current = None
            of_line.append(current)
        return of_line

    def read(self, forward: ast.FunctionDef) -> tuple[Node, ...]:
        for argument in forward.args.args[1:]:
            if isinstance(argument.annotation, ast.Constant):
                self._add(
                    argument.arg, "placeholder", argument.arg, (), argument.lineno, _annotation(argument.annotation)
                )
        for statement in forward.body:
            self._statement(statement)
        return tuple(self.nodes)

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), value=None, annotation=annotation):
                # the joint graph declares its inputs in the body: 'primals_1: "f32[8]cpu"  # PlainAOTInput(idx=0)'
                self._add(name, "placeholder", name, (), statement.lineno, _annotation(annotation))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value, annotation=annotation):
                self._value(name, value, statement.lineno, _annotation(annotation))
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._value(name, value, statement.lineno, {})
            case ast.Assign(targets=[ast.Subscript()], value=value) | ast.AugAssign(value=value):
                target = (
                    "operator.setitem" if isinstance(statement, ast.Assign) else "operator.i" + _operator(statement.op)
                )
                self.pending = (target, self._names(statement))
            case ast.Return(value=value):
                self._add("output", "output", "output", self._names(value) if value else (), statement.lineno, {})

    def _value(self, name: str, value: ast.expr, line: int, tensor: dict[str, object]) -> None:
        match value:
            case ast.Name(id=other) if other in self.known or other in self.alias:
                if self.pending:
                    target, inputs = self.pending
                    self.pending = None
                    self._add(name, "call", target, inputs, line, tensor)
                else:
                    self.alias[name] = self.alias.get(other, other)
            case ast.Constant(value=None):
                pass
            case ast.Attribute() if not self._names(value):
                self._add(name, "get_attr", ast.unparse(value).removeprefix("self."), (), line, tensor)
            case _:
                self._add(name, "call", self._target(value), self._names(value), line, tensor)

    def _target(self, value: ast.expr) -> str:
        match value:
            case ast.Call(func=ast.Attribute(value=owner, attr=attribute)) if self._names(owner):
                return f"Tensor.{attribute}"
            case ast.Call(func=function):
                return ast.unparse(function).removeprefix("torch.ops.")
            case ast.BinOp(op=op) | ast.UnaryOp(op=op):
                return f"operator.{_operator(op)}"
            case ast.Compare(ops=[op, *_]):
                return f"operator.{_operator(op)}"
            case ast.Subscript():
                return "operator.getitem"
            case ast.Attribute(attr=attribute):
                return f"Tensor.{attribute}"
            case _:
                return type(value).__name__

    def _names(self, expression: ast.AST) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for part in ast.walk(expression):
            if isinstance(part, ast.Name):
                name = self.alias.get(part.id, part.id)
                if name in self.known:
                    found[name] = None
        return tuple(found)

    def _add(
        self, name: str, op: str, target: str, inputs: tuple[str, ...], line: int, tensor: dict[str, object]
    ) -> None:
        printed = self.lines[line - 1]
        note = _NOTE.search(printed) if "AOT" in printed else None
        self.known.add(name)
        source = self.sources[line] if op in ("call", "get_attr") else None
        self.nodes.append(
            Node(name, op, target, inputs, source=source, line=line, note=note[1] if note else "", **tensor)  # type: ignore[arg-type]
        )


def _operator(op: ast.AST) -> str:
    name = type(op).__name__
    return _OPERATORS.get(name, name.lower())


def _annotation(annotation: ast.expr) -> dict[str, object]:
    if not (isinstance(annotation, ast.Constant) and isinstance(annotation.value, str)):
        return {}
    return read_type(annotation.value)


def read_type(text: str) -> dict[str, object]:
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
