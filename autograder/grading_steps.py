"""Two steps for `nbgrader autograde`, named in nbgrader_config: what learners do to cells and kernels stops nobody.

nbgrader 0.9.6 gives up the whole class at a copied check cell, waits for a person for ever at a deleted one, and drops
a submission whose kernel dies.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_output
from nbgrader.api import Gradebook
from nbgrader.api import Notebook as NotebookRow
from nbgrader.preprocessors import Execute, NbGraderPreprocessor
from traitlets import Bool, Float

from autograder.mending import mend_cells
from autograder.sandbox.kernel import WHOLE_NOTEBOOK, SandboxedKernelManager
from autograder.sandbox.limits import SAID
from autograder.sandbox.required import SandboxError, require_sandbox

DEATHS = 5
"""Cells of one submission that may end their kernel; each costs a run from the top."""
LOOK = "Look for exit(), endless recursion or too much memory."
LEFT_OUT = {
    "cell": ("did not stop when it was interrupted", LOOK),
    "wall": ("took the rest of the notebook's time", "Look for endless loops and long waits."),
    "late": ("came after the notebook had taken its time", "Look for endless loops and long waits above."),
    "output": (SAID["output"], "Look for a print() in a loop."),
}
"""Why a cell was left out to what is said of it, and where to look; all else is in `SAID`."""


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


class RunToTheEnd(Execute):
    """nbgrader's Execute, in the sandbox, for submissions that end their kernel: that cell fails, the others run."""

    sandboxed = Bool(True, help="Whether the kernel runs in the sandbox; without it, run only what you trust").tag(
        config=True
    )
    whole_notebook = Float(WHOLE_NOTEBOOK, help="Seconds that a notebook may take in the sandbox").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Any, **options: Any) -> tuple[NotebookNode, Any]:
        """Run all cells of `nb`, in a sandbox unless `sandboxed` says otherwise; what a check cell shows comes from it.

        A machine without a sandbox ends nbgrader with one sentence, and the submission stays as it was.
        """
        self._verdicts: Path | None = None
        if not self.sandboxed:
            return self._to_the_end(nb, resources, **options)
        try:
            require_sandbox("--RunToTheEnd.sandboxed=False")
        except SandboxError as error:
            self.log.error(str(error))
            shutil.rmtree(resources["metadata"]["path"])  # else nbgrader takes it for graded
            raise SystemExit(1) from None
        with tempfile.TemporaryDirectory(prefix="course-verdicts-") as folder:
            self._verdicts = Path(folder, "verdicts.jsonl")
            self.kernel_manager_class = SandboxedKernelManager
            return self._to_the_end(nb, resources, **options)

    def _to_the_end(self, nb: NotebookNode, resources: Any, **options: Any) -> tuple[NotebookNode, Any]:
        """After a death it starts again from the top and leaves the deadly cell out, while there is time left."""
        self._left_out: set[int] = set()
        self._ran: set[int] = set()
        until = time.monotonic() + self.whole_notebook
        while True:
            self._at = -1
            if self._verdicts is not None:
                seconds = max(1.0, until - time.monotonic())
                lesson = resources["nbgrader"]["assignment"]
                self.extra_arguments = [f"--lesson={lesson}", f"--verdicts={self._verdicts}", f"--seconds={seconds}"]
            try:
                done: tuple[NotebookNode, Any] = super().preprocess(nb, resources, **options)
                return done
            except (RuntimeError, CellTimeoutError) as error:  # a kernel that dies while it starts is a RuntimeError
                why = "cell" if isinstance(error, CellTimeoutError) else self._why_ended()
                student = resources.get("nbgrader", {}).get("student", "?")
                if why == "wall":
                    self.log.warning("%s: %s", student, self._out_of_time(nb))
                    return nb, resources
                if self._at < 0 or not isinstance(error, (DeadKernelError, CellTimeoutError)):
                    raise  # no cell's fault
                self._leave_out(nb.cells[self._at], why)
                self.log.warning("%s: %s", student, nb.cells[self._at].outputs[0].evalue)
                deadly = [self._at] if len(self._left_out) < DEATHS else range(self._at, len(nb.cells))
                self._left_out.update(deadly)

    def _out_of_time(self, nb: NotebookNode) -> str:
        """Leave out the cell that runs and all that never ran; the sentence for the instructor.

        What an earlier kernel ran keeps its outputs: verdicts in them came from outside. A check without any output
        would get full points.
        """
        for place, cell in enumerate(nb.cells):
            if cell.cell_type == "code" and (place == self._at or not (place in self._ran or cell.outputs)):
                self._leave_out(cell, "wall" if place == self._at else "late")
        return f"the notebook took longer than {self.whole_notebook:.0f} s, so the cells that were left did not run."

    def _why_ended(self) -> str:
        """A key of `SAID`: why the kernel that died is dead."""
        return next((str(line["ended"]) for line in reversed(self._said()) if "ended" in line), "") or "ended"

    def preprocess_cell(self, cell: NotebookNode, resources: Any, index: int) -> tuple[NotebookNode, Any]:
        """Run one cell, unless it has ended a kernel before; after too many deaths none of the rest runs."""
        if index in self._left_out:
            if cell.cell_type == "code" and not cell.outputs:
                self._leave_out(cell, "ended")
            return cell, resources
        self._at = index
        before = len(self._judged())
        run: tuple[NotebookNode, Any] = super().preprocess_cell(cell, resources, index)
        marks = cell.metadata.get("nbgrader", {})
        if self._verdicts is not None and marks.get("grade") and cell.cell_type == "code":
            self._put_verdict(cell, marks["grade_id"].removesuffix("_check"), self._judged()[before:])
        self._ran.add(index)
        return run

    def _judged(self) -> list[dict[str, Any]]:
        """What the grader outside the kernel has judged so far."""
        return [line for line in self._said() if "exercise" in line]

    def _said(self) -> list[dict[str, Any]]:
        """All that this submission's kernels left in `_verdicts`."""
        if self._verdicts is None or not self._verdicts.exists():
            return []
        return [json.loads(line) for line in self._verdicts.read_text("utf-8").splitlines()]

    def _put_verdict(self, cell: NotebookNode, exercise: str, judged: list[dict[str, Any]]) -> None:
        """A check cell shows what was judged while it ran, or the error that it raised, and nothing else."""
        from autograder.grading.gradebook import check_output

        rulings = {verdict["exercise"]: verdict for verdict in judged}
        errors = [output for output in cell.outputs if output.output_type == "error"]
        if exercise in rulings or not errors:
            cell.outputs = [check_output(exercise, rulings, "The check did not reach the grader.")]
        else:
            cell.outputs = errors[-1:]

    def _leave_out(self, cell: NotebookNode, why: str) -> None:
        """One sentence in place of what a cell would have shown; `why` is a key of `SAID`."""
        first = cell.source.splitlines()[0] if cell.source else "an empty cell"
        what, look = LEFT_OUT.get(why, (SAID.get(why, SAID["ended"]), LOOK))
        sentence = f"{first} {what}, so it was left out. {look}"
        cell.outputs = [new_output("error", ename="KernelDied", evalue=sentence, traceback=[f"✗ {sentence}"])]
