"""Exercise and check cells of a notebook as they were released, whatever a learner did to them; without nbgrader."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell


def mend_cells(notebook: NotebookNode, released: Sequence[NotebookNode]) -> list[str]:
    """Give each cell in `released` exactly one place in `notebook`, in place; one sentence for each problem.

    Of a copied cell the last counts, as in nbgrader. A deleted check runs at the end, where all answers are defined.
    """
    known = {cell.metadata.nbgrader.grade_id: cell for cell in released}
    seen: set[str] = set()
    said = []
    for cell in reversed(notebook.cells):
        marks = cell.metadata.pop("nbgrader", None)
        name = str(marks.get("grade_id") or "") if isinstance(marks, dict) else ""
        if name in seen:
            said.append(f"{name} is there more than once; the last one counts.")
        elif name in known:
            seen.add(name)
            cell.metadata.nbgrader = copy.deepcopy(known[name].metadata.nbgrader)
        elif name:
            said.append(f"{name} belongs to no exercise of this lesson; the cell runs and is not graded.")
    for name, cell in known.items():
        if name not in seen and cell.metadata.nbgrader.grade:
            note = f"`{name}` was missing from this notebook. It was put back here and ran."
            notebook.cells += [new_markdown_cell(note), copy.deepcopy(cell)]
            said.append(f"{name} was deleted; it was put back at the end.")
    return said
