"""First call against depth: the whole model, its blocks one by one (regional), and one nested region (hierarchical)."""

import torch
import torch.nn.functional as F
from torch import nn

DEPTHS, WIDTH, HEADS, LENGTH = (6, 12, 24, 48), 1024, 16, 128


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


@torch.compiler.nested_compile_region
def region(block, x):
    return block(x)


class Stack(nn.Module):
    def __init__(self, depth, width, nested=False):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.nested = nested

    def forward(self, x):
        for block in self.blocks:
            x = region(block, x) if self.nested else block(x)
        return x


def stack(device, depth, nested=False):
    """One sequence through `depth` blocks; on a CPU small, only to see that the recipe runs."""
    width, depth = (WIDTH, depth) if device == "cuda" else (64, depth // 6)
    model = Stack(depth, width, nested).to(device, torch.bfloat16).eval()
    x = torch.randn(1, LENGTH if device == "cuda" else 8, width, device=device, dtype=torch.bfloat16)
    return {"model": model, "calls": [(x,)]}


def whole(depth):
    return lambda device: stack(device, depth)


def nested(depth):
    return lambda device: stack(device, depth, nested=True)


def regional(depth):
    """Each block is compiled in place; the model around them stays plain Python."""

    def make(device):
        case = stack(device, depth)
        for block in case["model"].blocks:
            block.compile()
        return case

    return make


def rows(words, make, mode):
    return {
        f"{words} {depth}": {"words": f"{depth} blocks", "make": make(depth), "group": words, "modes": (mode,)}
        for depth in DEPTHS
    }


MODES = "eager", "default"
WORKLOADS = {
    **rows("eager", whole, "eager"),
    **rows("regional", regional, "eager"),
    **rows("nested", nested, "default"),
    **rows("whole", whole, "default"),
}
