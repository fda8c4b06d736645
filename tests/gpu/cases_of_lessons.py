"""Each graph that a solved lesson compiles, as a case: its cells, its predictions and its checks run on the CPU."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import linecache
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from autograder import prediction
from autograder.exercises import find
from autograder.judge import judge
from compilescope.torch_internals.pretend_capture import Captured, capturing
from compilescope.torch_internals.pretend_world import forget_devices

SOLUTIONS = Path(__file__).parents[2] / "solutions"
LESSONS = sorted(path for path in SOLUTIONS.glob("[0-9]*/*.py"))
SECRET = "the inputs that checks draw are the same on each machine"


@dataclass(frozen=True)
class GraphCase:
    """A graph that a lesson compiled, as Dynamo handed it over."""

    name: str
    captured: Captured


@dataclass
class Collected:
    """What a solved lesson gave: its different graphs, and who compiled them."""

    cases: list[GraphCase] = field(default_factory=list)
    exercises: dict[str, int] = field(default_factory=dict)
    """Exercise to the number of graphs that its check saw compiled, also those known from elsewhere."""
    problems: list[str] = field(default_factory=list)
    """Cells that raised, and checks that the lesson's own answer did not pass."""


def graphs_of_lesson(path: Path) -> Collected:
    """The different graphs that the solved lesson compiles from its first cell to its last check."""
    found = Collected()
    namespace: dict[str, Any] = {"__name__": "__main__", "display": lambda *_: None}
    with capturing() as captured:

        def check(name: str) -> None:
            before = len(captured)
            verdict = judge(find(name), namespace)
            found.exercises[name] = len(captured) - before
            if not verdict.passed:
                found.problems.append(f"{name}: {verdict.sentence}")

        with _as_in_a_notebook(check):
            for cell in _cells(path):
                try:
                    exec(_compiled(cell, path.name), namespace)
                except Exception as error:
                    found.problems.append(f"{cell.strip().splitlines()[0]}: {type(error).__name__}: {error}"[:300])
    torch.compiler.reset()
    forget_devices()  # a cached "there is no GPU" must not outlive the patch
    _add_cases(path.stem, captured, found)
    return found


def _add_cases(lesson: str, captured: list[Captured], found: Collected) -> None:
    seen: set[str] = set()
    for one in captured:
        # other sizes of the same program are no other case; nor is another mode, in which a benchmark would decide
        kinds = [(v.dtype, v.requires_grad) if isinstance(v, torch.Tensor) else type(v) for v in one.inputs]
        key = f"{re.sub(r'0x[0-9a-f]+', '', one.module.code)}{kinds}{one.grad}{one.inference}"
        if key not in seen:
            seen.add(key)
            name = f"{lesson}/{one.function[0]}/{len(found.cases)}"
            found.cases.append(GraphCase(name, dataclasses.replace(one, options={})))


@contextlib.contextmanager
def _as_in_a_notebook(check: Callable[[str], None]) -> Iterator[None]:
    """Cells call this `check`, and `predict` runs its code at once; quiet, without a GPU, in an empty folder."""
    here = Path.cwd()
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch("autograder.check", check))
        stack.enter_context(mock.patch.object(prediction, "show_prediction", lambda _, __, compute: compute()))
        stack.enter_context(mock.patch.object(torch.cuda, "is_available", return_value=False))  # the CPU's graphs
        stack.enter_context(mock.patch.dict(os.environ, {"COURSE_SECRET": SECRET}))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.callback(os.chdir, here)
        os.chdir(stack.enter_context(tempfile.TemporaryDirectory()))
        yield


def _cells(path: Path) -> list[str]:
    cells = re.split(r"^# %%.*$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [cell for cell in cells if any(line.strip() and not line.startswith("#") for line in cell.splitlines())]


def _compiled(cell: str, lesson: str) -> Any:
    name = f"{lesson}:{abs(hash(cell)):x}"
    linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
    return compile(cell, name, "exec")
