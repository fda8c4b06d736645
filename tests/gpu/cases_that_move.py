"""Data movement, mutation, constants, random numbers, several graphs, dynamic shapes, training steps."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812

from case import case, floats, ints


# ---------------------------------------------------------------- data movement
@case(floats(64, 128), backward=True)
def transpose_contiguous(x):
    return x.t().contiguous() * 2


@case(floats(8, 16, 32))
def permute_add(x):
    return x.permute(2, 0, 1) + x.permute(2, 0, 1).contiguous()


@case(floats(64, 128), ints(64, 5, high=128), backward=True)
def gather_rows(x, index):
    return x.gather(1, index)


@case(floats(64, 128), ints(64, 128, high=128), floats(64, 128))
def scatter_add(x, index, src):
    return x.scatter_add(1, index, src)


@case(floats(100, 32), ints(16, high=100), backward=True)
def index_rows(x, index):
    return x[index] * 2


@case(floats(100, 32), ints(16, high=100), floats(16, 32))
def index_put(x, index, value):
    out = x.clone()
    out[index] = value
    return out


@case(floats(1000, 64), ints(8, 16, high=1000), backward=True)
def embedding(w, tokens):
    return F.embedding(tokens, w) * 8.0


@case(floats(64, 32), floats(64, 32), backward=True)
def cat_columns(x, y):
    return torch.cat([x, y * 2], -1)


@case(floats(64, 32), floats(64, 32))
def stack_flip(x, y):
    return torch.stack([x, y]).flip(0)


@case(floats(64, 128), backward=True)
def split_chunks(x):
    a, b = x.chunk(2, -1)
    return a * torch.sigmoid(b)


@case(floats(64, 128))
def slice_pad_roll(x):
    return F.pad(x[:, 1:], (0, 1)) + torch.roll(x, 3, 1)


@case(floats(64, 64))
def triangle(x):
    return torch.tril(x) + torch.triu(x, 1) * 2


@case(floats(64, 128))
def views_of_views(x):
    return x.view(8, 8, 128).transpose(0, 1)[:, ::2].reshape(-1) + 1


@case(floats(64, 128))
def cumsum_rows(x):
    return x.cumsum(-1)


@case(floats(64, 128))
def sort_rows(x):
    return torch.sort(x, -1)


@case(floats(32))
def one_hot_arange(x):
    return F.one_hot(torch.arange(32, device=x.device) % 5, 5) * x[:, None]


@case(floats(64, 3))
def unrolled_small(x):
    return x[:, 0] * x[:, 1] - x[:, 2]


# ---------------------------------------------------------------- mutation, constants, random
@case(floats(64, 128))
def mutate_input(x):
    x.mul_(2).add_(1)
    return x.sum(-1)


@case(floats(16, 8), floats(8))
def mutate_slice(x, y):
    x[:, 2:4] += y[2:4]
    return x * 2


@case(floats(3, 64))
def constant_tensor(x):
    return x * torch.tensor([[0.5], [0.25], [0.25]], device=x.device)


@case(floats(64, 128))
def constructors(x):
    return x + torch.full((128,), 0.5, device=x.device) + torch.linspace(0, 1, 128, device=x.device)


@case(floats(64, 128), backward=True)
def dropout(x):
    return F.dropout(torch.relu(x), 0.25, training=True)


@case(floats(64, 128))
def random_noise(x):
    return x + torch.rand_like(x) + torch.randn_like(x) * 0.1


# ---------------------------------------------------------------- several graphs, dynamic shapes, training
@case(floats(64, 128), backward=True)
def two_graphs(x):
    y = torch.relu(x) * 2
    torch._dynamo.graph_break()
    return torch.softmax(y, -1)


@case(floats(64, 128), dynamic=True)
def dynamic_pointwise(x):
    return torch.sin(x) * x.shape[0]


@case(floats(64, 130), backward=True, dynamic=True)
def dynamic_softmax(x):
    return torch.softmax(x * 2, -1).sum(0)


@case(floats(33, 130), floats(130, 64), dynamic=True)
def dynamic_matmul(x, w):
    return torch.relu(x @ w) + x.shape[0]


@case(floats(64, 128), floats(128), floats(64, 128), floats(64, 128))
def adam_step(p, grad_scale, m, v):
    g = p * grad_scale
    m = 0.9 * m + 0.1 * g
    v = (0.999 * v + 0.001 * g * g).abs()
    return p - 0.001 * m / (v.sqrt() + 1e-8), m, v


# 16 classes: with 10 a real GPU may pad the matrix product to 12 columns, decided by a benchmark of that moment.
@case(floats(32, 64), floats(64, 64), floats(64), floats(64, 16), ints(32, high=16), backward=True)
def training_loss(x, w, g, head, target):
    h = F.layer_norm(F.gelu(x @ w), (64,), g)
    return F.cross_entropy(h @ head, target)


@case(floats(64, 128), floats(64, 128))
def two_outputs(x, y):
    z = x + y
    return z.relu(), z.sum(-1), z.detach() * 2
