"""Six workloads in every mode, and one matrix product in several precisions.

12 blocks of width 1024 stand for a larger model: with 24, tuning alone would take minutes longer and show the same.
"""

import torch
import torch.nn.functional as F
from torch import nn

DEPTH, WIDTH, HEADS, CACHED = 12, 1024, 16, 512


def size(device, large, small):
    return large if device == "cuda" else small


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x, past):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, depth, width):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))

    def forward(self, x, past=None):
        for i, block in enumerate(self.blocks):
            x = block(x, None if past is None else past[i])
        return x


class Perceptron(nn.Module):
    def __init__(self, depth=8, width=256):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = F.gelu(layer(x))
        return x


def transformer(device):
    depth, width = size(device, DEPTH, 1), size(device, WIDTH, 64)
    return Transformer(depth, width).to(device, torch.bfloat16).eval(), depth, width


def decode(device):
    model, depth, width = transformer(device)
    x = torch.randn(1, 1, width, device=device, dtype=torch.bfloat16)
    past = torch.randn(depth, 2, 1, HEADS, CACHED, width // HEADS, device=device, dtype=torch.bfloat16)
    return {"model": model, "calls": [(x, past)]}


def prefill(device):
    model, _, width = transformer(device)
    return {"model": model, "calls": [(torch.randn(4, size(device, 512, 8), width, device=device).bfloat16(),)]}


def pointwise_chain(device):
    def chain(x, scale, shift):
        y = F.gelu(x * scale + shift)
        return (y * torch.sigmoid(y) - x).clamp(-4, 4)

    rows = size(device, 16384, 16)
    return {"model": chain, "calls": [tuple(torch.randn(*s, device=device) for s in ((rows, 4096), (4096,), (4096,)))]}


def small_network(device):
    return {"model": Perceptron().to(device).eval(), "calls": [(torch.randn(16, 256, device=device),)]}


def changing_batch(device):
    rows = (16, 48, 24, 40, 32, 56, 72, 64)
    calls = [(torch.randn(n, 256, device=device),) for n in rows]
    return {"model": Perceptron().to(device).eval(), "calls": calls, "first_calls": 24, "dynamic": None}


def mutated_input(device):
    def moving_average(state, x):
        state.mul_(0.99).add_(x, alpha=0.01)
        return (x - state).tanh()

    return {"model": moving_average, "calls": [tuple(torch.randn(256, 256, device=device) for _ in range(2))]}


def product(precision, dtype):
    def make(device):
        torch.set_float32_matmul_precision(precision)
        n = size(device, 4096, 64)
        a, b = (torch.randn(n, n, device=device, dtype=dtype) for _ in range(2))
        return {"model": lambda a, b: torch.relu(a @ b), "calls": [(a, b)]}

    return make


def precision(words, setting, dtype):
    modes = "eager", "default", "max-autotune-no-cudagraphs"
    return {"words": words, "make": product(setting, dtype), "group": "precision", "modes": modes}


WORKLOADS = {
    "decode": {"words": f"one token through {DEPTH} blocks, batch 1, bf16, {CACHED} cached", "make": decode},
    "prefill": {"words": f"4 x 512 tokens through {DEPTH} blocks, bf16", "make": prefill},
    "pointwise chain": {"words": "7 operations on 16384 x 4096, fp32", "make": pointwise_chain},
    "small network": {"words": "8 layers of width 256, batch 16, fp32", "make": small_network},
    "changing batch": {"words": "the small network, 8 batch sizes in turn", "make": changing_batch},
    "mutated input": {"words": "a moving average kept in an input, 256 x 256", "make": mutated_input},
    "fp32 highest": precision("4096 x 4096, fp32", "highest", torch.float32),
    "fp32 high": precision("4096 x 4096, fp32, TF32 allowed", "high", torch.float32),
    "fp32 medium": precision("4096 x 4096, fp32, bf16 allowed", "medium", torch.float32),
    "bf16": precision("4096 x 4096, bf16", "highest", torch.bfloat16),
}
