"""What a process ran, in order: compiled graphs, and collectives in and between them."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import torch
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
FLIGHT_RECORDER = {"TORCH_FR_BUFFER_SIZE": "5000"}
"""Environment of a process whose collectives are to be recorded with their sizes, from its start."""


@contextlib.contextmanager
def watching_flow(flow: list[dict[str, Any]]) -> Iterator[None]:
    """Fill `flow` with what the block ran: dicts with ``kind``, ``name``, ``part``, ``inside``, ``elements``.

    Graphs that only ran while they were being compiled (on pretended tensors) are left out. Leans on the names of
    ``torch.autograd.profiler``'s events: regions, ``CompiledFunction``, ``CompiledFunctionBackward``, ``c10d::…``
    (2.13; others by ``make matrix``). A block that profiles itself leaves `flow` empty. ``elements``, of which Gloo's
    send and recv have none, come from the flight recorder (`FLIGHT_RECORDER`): asked for shapes, this profiler crashes
    now and then while DDP compiles (2.11, 2.12).
    """
    watch, before = profiler.profile(use_kineto=False), _recorded()
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
            flow.extend(_flow_of(list(watch.function_events or ()), _since(before)))


def _flow_of(events: list[Any], recorded: list[dict[str, Any]]) -> list[dict[str, Any]]:
    events.sort(key=lambda event: event.time_range.start)
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
            found.append({"kind": "collective", "name": name, "inside": inside, "elements": None})
    _fill_in([one for one in found if one["kind"] == "collective"], recorded)
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


def _recorded() -> list[list[dict[str, Any]]]:
    """What torch's flight recorders, of Gloo and of NCCL, know of collectives, in order; nothing if one forgot some."""
    c10d = getattr(torch._C, "_distributed_c10d", None)
    found: list[list[dict[str, Any]]] = []
    for name in ("_dump_fr_trace_json", "_dump_nccl_trace_json"):  # 2.11 to 2.15; the second in a build with NCCL
        entries: list[dict[str, Any]] = []
        with contextlib.suppress(Exception):
            entries = json.loads(getattr(c10d, name)()).get("entries", [])
        found.append(entries if entries and entries[0]["record_id"] == 0 else [])
    return found


def _since(before: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What was recorded after `before`, of both recorders together, in order."""
    new = [one for old, now in zip(before, _recorded(), strict=True) for one in now[len(old) :]]
    return sorted(new, key=lambda one: int(one["time_created_ns"]))


def _fill_in(collectives: list[dict[str, Any]], recorded: list[dict[str, Any]]) -> None:
    """Give each its ``elements``: the n-th of a name is the n-th recorded, if there are as many of both.

    There are not where another thread met other ranks, too. Gloo's recorder calls a reduce_scatter an all_reduce.
    """
    gloo = any(one["profiling_name"].startswith("gloo:") for one in recorded)
    sizes: dict[str, list[int | None]] = defaultdict(list)
    for one in recorded:
        if match := _BACKEND.match(one["profiling_name"]):
            sizes[_plain(match[1])].append(sum(map(math.prod, one["input_sizes"])) or None)
    waiting: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in collectives:
        waiting["all_reduce" if gloo and one["name"] == "reduce_scatter" else one["name"]].append(one)
    for name, ones in waiting.items():
        if len(ones) == len(sizes[name]):
            for one, many in zip(ones, sizes[name], strict=True):
                one["elements"] = many
