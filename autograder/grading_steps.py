"""Two steps for `nbgrader autograde`, named in nbgrader_config: what learners do to cells and kernels stops nobody.

nbgrader 0.9.6 gives up the whole class at a copied check cell, waits for a person for ever at a deleted one, and drops
a submission whose kernel dies.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from nbgrader.api import Gradebook
from nbgrader.api import Notebook as NotebookRow
from nbgrader.preprocessors import Execute, NbGraderPreprocessor

DEATHS = 5
"""Cells of one submission that may end their kernel; each costs a run from the top."""


class MendCells(NbGraderPreprocessor):
    """Exercise and check cells as they were released: copies are plain cells, deleted checks come back."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Mend `nb` in memory and log one sentence for each problem; the submission on disk stays."""
        names = resources["nbgrader"]
        with Gradebook(names["db_url"]) as gradebook:
            released = released_cells(gradebook.find_notebook(names["notebook"], names["assignment"]))
        for sentence in mend_cells(nb, released):
            self.log.warning("%s: %s", names["student"], sentence)
        return nb, resources


def released_cells(row: NotebookRow) -> list[NotebookNode]:
    """The exercise and check cells of a notebook in the gradebook, in order, with nbgrader's metadata."""
    points = {cell.name: cell.max_score for cell in row.grade_cells}
    solutions = {cell.name for cell in row.solution_cells}
    cells = []
    for source in row.source_cells:
        cell = new_code_cell(source.source)
        cell.metadata.nbgrader = NotebookNode(
            cell_type=source.cell_type,
            checksum=source.checksum,
            grade=source.name in points,
            grade_id=source.name,
            locked=source.locked,
            schema_version=3,
            solution=source.name in solutions,
            task=False,
        )
        if source.name in points:
            cell.metadata.nbgrader.points = points[source.name]
        cells.append(cell)
    return cells


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


class RunToTheEnd(Execute):
    """nbgrader's Execute, for submissions that end their kernel: that cell fails, the others run without it."""

    def preprocess(self, nb: NotebookNode, resources: Any, **options: Any) -> tuple[NotebookNode, Any]:
        """Run all cells of `nb`. After a death it starts again from the top and leaves the deadly cell out."""
        self._left_out: set[int] = set()
        while True:
            self._at = -1
            try:
                done: tuple[NotebookNode, Any] = super().preprocess(nb, resources, **options)
                return done
            except (DeadKernelError, CellTimeoutError) as error:
                if self._at < 0:  # no cell's fault: the kernel did not even start
                    raise
                self._leave_out(nb.cells[self._at], isinstance(error, DeadKernelError))
                student = resources.get("nbgrader", {}).get("student", "?")
                self.log.warning("%s: %s", student, nb.cells[self._at].outputs[0].evalue)
                deadly = [self._at] if len(self._left_out) < DEATHS else range(self._at, len(nb.cells))
                self._left_out.update(deadly)

    def preprocess_cell(self, cell: NotebookNode, resources: Any, index: int) -> tuple[NotebookNode, Any]:
        """Run one cell, unless it has ended a kernel before; after too many deaths none of the rest runs."""
        if index in self._left_out:
            if cell.cell_type == "code" and not cell.outputs:
                self._leave_out(cell, died=True)
            return cell, resources
        self._at = index
        run: tuple[NotebookNode, Any] = super().preprocess_cell(cell, resources, index)
        return run

    def _leave_out(self, cell: NotebookNode, died: bool) -> None:
        first = cell.source.splitlines()[0] if cell.source else "an empty cell"
        what = "ended the Python process" if died else "did not stop when it was interrupted"
        sentence = f"{first} {what}, so it was left out. Look for exit(), endless recursion or too much memory."
        cell.outputs = [new_output("error", ename="KernelDied", evalue=sentence, traceback=[f"✗ {sentence}"])]
