"""A hand-written Triton kernel as a module of its own, so that another process can import it."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from dataclasses import dataclass, field
from typing import Any


@dataclass
class KernelSource:
    """`text` of a module that defines the kernel `name`; `origins` tells where its lines come from."""

    name: str
    parameters: tuple[str, ...]
    text: str = "import triton\nimport triton.language as tl\n"
    origins: list[tuple[int, int, str, str]] = field(default_factory=list)
    """(First line here, first line there, file, function) for each function, in order."""

    def add(self, lines: str, file: str = "", first: int = 0, function: str = "") -> None:
        """Append lines; those of a function tell the file and the line they come from."""
        if file:
            self.origins.append((self.text.count("\n") + 2, first, file, function))
            lines = f"@triton.jit\n{lines}"
        self.text += f"{lines.rstrip()}\n"

    def origin(self, line: int) -> tuple[str, int, str, str]:
        """File, line, function and text of the learner's line that stands at `line` of this module."""
        code = self.text.splitlines()[line - 1].strip() if 0 < line <= self.text.count("\n") else ""
        for here, there, file, function in reversed(self.origins):
            if line >= here:
                return file, there + line - here, function, code
        return "", line, "", code

    def returned_line(self) -> int:
        """Line of this module where the kernel returns a value, which no kernel may; 0 if it returns none."""
        functions = [one for one in ast.parse(self.text).body if isinstance(one, ast.FunctionDef)]
        body = next((one for one in functions if one.name == self.name), None)
        returns = [one for one in ast.walk(body) if isinstance(one, ast.Return) and one.value] if body else []
        return returns[0].lineno if returns else 0


class _Logical(ast.NodeTransformer):
    """``a and b`` of blocks is element by element for Triton's compiler; for Python, in the interpreter, it is not."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        name = "both_of" if isinstance(node.op, ast.And) else "either_of"
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        return ast.Call(ast.Name(name), [ast.Lambda(nothing, value) for value in node.values], [])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return ast.Call(ast.Name("negated"), [node.operand], []) if isinstance(node.op, ast.Not) else node


def for_interpreter(text: str) -> str:
    """The module with Triton's meaning of ``and``, ``or`` and ``not``; each line stays where it is."""
    raw = text.encode()
    starts = [0]
    for line in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in reversed(_outermost(ast.parse(text))):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        lines = "\n" * raw[begin:end].count(b"\n")
        raw = raw[:begin] + f"({ast.unparse(_Logical().visit(node))}{lines})".encode() + raw[end:]
    return f"from compilescope.torch_internals.interpret_shims import both_of, either_of, negated; {raw.decode()}"


def _outermost(tree: ast.AST) -> list[ast.expr]:
    """Logical expressions that stand in no other, in the order of the text."""
    found: list[ast.expr] = []
    for child in ast.iter_child_nodes(tree):
        logical = isinstance(child, ast.BoolOp) or (isinstance(child, ast.UnaryOp) and isinstance(child.op, ast.Not))
        found += [child] if logical and isinstance(child, ast.expr) else _outermost(child)
    return sorted(found, key=lambda one: (one.lineno, one.col_offset))


def is_triton_kernel(value: Any) -> bool:
    """Whether `value` is what ``@triton.jit`` made, autotuned or not. Leans on ``triton.runtime.JITFunction``."""
    from triton.runtime import JITFunction

    return isinstance(bare(value), JITFunction)


def first_config(kernel: Any) -> dict[str, Any]:
    """What an autotuned kernel would add to a launch: the arguments of its first configuration."""
    configs = getattr(kernel, "configs", None)
    return dict(configs[0].kwargs) if configs else {}


def kernel_source(kernel: Any) -> KernelSource:
    """The kernel with the functions and constants it uses. Raises ValueError with a sentence for what cannot go."""
    jitted = bare(kernel)
    source = KernelSource(jitted.fn.__name__, tuple(inspect.signature(jitted.fn).parameters))
    _add(jitted, source, set())
    return source


def bare(kernel: Any) -> Any:
    """What ``@triton.jit`` made, without autotuning and heuristics round it."""
    while hasattr(kernel, "fn") and hasattr(kernel.fn, "fn"):  # autotune and heuristics wrap a jitted function
        kernel = kernel.fn
    return kernel


def _add(kernel: Any, source: KernelSource, seen: set[str]) -> None:
    function = kernel.fn
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError) as error:
        raise ValueError(
            f"The source of {function.__name__} cannot be found: define it in a cell or a file."
        ) from error
    start = next(number for number, line in enumerate(lines) if line.lstrip().startswith("def "))
    text = textwrap.dedent("".join(lines[start:]))
    known = {**function.__globals__, **_closure(function)}
    for name in _names(text):
        if name in known and name not in seen and name not in (*function.__code__.co_varnames, "tl", "triton"):
            seen.add(name)
            _add_global(name, known[name], function.__name__, source, seen)
    source.add(text, inspect.getsourcefile(function) or "", first + start, function.__name__)


def _closure(function: Any) -> dict[str, Any]:
    cells = function.__closure__ or ()
    return {name: cell.cell_contents for name, cell in zip(function.__code__.co_freevars, cells, strict=True)}


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)))


def _add_global(name: str, value: Any, user: str, source: KernelSource, seen: set[str]) -> None:
    import triton.language as tl

    if is_triton_kernel(value) and not (getattr(value, "__module__", "") or "").startswith("triton."):
        _add(bare(value), source, seen)
    elif isinstance(value, types.ModuleType):
        source.add(f"import {value.__name__} as {name}")
    elif isinstance(value, tl.constexpr):
        source.add(f"{name} = tl.constexpr({value.value!r})")
    elif isinstance(value, (int, float, str, bool, type(None))):
        source.add(f"{name} = {value!r}")
    elif isinstance(value, tl.dtype):
        source.add(f"{name} = tl.{value}")
    elif (getattr(value, "__module__", "") or "").split(".")[0] in ("triton", "builtins") and hasattr(
        value, "__name__"
    ):
        source.add(f"from {value.__module__} import {value.__name__} as {name}")
    else:
        raise ValueError(f"{user} uses {name}, a {type(value).__name__}: pass it as an argument of the kernel.")
