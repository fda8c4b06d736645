"""The model that exercises of several lessons wrap, compile, shard and save."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - as PyTorch's own documentation writes it
from torch import nn


class Block(nn.Module):
    """A residual block, [rows, width] → [rows, width]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows in, rows out."""
        out: torch.Tensor = x + self.down(F.silu(self.up(x)))
        return out


class Tower(nn.Module):
    """Blocks, and a head that belongs to none of them: [rows, width] → [rows]."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows in, one number a row out."""
        for block in self.blocks:
            x = block(x)
        out: torch.Tensor = self.head(x).squeeze(-1)
        return out


def tower(width: int, depth: int, seed: int) -> Tower:
    """On the CPU, and of one seed the same weights on every rank and in the judge."""
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.manual_seed(seed)
        return Tower(width, depth)
