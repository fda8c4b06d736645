"""DDP and Dynamo."""

from __future__ import annotations

import contextlib

import torch._dynamo


def cutting_at_buckets(cut: bool) -> contextlib.AbstractContextManager[object]:
    """While the block compiles, DDP's buckets cut its graphs, or leave them whole.

    Leans on ``torch._dynamo.config.optimize_ddp`` (2.11 to 2.15).
    """
    patch: contextlib.AbstractContextManager[object] = torch._dynamo.config.patch(optimize_ddp=cut)
    return patch
