"""What a process ran, in order: compiled graphs, and collectives in and between them."""

from __future__ import annotations

import contextlib
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from torch.autograd import profiler

REGION = "Torch-Compiled Region: "
"""Name under which torch's profiler files what runs inside compiled code, with the compile id (2.11 to 2.15)."""
NAMES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "alltoall": "all_to_all",
}
"""Operator that PyTorch dispatches (``c10d::allreduce_``), bare, to the name that a program uses."""
_COLLECTIVE = re.compile(r"^c10d::_?(\w+)")
_BACKEND = re.compile(r"^(?:gloo|nccl):_?(\w+)")


@contextlib.contextmanager
def watching_flow(flow: list[dict[str, Any]]) -> Iterator[None]:
    """Fill `flow` with what the block ran: dicts with ``kind``, ``name``, ``part``, ``inside``, ``elements``.

    Graphs that only ran while they were being compiled (on pretended tensors) are left out. Leans on the names of
    ``torch.autograd.profiler``'s events: regions, ``CompiledFunction``, ``CompiledFunctionBackward``, ``c10d::…``
    (2.13; others by ``make matrix``). A block that profiles itself leaves `flow` empty.
    """
    watch = profiler.profile(use_kineto=False, record_shapes=True)
    try:
        watch.__enter__()
    except RuntimeError:  # somebody's profiler is already on
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(Exception):  # facts of the flow are worth less than what the block raised
            watch.__exit__(None, None, None)
            flow.extend(_flow_of(list(watch.function_events or ())))


def _flow_of(events: list[Any]) -> list[dict[str, Any]]:
    events.sort(key=lambda event: event.time_range.start)
    moved = _moved(events)
    found: list[dict[str, Any]] = []
    stack: list[tuple[str, int]] = []
    for event in events:
        if event.name.startswith(REGION):
            found += _ran(event, stack)
        elif event.name == "CompiledFunctionBackward":
            name, part = stack.pop() if stack else ("", 0)
            found.append({"kind": "backward", "name": name, "part": part})
        elif (match := _COLLECTIVE.match(event.name)) and not _nested(event, _COLLECTIVE.match):
            name = _plain(match[1])
            inside = _nested(event, lambda name: name.startswith((REGION, "CompiledFunction")))
            many = next(moved[name], None)
            found.append({"kind": "collective", "name": name, "inside": inside, "elements": many})
    return found


def _ran(region: Any, stack: list[tuple[str, int]]) -> list[dict[str, Any]]:
    """The graphs of this region itself: several where DDP cut it, none where it only calls other regions."""
    name = region.name.removeprefix(REGION)
    below = list(_below(region))
    forward = [event for event in below if event.name == "CompiledFunction"]
    if forward:
        parts = [(name, part) for part in range(len(forward))]
        stack += parts
        return [{"kind": "forward", "name": name, "part": part} for name, part in parts]
    if any(event.name.startswith(("aten::", "_c10d_functional::", "## Call")) for event in below):
        return [{"kind": "inference", "name": name, "part": 0}]
    return []


def _below(event: Any) -> Iterator[Any]:
    """Everything that ran inside, other regions left out."""
    for child in event.cpu_children:
        if not child.name.startswith(REGION):
            yield child
            yield from _below(child)


def _nested(event: Any, is_it: Callable[[str], Any]) -> bool:
    while event := event.cpu_parent:
        if is_it(event.name):
            return True
    return False


def _plain(name: str) -> str:
    """``allreduce_`` and ``_allgather_base_`` to the names that a program uses; unknown ones stay."""
    bare = re.sub(r"_base|_into_tensor|_coalesced|_tensor", "", name).strip("_")
    return NAMES.get(bare, bare)


def _moved(events: list[Any]) -> dict[str, Iterator[int | None]]:
    """Numbers moved by each collective of a name, in order, as the backend's own events tell them."""
    found: dict[str, list[int | None]] = defaultdict(list)
    for event in events:
        if match := _BACKEND.match(event.name):
            shapes = [shape for shape in event.input_shapes or () if shape]
            found[_plain(match[1])].append(sum(math.prod(shape) for shape in shapes) or None)
    return defaultdict(lambda: iter(()), {name: iter(many) for name, many in found.items()})
