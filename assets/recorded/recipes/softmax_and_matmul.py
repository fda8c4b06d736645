"""Times of a fused softmax, of a matrix product with an epilogue, and of their backward, at a size that fills a GPU."""

import torch
import torch.nn.functional as F


def model(x, w, scale):
    return torch.softmax(F.gelu(x @ w) * scale, -1)


def inputs(device):
    torch.manual_seed(0)
    x = torch.randn(8192, 1024, device=device, dtype=torch.bfloat16)
    w = torch.randn(1024, 4096, device=device, dtype=torch.bfloat16, requires_grad=True)
    scale = torch.rand(4096, device=device, dtype=torch.bfloat16, requires_grad=True)
    return x, w, scale


def call(compiled, args):
    return compiled(*args).float().square().sum().backward()
