"""What checks share: facts of one call, and the first one that is not as it should be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.autograd import profiler

from autograder.exercise import NotYet
from autograder.wire import Opaque
from compilescope import observe
from compilescope.facts import Run

REGION = "Torch-Compiled Region"
"""Name under which torch's profiler files what runs inside a compiled graph (2.11 to 2.15)."""


def called(label: str, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What ``fn(*args, **kwargs)`` returns; what it raises passes. NotYet if `fn` is no function."""
    if not callable(fn):
        raise NotYet(
            label, f"is {kind_of(fn)}", "a function is wanted", "Look at your return line: leave the call out."
        )
    return fn(*args, **kwargs)


def first_call(label: str, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Run:
    """The Run of a first call, nothing compiled before; its value is ``run.result``. NotYet if `fn` is no function.

    Nobody's stance is touched: one that keeps `fn` eager is one of the facts.
    """
    torch.compiler.reset()
    if not callable(fn):
        called(label, fn)
    return observe(fn, *args, **kwargs)


def graphs_made(run: Run, label: str, wanted: int) -> None:
    """NotYet unless the call captured exactly `wanted` graphs."""
    found = len(run.graphs)
    if found == wanted:
        return
    times = "1 graph" if found == 1 else f"{found} graphs"
    raise NotYet(label, f"made {times}", f"this exercise wants {wanted}", _why(run, found))


def really_compiled(run: Run, label: str) -> None:
    """NotYet if a graph was captured and then run as it is: ``backend="eager"``."""
    for compiled in run.compiles:
        if compiled.graph("dynamo") and not any(compiled.graph(stage) for stage in ("forward", "inference")):
            raise NotYet(
                label,
                "captured a graph and compiled nothing of it",
                'backend "aot_eager" or "inductor" is wanted',
                "Look at backend= in torch.compile.",
            )


def eager_operations(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[str, ...]:
    """ATen operations that a further call runs outside compiled code, outermost only, in order.

    Call it once `fn` is warm: a compile runs operations of its own. Source: torch's profiler.
    """
    with profiler.profile(use_kineto=False) as seen:
        fn(*args, **kwargs)
    return tuple(
        event.name
        for event in seen.function_events or ()
        if event.name.startswith("aten::")
        and not any(parent.name.startswith((REGION, "aten::")) for parent in _parents(event))
    )


def all_compiled(label: str, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """NotYet if a call of the warm `fn` still runs operations outside its graphs."""
    none_outside(label, eager_operations(fn, *args, **kwargs))


def none_outside(label: str, outside: Sequence[str]) -> None:
    """NotYet if there are any: what `eager_operations` reported of a warm call."""
    if outside:
        raise NotYet(
            label,
            f"ran {len(outside)} operations outside its graph ({outside[0]}, …)",
            "all of them belong inside",
            "Look at which function you compile.",
        )


def operations(run: Run) -> Counter[str]:
    """How often each operation stands in the Dynamo graphs of a run, by target (``torch.log``)."""
    return Counter(node.target for _, node in run.walk_nodes("dynamo") if node.op == "call")


def graphs_hold(label: str, run: Run, wanted: Run) -> None:
    """NotYet unless the graphs of `run` hold at least the operations of `wanted`, our own run of the same work.

    What hides in a custom operator, in a thread or behind a graph that only looks like it is not among them.
    """
    missing = operations(wanted) - operations(run)
    if missing:
        raise NotYet(
            label,
            f"has {next(iter(missing))} in none of its graphs",
            "the work itself belongs inside",
            "Look at the graph: show(run).",
        )


def beside(x: torch.Tensor) -> torch.device:
    """To enter with ``with``: what an answer makes there without naming a device is made where `x` is.

    The cells of a lesson compute on the CPU, and ``torch.zeros(3)`` is a right way to write it there: a GPU must not
    refuse it. Enter it once around all calls of an answer, since Dynamo guards the default device; it is entered on
    the CPU, too, so that both see the same. Two places forget it: a custom operator, for which torch switches it off,
    and up to torch 2.11 compiled code for all but zeros, ones and full. Statements of such exercises name the device.
    """
    return x.device


def exact(x: torch.Tensor) -> torch.Tensor:
    """`x` in float64 on the CPU, without its history: a judge computes its references there, GPU or not."""
    return x.detach().cpu().double()


def same_numbers(label: str, got: Any, want: torch.Tensor, dtype: torch.dtype | None = None) -> None:
    """NotYet unless `got` equals `want`, a float64 reference, up to the rounding of `dtype` (default: `got`'s own).

    Both may be on any device: where an answer's numbers are is no fact of a machine without a GPU.
    """
    if not isinstance(got, torch.Tensor):
        raise NotYet(label, f"returned {kind_of(got)}", "a tensor is wanted", "Look at your return line.")
    if got.shape != want.shape:
        sizes = f"returned shape {tuple(got.shape)}", f"{tuple(want.shape)} is wanted"
        raise NotYet(label, *sizes, "Look at sizes that you wrote as numbers.")
    want = exact(want)
    size = float(want.abs().max()) if want.numel() else 0.0
    allowed = 200 * torch.finfo(dtype or got.dtype).eps * max(size, 1e-3) if got.is_floating_point() else 0.0
    error = float((exact(got) - want).abs().max()) if want.numel() else 0.0
    if not error <= allowed:  # NaN fails, too
        off = f"is off by {error:.1e} from the float64 result", f"rounding explains {allowed:.0e}"
        raise NotYet(label, *off, "Look at what it computes, without torch.compile first.")


def _why(run: Run, found: int) -> str:
    if found == 0 and run.not_compiled:
        one = run.not_compiled[0]
        return f"{one.reason} {one.remedy}"
    if found == 0:
        return "Look at what you call: torch.compile(f) leaves f as it is and returns the compiled function."
    if run.breaks:
        one_break = run.breaks[0]
        at = f"line {one_break.source.line}, {one_break.source.code.strip()}" if one_break.source else one_break.reason
        return f"Dynamo stopped at {at}" + (f", {one_break.gb}." if one_break.gb else ".")
    return f"Look at what is compiled: {', '.join(dict.fromkeys(one.function for one in run.compiles))}."


def _parents(event: Any) -> Iterator[Any]:
    while event := event.cpu_parent:
        yield event


def kind_of(value: Any) -> str:
    """``None``, or the type of a value in words: ``a list``."""
    return "None" if value is None else f"a {value.kind if isinstance(value, Opaque) else type(value).__name__}"
