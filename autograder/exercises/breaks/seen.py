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


BACKEND = "eager"
"""For a check that compiles the answer itself and asks only what Dynamo captures: that is the same for any backend."""


def captured(label: str, fn: Any, backend: str = BACKEND) -> Callable[..., Any]:
    """`fn`, with nothing of it compiled yet, so that its calls are captured. NotYet if it is no function."""
    if not callable(fn):
        called(label, fn)
    torch.compiler.reset()
    return torch.compile(fn, backend=backend)


def call_of(fn: Callable[..., Any], *args: Any) -> Values:
    """What one call of a `captured` function did: `run`, `result`, and `outside`.

    `outside` holds the names of the ATen operations that a further such call runs outside its graphs.
    """
    run = observe(fn, *args)
    return {"run": run, "result": run.result, "outside": list(eager_operations(fn, *args))}


def one_graph(found: Values, label: str, *, again: bool = False) -> None:
    """NotYet unless one graph holds every operation, and nothing goes back to Python.

    A call that is made `again` needs no graph of its own.
    """
    run: Run = found["run"]
    if run.graphs or not again:
        graphs_made(run, label, 1)
    no_break(run, label)
    no_stranger(run, label)
    if found["outside"]:
        raise NotYet(
            label,
            f"ran {len(found['outside'])} operations outside its graph ({found['outside'][0]}, …)",
            "all of them belong inside",
            "Look at which function you compile.",
        )


def by_aot_eager(run: Run, label: str) -> None:
    """NotYet if the graphs were run as they are, or compiled by Inductor, where the exercise asks for aot_eager."""
    wanted = 'backend="aot_eager" is wanted'
    try:
        really_compiled(run, label)
    except NotYet as told:
        raise NotYet(told.ran, told.got, wanted, told.look) from None
    if run.code:
        raise NotYet(label, "was compiled by Inductor", wanted, "Look at backend= in torch.compile.")


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
