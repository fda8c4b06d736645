"""What the exercises on graph breaks report of a call, and what they want of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from autograder.exercise import NotYet, Values
from autograder.judging import called, eager_operations, graphs_made, really_compiled
from compilescope import observe
from compilescope.facts import Graph, Run

_OWN = ("torch.", "Tensor.", "operator.", "_operator.", "math.", "builtins.", "higher_order.", "aten.", "prims.")


def compiled_call(label: str, fn: Callable[..., Any], *args: Any, fullgraph: bool = False) -> Values:
    """What the first call of ``torch.compile(fn, backend="aot_eager")`` did: `run`, `result`, and `outside`.

    `outside` holds the names of the ATen operations that a second call runs outside its graphs.
    """
    if not callable(fn):
        called(label, fn)
    return first_call_of(torch.compile(fn, backend="aot_eager", fullgraph=fullgraph), *args)


def first_call_of(fn: Callable[..., Any], *args: Any) -> Values:
    """`run`, `result` and `outside`, as in `compiled_call`, of a function that is compiled already."""
    torch.compiler.reset()
    run = observe(fn, *args)
    return {"run": run, "result": run.result, "outside": list(eager_operations(fn, *args))}


def one_graph(found: Values, label: str) -> None:
    """NotYet unless one graph, compiled by a backend, holds every operation, and nothing goes back to Python."""
    run: Run = found["run"]
    graphs_made(run, label, 1)
    really_compiled(run, label)
    no_break(run, label)
    no_stranger(run, label)
    if found["outside"]:
        raise NotYet(
            label,
            f"ran {len(found['outside'])} operations outside its graph ({found['outside'][0]}, …)",
            "all of them belong inside",
            "Look at which function you compile.",
        )


def no_break(run: Run, label: str) -> None:
    """NotYet if the call went back to Python anywhere, also where no graph follows."""
    if not run.breaks:
        return
    stop = run.breaks[0]
    at = f"at line {stop.source.line}, {stop.source.code.strip()}" if stop.source else f"({stop.reason})"
    raise NotYet(label, f"went back to Python {at}", "no break is wanted", f"Look up {stop.gb or stop.reason}.")


def no_stranger(run: Run, label: str) -> None:
    """NotYet if a graph holds an operation that is not PyTorch's own: what runs in it, nobody compiles."""
    for target in calls_of(run):
        if is_custom(target):
            raise NotYet(label, f"hides work in {target}", "PyTorch's own operations are wanted", "Look at the graph.")


def is_custom(target: str) -> bool:
    """True for a custom operator, or a function that Dynamo was told not to read."""
    return not target.startswith(_OWN)


def calls_of(run: Run) -> list[str]:
    """Targets of all operations of the Dynamo graphs and of the bodies in them, in order."""
    return [target for graph in run.graphs for target in _targets(graph)]


def _targets(graph: Graph) -> list[str]:
    inner = [target for body in graph.inner for target in _targets(body)]
    return [node.target for node in graph.calls()] + inner
