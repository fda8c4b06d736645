"""The modes of torch.compile, cold caches, and what the allocator keeps for CUDA graphs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


def mode_options() -> dict[str, dict[str, Any]]:
    """Mode to the options it sets. ``torch._inductor.list_mode_options()`` (2.11 to 2.15)."""
    import torch._inductor

    return {mode: dict(options) for mode, options in torch._inductor.list_mode_options().items()}


def option_defaults(names: set[str]) -> dict[str, Any]:
    """Option to the value it has now, where this torch has such an option.

    ``torch._inductor.config.get_config_copy()`` (2.11 to 2.15).
    """
    import torch._inductor.config as config

    return {name: value for name, value in config.get_config_copy().items() if name in names}


@contextlib.contextmanager
def cold_caches() -> Iterator[None]:
    """Empty caches for a block, as in a new process: on disk, in memory, and what `save_cache_artifacts` would save.

    What Dynamo remembers of sizes that changed is forgotten, too. ``torch._dynamo.pgo.reset_code_state``,
    ``torch._inductor.utils.fresh_cache`` and ``torch.compiler._cache.CacheArtifactManager`` (2.11 to 2.15).
    """
    from torch._dynamo.pgo import reset_code_state
    from torch._inductor.utils import fresh_cache
    from torch.compiler._cache import CacheArtifactManager

    reset_code_state()
    with CacheArtifactManager.with_fresh_cache(), fresh_cache():
        yield


def graph_pool_bytes() -> int:
    """Bytes in segments that belong to private pools: those of CUDA graphs.

    ``torch.cuda.memory_snapshot()``, whose segments have ``segment_pool_id`` and ``total_size`` (2.11 to 2.15).
    """
    snapshot: list[dict[str, Any]] = torch.cuda.memory_snapshot()
    return sum(one["total_size"] for one in snapshot if tuple(one.get("segment_pool_id", (0, 0))) != (0, 0))
