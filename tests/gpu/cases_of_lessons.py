"""Each graph that a solved lesson compiles, as a case: its cells, its predictions and its checks run on the CPU."""

from __future__ import annotations

import contextlib
import copy
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
import torch.utils._pytree as pytree

from autograder import prediction
from autograder.exercises import find
from autograder.judge import judge
from case import Case
from compilescope.torch_internals.pretend_capture import Captured, capturing, copied, copy_graph
from compilescope.torch_internals.pretend_world import forget_devices

SOLUTIONS = Path(__file__).parents[2] / "solutions"
LESSONS = sorted(path for path in SOLUTIONS.glob("[0-9]*/*.py"))
SECRET = "the inputs that checks draw are the same on each machine"


@dataclass(frozen=True)
class GraphCase(Case):
    """A captured graph; its tensors, and the devices it names, go where it is run."""

    captured: Any = None

    def args(self, device: str) -> tuple[Any, ...]:
        torch.manual_seed(0)
        return tuple(_moved(one, device) for one in self.captured.values)

    def run(self, compiled: Any, args: tuple[Any, ...]) -> Any:
        with torch.inference_mode(self.captured.inference), torch.set_grad_enabled(self.captured.grad):
            result = compiled(*args)
            leaves = [one for one in pytree.tree_leaves(result) if isinstance(one, torch.Tensor) and one.requires_grad]
            if leaves and self.captured.grad:
                sum(one.float().sum() for one in leaves).backward()
        return result

    def on(self, device: str) -> GraphCase:
        return GraphCase(self.name, _on(self.captured, device), (), captured=self.captured)


@dataclass
class Collected:
    """What a solved lesson gave: its different graphs, and who compiled them."""

    cases: list[GraphCase] = field(default_factory=list)
    exercises: dict[str, int] = field(default_factory=dict)
    """Exercise to the number of graphs that its check saw compiled, also those known from elsewhere."""
    problems: list[str] = field(default_factory=list)
    """Cells that raised, and checks that the lesson's own answer did not pass."""
    left_out: list[str] = field(default_factory=list)
    """Graphs whose inputs are no plain tensors, or are too large to be kept."""


def _moved(one: Any, device: str) -> Any:
    if not isinstance(one, torch.Tensor):
        return one
    return copied(one).to(device).requires_grad_(one.requires_grad)


def _on(captured: Captured, device: str) -> torch.fx.GraphModule:
    module = copy_graph(captured.module)

    def there(value: Any) -> Any:
        return torch.device(device) if isinstance(value, torch.device) and value.type == "cpu" else value

    for node in module.graph.nodes:
        node.args, node.kwargs = pytree.tree_map(there, (node.args, node.kwargs))
        if str(node.kwargs.get("device", "")) == "cpu":  # written as text
            node.kwargs = {**node.kwargs, "device": torch.device(device)}
        node.meta.clear()
    module.recompile()
    _own_tensors(module)
    return module.to(device)


def _own_tensors(module: torch.fx.GraphModule) -> None:
    """Give it copies of its submodules, parameters and constants: those of the captured graph must not move along."""
    names = {
        str(node.target).partition(".")[0] for node in module.graph.nodes if node.op in ("get_attr", "call_module")
    }
    for name in names:
        value = getattr(module, name)
        if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
            value = copied(value).requires_grad_(value.requires_grad)
        else:
            value = copy.deepcopy(value)
        setattr(module, name, value)


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
        name = f"{lesson}/{one.function[0]}"
        if one.values is None:
            found.left_out.append(name)
            continue
        # other sizes of the same program are no other case
        kinds = [(one.dtype, one.requires_grad) if isinstance(one, torch.Tensor) else type(one) for one in one.values]
        key = f"{re.sub(r'0x[0-9a-f]+', '', one.module.code)}{kinds}{one.grad}{one.inference}"
        if key not in seen:
            seen.add(key)
            found.cases.append(GraphCase(f"{name}/{len(found.cases)}", _on(one, "cpu"), (), captured=one))


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
