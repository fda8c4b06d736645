"""Each graph that the solved lessons compile, as a case: the lesson runs on the CPU, and its graphs are collected."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.utils._pytree as pytree

from case import Case
from compilescope.torch_internals.pretend_capture import Captured, capturing, copied, copy_graph
from compilescope.torch_internals.pretend_world import forget_devices

SOLUTIONS = Path(__file__).parents[2] / "solutions"
LESSONS = sorted(path for path in SOLUTIONS.glob("[0-9]*/*.py"))


@dataclass(frozen=True)
class GraphCase(Case):
    """A captured graph; its tensors, and the devices it names, go where it is run."""

    captured: Any = None

    def args(self, device: str) -> tuple[Any, ...]:
        torch.manual_seed(0)
        return tuple(_moved(one, device) for one in self.captured.values)

    def run(self, compiled: Any, args: tuple[Any, ...]) -> Any:
        with torch.set_grad_enabled(self.captured.grad):
            result = compiled(*args)
            leaves = [one for one in pytree.tree_leaves(result) if isinstance(one, torch.Tensor) and one.requires_grad]
            if leaves and self.captured.grad:
                sum(one.float().sum() for one in leaves).backward()
        return result

    def on(self, device: str) -> GraphCase:
        return GraphCase(self.name, _on(self.captured, device), (), captured=self.captured)


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
        node.meta.clear()
    module.recompile()
    return module.to(device)


def graphs_of_lesson(path: Path) -> tuple[list[GraphCase], list[str]]:
    """The different graphs of a solved lesson, and the first lines of the cells that need a notebook to run."""
    cells = re.split(r"^# %%.*$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    code = [cell for cell in cells if any(line.strip() and not line.startswith("#") for line in cell.splitlines())]
    namespace: dict[str, Any] = {"__name__": "__main__", "display": lambda *_: None}
    failed: list[str] = []
    with (
        capturing() as captured,
        mock.patch.object(torch.cuda, "is_available", return_value=False),  # the graphs are the CPU's
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        for number, cell in enumerate(code):
            try:
                exec(_compiled(cell, f"{path.name}:{number}"), namespace)
            except Exception as error:
                failed.append(f"{cell.strip().splitlines()[0]}: {type(error).__name__}: {error}"[:200])
    torch.compiler.reset()
    forget_devices()  # a cached "there is no GPU" must not outlive the patch above
    found: dict[str, GraphCase] = {}
    for one in captured:
        if one.values is None:
            continue
        shapes = [tuple(v.shape) if isinstance(v, torch.Tensor) else v for v in one.values]
        key = f"{one.module.code}{shapes}{one.grad}"
        found.setdefault(
            key, GraphCase(f"{path.stem}/{one.function[0]}/{len(found)}", _on(one, "cpu"), (), captured=one)
        )
    return list(found.values()), failed


def _compiled(cell: str, name: str) -> Any:
    import linecache

    linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
    return compile(cell, name, "exec")
