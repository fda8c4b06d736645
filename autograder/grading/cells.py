"""Which cells of a submission an exercise needs: those that define its names, and what these cells use, in order."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from nbformat import NotebookNode

from autograder.sandbox.visible import binds


@dataclass(frozen=True)
class Cell:
    """One code cell: its place in the notebook, its source, and the names that it binds and mentions."""

    place: int
    source: str
    binds: frozenset[str]
    uses: frozenset[str]
    is_check: bool


def code_cells(notebook: NotebookNode) -> list[Cell]:
    """All code cells of a notebook. A cell that is no Python binds and mentions nothing."""
    found = []
    for place, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            bound, used = _names(cell.source)
            is_check = bool(cell.metadata.get("nbgrader", {}).get("grade"))
            found.append(Cell(place, cell.source, frozenset(bound), frozenset(used), is_check))
    return found


def needed(cells: Sequence[Cell], names: Sequence[str]) -> list[Cell]:
    """The cells that define `names`, and, transitively, the names that those cells mention; no check cells.

    A name bound in several cells brings them all: the last one wins, as in a notebook that runs from top to bottom.
    """
    wanted = set(names)
    taken: set[int] = set()
    grown = True
    while grown:
        grown = False
        for cell in cells:
            if cell.place not in taken and not cell.is_check and cell.binds & wanted:
                taken.add(cell.place)
                wanted |= cell.uses
                grown = True
    return [cell for cell in cells if cell.place in taken]


def whole(cells: Sequence[Cell]) -> list[Cell]:
    """All cells but the checks."""
    return [cell for cell in cells if not cell.is_check]


def own_cells(cells: Sequence[Cell], released: NotebookNode) -> set[int]:
    """Places of the cells that the learner wrote or changed."""
    known = {cell.source.strip() for cell in released.cells if cell.cell_type == "code"}
    return {cell.place for cell in cells if cell.source.strip() not in known}


def _names(source: str) -> tuple[set[str], set[str]]:
    from IPython.core.inputtransformer2 import TransformerManager

    bound: set[str] = set()
    used: set[str] = set()
    try:
        tree = ast.parse(TransformerManager().transform_cell(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return bound, used
    for statement in tree.body:
        bound |= binds(statement)
    try:
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    except RecursionError:
        used = set()
    return bound, used
