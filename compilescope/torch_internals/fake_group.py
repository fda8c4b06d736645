"""A process group without other processes."""

from __future__ import annotations

import torch.distributed as dist


def join_fake_group(rank: int, world: int) -> None:
    """Make this process `rank` of `world` that do not exist: collectives return at once and move nothing.

    Leans on ``torch.testing._internal.distributed.fake_pg``, whose import adds the backend ``fake`` (2.11 to 2.15).
    """
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
