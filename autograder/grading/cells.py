"""Which cells of a submission an exercise needs: those that define its names, and what these cells use, in order.

Names are followed as Python looks them up: what a cell uses at its top has its value from the last cell above that
binds it; what a function of it uses, from the last cell above the check. Cells that change such a value (``x += 1``,
``x[0] = 1``, ``Net.forward = f``) come along.
"""

from __future__ import annotations

import ast
import functools
import symtable
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nbformat import NotebookNode

from autograder.sandbox.visible import binds


@dataclass(frozen=True)
class Cell:
    """One code cell: its place in the notebook, its source, and names.

    `fresh`: it gives them a new value; `changes`: it changes what they hold; `now`: it uses them as it runs; `later`:
    its functions use them when they are called.
    """

    place: int
    source: str
    is_check: bool = False
    fresh: frozenset[str] = frozenset()
    changes: frozenset[str] = frozenset()
    now: frozenset[str] = frozenset()
    later: frozenset[str] = frozenset()

    @property
    def binds(self) -> frozenset[str]:
        """All names that it gives or changes."""
        return self.fresh | self.changes


def code_cells(notebook: NotebookNode) -> list[Cell]:
    """All code cells of a notebook. A cell that is no Python binds and uses nothing."""
    found = []
    for place, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            is_check = bool(cell.metadata.get("nbgrader", {}).get("grade"))
            found.append(Cell(place, cell.source, is_check, *_names(cell.source)))
    return found


def needed(cells: Sequence[Cell], names: Sequence[str], end: int) -> list[Cell]:
    """The cells above place `end` that define `names`, and what those cells use; no check cells."""
    some = [cell for cell in cells if not cell.is_check and cell.place < end]
    left = [(name, end) for name in names]
    seen: set[tuple[str, int]] = set()
    taken: dict[int, Cell] = {}
    while left:
        name, limit = left.pop()
        if (name, limit) in seen:
            continue
        seen.add((name, limit))
        for cell in _definers(some, name, limit):
            if cell.place not in taken:
                taken[cell.place] = cell
                left += [(used, cell.place) for used in cell.now | cell.changes]
                left += [(used, max(end, cell.place)) for used in cell.later]
    return [taken[place] for place in sorted(taken)]


def _definers(cells: Sequence[Cell], name: str, limit: int) -> Iterator[Cell]:
    """The last cell before `limit` that binds `name`, else the first one after it, and what changes its value."""
    above = [cell for cell in cells if cell.place < limit and name in cell.fresh]
    below = [cell for cell in cells if cell.place >= limit and name in cell.fresh]
    first = above[-1] if above else below[0] if below else None
    if first is not None:
        yield first
    start = first.place if first is not None else -1
    yield from (cell for cell in cells if start < cell.place < max(limit, start) and name in cell.changes)


def whole(cells: Sequence[Cell], end: int) -> list[Cell]:
    """All cells above place `end` but the checks."""
    return [cell for cell in cells if not cell.is_check and cell.place < end]


def own_cells(cells: Sequence[Cell], released: NotebookNode) -> set[int]:
    """Places of the cells that the learner wrote or changed."""
    known = {cell.source.strip() for cell in released.cells if cell.cell_type == "code"}
    return {cell.place for cell in cells if cell.source.strip() not in known}


def _names(source: str) -> tuple[frozenset[str], ...]:
    """`fresh`, `changes`, `now`, `later` of a cell's source; most cells of a class are the same, and short."""
    return _remembered(source) if len(source) < SHORT else _read(source)


def _read(source: str) -> tuple[frozenset[str], ...]:
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        text = TransformerManager().transform_cell(source)
        tree, table = ast.parse(text), symtable.symtable(text, "cell", "exec")
        bound = frozenset().union(*(binds(statement) for statement in tree.body))
        used = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
        later = frozenset(_global_uses(table))
        fresh = frozenset(name for statement in tree.body for name in _fresh(statement))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return (frozenset(),) * 4
    return fresh, bound - fresh, frozenset(used) - fresh | _reused(tree, fresh), later - fresh


_remembered = functools.lru_cache(maxsize=2048)(_read)
SHORT = 20_000
"""Characters of a cell whose names are remembered: a class of huge ones must not fill the memory."""


def _fresh(statement: ast.stmt) -> set[str]:
    """Names that a statement gives a value of their own: all that it binds, but for ``x += 1`` and ``x.y = 1``."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)):
        return binds(statement)
    added = {node.target.id for node in ast.walk(statement) if _adds(node)}  # type: ignore[attr-defined]
    stored = (node for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    inner = set().union(
        *(binds(node) for node in ast.walk(statement) if isinstance(node, (ast.FunctionDef, ast.ClassDef)))
    )
    return ({node.id for node in stored} - added) | inner


def _adds(node: ast.AST) -> bool:
    return isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)


def _reused(tree: ast.Module, fresh: frozenset[str]) -> frozenset[str]:
    """Names that a cell uses before it gives them a new value: ``f = compile(f)``."""
    done: set[str] = set()
    found: set[str] = set()
    for statement in tree.body:
        if not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            found |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)
                      and isinstance(node.ctx, ast.Load)} & fresh - done  # fmt: skip
        done |= _fresh(statement)
    return frozenset(found)


def _global_uses(table: symtable.SymbolTable) -> Iterator[str]:
    """Global names that functions, classes and comprehensions inside use."""
    for inner in table.get_children():
        for symbol in inner.get_symbols():
            if symbol.is_global() and symbol.is_referenced():
                yield symbol.get_name()
        yield from _global_uses(inner)
