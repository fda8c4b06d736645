"""Leave out that torch times each new guard tree."""

from __future__ import annotations


def skip_guard_timing() -> None:
    """Have this process build guards without timing one evaluation of them, which torch logs and nothing here reads.

    For that timing torch empties the processor's caches at each compile, which takes longer than many a graph does.
    `torch._dynamo.guards.profile_guard_manager` (2.11 to 2.15).
    """
    import torch._dynamo.guards as guards

    if hasattr(guards, "profile_guard_manager"):
        guards.profile_guard_manager = lambda *_: 0.0
