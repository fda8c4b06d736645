"""Small wrong programs out of a right one: mutants of an answer, each one change away, none twice."""

from __future__ import annotations

import ast
import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

BINARY: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mod,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.MatMult: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
COMPARISON: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip

Change = Callable[[ast.AST], Iterator[ast.AST | None]]
"""From a node to what may stand in its place; None: nothing does."""


@dataclass(frozen=True)
class Mutant:
    """A changed program. `what` says in a few words what was done, and on which line."""

    code: str
    what: str


def mutants(code: str, most: int = 40) -> list[Mutant]:
    """At most `most` mutants, spread over the program and over the kinds of change."""
    tree = ast.parse(code)
    seen, found = {ast.unparse(tree)}, []
    for place, node in enumerate(ast.walk(tree)):
        for title, change in CHANGES.items():
            for number, _ in enumerate(change(node)):
                text = _changed(tree, place, change, number)
                if text is not None and text not in seen:
                    seen.add(text)
                    found.append(Mutant(text, f"line {getattr(node, 'lineno', 0)}: {title}"))
    if len(found) <= most:
        return found
    return [found[round(index * (len(found) - 1) / (most - 1))] for index in range(most)]


def _changed(tree: ast.Module, place: int, change: Change, number: int) -> str | None:
    """The program with the change made to the node at `place`, or None if that is no program."""
    fresh = copy.deepcopy(tree)
    node = list(ast.walk(fresh))[place]
    new = list(change(node))[number]
    done: ast.AST = _Put(node, new).generic_visit(fresh)
    try:
        text = ast.unparse(ast.fix_missing_locations(done))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "mutant", "exec")
    except (SyntaxError, ValueError, AttributeError, TypeError):
        return None
    return text


class _Put(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST | None) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST | None:
        """Replace the one node; a statement that goes leaves `pass`."""
        if node is self.old:
            return ast.Pass() if self.new is None else self.new
        return self.generic_visit(node)


def other_operator(node: ast.AST) -> Iterator[ast.AST]:
    """``+`` for ``-``, ``<`` for ``<=``, ``and`` for ``or``."""
    if isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in BINARY:
        yield _with(node, op=BINARY[type(node.op)]())
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISON:
        yield _with(node, ops=[COMPARISON[type(node.ops[0])](), *node.ops[1:]])
    if isinstance(node, ast.BoolOp):
        yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield node.operand


def other_constant(node: ast.AST) -> Iterator[ast.AST]:
    """A number one off, a flag turned, a text with one more letter."""
    if not isinstance(node, ast.Constant) or node.value is None or node.value is Ellipsis:
        return
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, (int, float)):
        yield ast.Constant(value + 1)
        yield ast.Constant(value - 1)
    elif isinstance(value, str):
        yield ast.Constant(value + "x")
        yield ast.Constant("")


def dropped_statement(node: ast.AST) -> Iterator[ast.AST | None]:
    """A line that is not there."""
    if isinstance(node, (ast.Expr, ast.Assign, ast.AugAssign, ast.Return, ast.If, ast.For, ast.With, ast.Raise)):
        yield None


def swapped_branches(node: ast.AST) -> Iterator[ast.AST]:
    """A condition turned round."""
    if isinstance(node, (ast.If, ast.IfExp, ast.While)):
        yield _with(node, test=ast.UnaryOp(ast.Not(), node.test))
    if isinstance(node, ast.comprehension) and node.ifs:
        yield _with(node, ifs=node.ifs[1:])


def dropped_decorator(node: ast.AST) -> Iterator[ast.AST]:
    """A decorator, or a base class, that is not there."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        for index in range(len(node.decorator_list)):
            yield _with(node, decorator_list=[one for i, one in enumerate(node.decorator_list) if i != index])


def other_call(node: ast.AST) -> Iterator[ast.AST]:
    """An argument less, two arguments exchanged, or the call left out."""
    if not isinstance(node, ast.Call):
        return
    for index in range(len(node.keywords)):
        yield _with(node, keywords=[one for i, one in enumerate(node.keywords) if i != index])
    for index in range(len(node.args)):
        yield _with(node, args=[one for i, one in enumerate(node.args) if i != index])
    if len(node.args) > 1:
        yield _with(node, args=[node.args[1], node.args[0], *node.args[2:]])
    if isinstance(node.func, ast.Attribute):
        yield node.func.value
    if node.args and not isinstance(node.args[0], ast.Starred):
        yield node.args[0]


def other_result(node: ast.AST) -> Iterator[ast.AST]:
    """None where a value was returned."""
    if isinstance(node, ast.Return) and node.value is not None:
        yield _with(node, value=ast.Constant(None))


CHANGES: dict[str, Change] = {
    "another operator": other_operator,
    "another constant": other_constant,
    "a statement less": dropped_statement,
    "branches swapped": swapped_branches,
    "a decorator less": dropped_decorator,
    "another call": other_call,
    "returns None": other_result,
}


def _with(node: ast.AST, **fields: object) -> ast.AST:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new
