"""What the checks of lesson 4 share: many calls in one run, and what they may cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from autograder.exercise import NotYet, Values
from autograder.judging import called, eager_operations, really_compiled
from compilescope import observe
from compilescope.facts import Run
from compilescope.text import count, describe_refusal

OF_TORCH = ("aten", "prims", "prim", "torch", "higher_order")
"""Namespaces of operators that torch itself brings; another one is a custom operator, opaque to the compiler."""

COMPILED = ("hit", "first compile", "recompile")


def each_call(label: str, fn: Any, inputs: Iterable[tuple[Any, ...]]) -> Values:
    """``run`` and ``results`` of one call for each of the inputs, nothing compiled before."""
    torch.compiler.reset()
    return observed(label, fn, inputs)


def observed(label: str, fn: Any, inputs: Iterable[tuple[Any, ...]]) -> Values:
    """``run`` and ``results`` of one call for each of the inputs; what was compiled stays."""
    if not callable(fn):
        called(label, fn)
    with observe() as run:
        results = [fn(*one) for one in inputs]
    return {"run": run, "results": results}


def compiles(run: Run) -> int:
    """How often a graph was captured."""
    return sum(bool(one.graphs) for one in run.compiles)


def always_compiled(run: Run, label: str, calls: int) -> None:
    """NotYet unless compiled code was called at least `calls` times, and answered each time."""
    unbroken(run, label)
    plain = [call for call in run.calls if call.outcome not in COMPILED]
    if plain and run.not_compiled:
        reason = run.not_compiled[0]
        look = f"The limit is reached. The guard: {refusal(run)}." if reason.kind == "limit" else reason.reason
        raise NotYet(label, "ran as plain Python", "compiled code is wanted each time", look)
    answered = len(run.calls) - len(plain)
    if answered < calls:
        raise NotYet(
            label,
            f"ran compiled code in {answered} of {count(calls, 'call')}",
            "all of them are wanted",
            "Look at what your function calls.",
        )


def unbroken(run: Run, label: str) -> None:
    """NotYet if a graph was only captured, or broken, or hides a custom operator: that work runs as plain Python."""
    really_compiled(run, label)
    for _, node in run.walk_nodes("dynamo"):
        space, *rest = node.target.split(".")
        if node.op == "call" and len(rest) == 2 and rest[1] == "default" and space not in OF_TORCH:
            hides = f"hides its work in the operator {node.target}"
            raise NotYet(label, hides, "torch's own operations are wanted", "Look at the graph: show(run).")
    if run.breaks:
        one = run.breaks[0]
        at = f"line {one.source.line}, {' '.join(one.source.code.split()[:12])}" if one.source else one.reason
        raise NotYet(label, "broke its graph", "no break is wanted", f"Dynamo stopped at {at}, {one.gb}.")


def compiles_at_most(run: Run, label: str, most: int, calls: int) -> None:
    """NotYet with the guard that failed last, if the calls cost more than `most` compiles."""
    found = compiles(run)
    if found > most:
        raise NotYet(
            label,
            f"compiled {'once' if found == 1 else f'{found} times'} in {count(calls, 'call')}",
            f"{'none is' if not most else f'at most {most} are' if most > 1 else 'one is'} wanted",
            f"The guard: {refusal(run)}.",
        )


def refusal(run: Run, which: int = -1) -> str:
    """The guard that refused last (or first, with 0), in at most 16 words."""
    said = [describe_refusal(call.refusals[0]) for call in run.calls if call.refusals and call.outcome != "hit"]
    if not said:
        return "there was nothing in the cache"
    return " ".join(said[which].split()[:16]).rstrip(".")


def not_outside(label: str, outside: Iterable[str], reference: Callable[..., Any], *args: Any) -> None:
    """NotYet if an operation of `reference` ran outside compiled code; copying and padding may stay there."""
    computed = set(eager_operations(reference, *args))
    for name in outside:
        if name in computed:
            raise NotYet(
                label,
                f"ran {name} outside its graph",
                "computing belongs inside",
                "Look at which function you compile.",
            )
