"""Why two neighbors in Inductor's scheduler were not fused."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import torch._guards

Sink = Callable[[dict[str, Any]], None]

_lock = threading.Lock()
_sinks: list[Sink] = []
_original: list[Callable[..., None]] = []


def listen(sink: Sink) -> Callable[[], None]:
    """Hand to `sink` each pair that the scheduler looked at and did not fuse; returns how to stop.

    ``frame_id`` and ``frame_compile_id`` name the compile; ``first`` and ``second`` are names of post-grad nodes, or
    of Inductor's own nodes where it cannot tell; ``reason`` is a sentence of Inductor. Leans on
    ``torch._inductor.scheduler.WhyNoFuse.__call__(reason, *args)`` with ``name1``, ``name2``, on
    ``torch._guards.CompileContext.current_compile_id``, and on ``node1``, ``node2`` being local variables of the
    function that calls it (2.11 to 2.15). Its log at debug level would tell as much, but prints every node each time.
    """
    with _lock:
        _sinks.append(sink)
    attach()

    def stop() -> None:
        with _lock:
            _sinks[:] = [one for one in _sinks if one is not sink]
            if not _sinks and _original:
                sys.modules["torch._inductor.scheduler"].WhyNoFuse.__call__ = _original.pop()

    return stop


def attach() -> None:
    """Begin to listen to Inductor's scheduler if it is imported by now: importing it takes seconds, so we do not.

    Leans on ``torch._inductor.scheduler.WhyNoFuse`` (2.11 to 2.15).
    """
    scheduler = sys.modules.get("torch._inductor.scheduler")
    why = getattr(scheduler, "WhyNoFuse", None)
    with _lock:
        if why is None or _original or not _sinks:
            return
        _original.append(why.__call__)
        why.__call__ = _replacement(why.__call__)


def _replacement(original: Callable[..., None]) -> Callable[..., None]:
    def __call__(self: Any, reason: str, *args: Any) -> None:  # noqa: N807
        try:
            facts = _facts(self, reason % args, sys._getframe(1))
            for sink in list(_sinks):
                sink(dict(facts))
        except Exception:
            return original(self, reason, *args)
        return original(self, reason, *args)

    return __call__


def _facts(why: Any, reason: str, frame: Any) -> dict[str, Any]:
    compile_id = torch._guards.CompileContext.current_compile_id()
    for _ in range(4):
        if frame is None or ("node1" in frame.f_locals and "node2" in frame.f_locals):
            break
        frame = frame.f_back
    known = frame.f_locals if frame is not None else {}
    return {
        "frame_id": getattr(compile_id, "frame_id", None),
        "frame_compile_id": getattr(compile_id, "frame_compile_id", None),
        "first": _origins(known.get("node1")) or (str(why.name1),),
        "second": _origins(known.get("node2")) or (str(why.name2),),
        "reason": reason,
    }


def _origins(node: Any) -> tuple[str, ...]:
    """Names of the post-grad nodes behind a scheduler node: ``get_nodes()`` and ``node.origins`` (2.11 to 2.15)."""
    try:
        parts = node.get_nodes()
        names = [origin.name for part in parts for origin in part.node.origins]
    except AttributeError:
        return ()
    return tuple(dict.fromkeys(names))
