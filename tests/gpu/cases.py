"""Small functions whose Triton code is compared: what a pretended GPU gets, and what a real one got."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

Make = Callable[[str], Any]
BF16, F16, I64 = torch.bfloat16, torch.float16, torch.int64


@dataclass(frozen=True)
class Case:
    """One function and how to make its arguments on a device; `backward` also compiles and runs the backward."""

    name: str
    fn: Callable[..., Any]
    inputs: tuple[Any, ...]
    backward: bool = False
    dynamic: bool | None = None

    def args(self, device: str) -> tuple[Any, ...]:
        torch.manual_seed(0)
        made = [one(device) if callable(one) else one for one in self.inputs]
        if self.backward:
            made = [
                one.requires_grad_() if isinstance(one, torch.Tensor) and one.is_floating_point() else one
                for one in made
            ]
        return tuple(made)

    def run(self, compiled: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call it, and run the backward where the case has one."""
        result = compiled(*args)
        if self.backward:
            leaves = result if isinstance(result, (tuple, list)) else (result,)
            sum(one.float().sum() for one in leaves if one.requires_grad).backward()
        return result


CASES: list[Case] = []


def case(*inputs: Any, backward: bool = False, dynamic: bool | None = None) -> Callable[[Any], Any]:
    def add(fn: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append(Case(fn.__name__, fn, inputs, backward, dynamic))
        return fn

    return add


def floats(*shape: int, dtype: torch.dtype = torch.float32) -> Make:
    return lambda device: torch.randn(*shape).to(device=device, dtype=dtype)


def positive(*shape: int) -> Make:
    return lambda device: (torch.rand(*shape) + 0.5).to(device)


def ints(*shape: int, high: int, dtype: torch.dtype = I64) -> Make:
    return lambda device: torch.randint(0, high, shape).to(device=device, dtype=dtype)


def bools(*shape: int) -> Make:
    return lambda device: (torch.rand(*shape) > 0.5).to(device)


# ---------------------------------------------------------------- pointwise
@case(floats(64, 128), floats(64, 128))
def add_mul(x, y):
    return x * y + 1.0


@case(floats(64, 128), floats(128), backward=True)
def bias_sigmoid(x, b):
    return torch.sigmoid(x + b)


@case(floats(1000), backward=True)
def odd_size_tanh(x):
    return torch.tanh(x) * 3


@case(floats(64, 128), backward=True)
def gelu_exact(x):
    return F.gelu(x)


@case(floats(64, 128), backward=True)
def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


@case(floats(64, 128), floats(64, 128), backward=True)
def silu_gate(x, y):
    return F.silu(x) * y


@case(floats(64, 128))
def clamp_round(x):
    return torch.clamp(x, -1, 1).round() + x.floor()


@case(positive(64, 128), backward=True)
def log_exp_pow(x):
    return torch.log(x) + torch.exp(-x) + x.pow(3)


@case(floats(64, 128), 2.5)
def python_scalar(x, scale):
    return x * scale


@case(floats(64, 1), floats(1, 128), backward=True)
def outer_broadcast(x, y):
    return x * y + x


@case(floats(64, 128, dtype=BF16), floats(64, 128, dtype=BF16), backward=True)
def bf16_pointwise(x, y):
    return F.silu(x) * y + 1


@case(floats(64, 128, dtype=F16))
def f16_to_float(x):
    return x.float().exp().half()


@case(floats(64, 128, dtype=torch.float64))
def float64_pointwise(x):
    return x.sin() * x.cos()


@case(ints(64, 128, high=1000), ints(64, 128, high=7))
def int_operations(x, y):
    return (x // (y + 1)) * 3 + (x % (y + 1)) - (x & y)


@case(ints(64, 128, high=255, dtype=torch.int32))
def shifts_and_xor(x):
    return (x << 2) ^ (x >> 1)


@case(floats(64, 128), floats(64, 128))
def comparisons(x, y):
    return (x > y) & (x.abs() <= 1) | torch.isnan(y)


@case(floats(64, 128), bools(64, 128), backward=True)
def where_masked_fill(x, mask):
    return torch.where(mask, x, -x).masked_fill(~mask, 0.5)


@case(floats(4, 3, 8, 8))
def upsample_nearest(x):
    return F.interpolate(x, scale_factor=2.0, mode="nearest")


# ---------------------------------------------------------------- reductions
@case(floats(64, 128), backward=True)
def sum_all(x):
    return (x * 2).sum()


@case(floats(64, 1000), backward=True)
def mean_rows(x):
    return x.mean(-1)


@case(floats(512, 64))
def sum_columns(x):
    return x.sum(0)


@case(floats(8192, 512))
def sum_large(x):
    return x.sum()


@case(floats(64, 128), backward=True)
def amax_amin(x):
    return x.amax(-1) - x.amin(-1)


@case(floats(64, 128))
def argmax_rows(x):
    return x.argmax(-1), x.argmin(0)


@case(floats(64, 300), backward=True)
def variance(x):
    return x.var(-1, unbiased=False) + x.std(-1)


@case(positive(64, 32))
def product_rows(x):
    return x.prod(-1)


@case(floats(64, 128))
def any_all(x):
    return (x > 2).any(-1), (x > -3).all(-1)


@case(floats(64, 128), backward=True)
def vector_norm(x):
    return torch.linalg.vector_norm(x, dim=-1)


@case(floats(64, 128), backward=True)
def logsumexp(x):
    return torch.logsumexp(x, -1)


@case(floats(64, 128))
def count_positive(x):
    return (x > 0).sum(dtype=I64)


# ---------------------------------------------------------------- softmax, norms, losses
@case(floats(64, 128), backward=True)
def softmax(x):
    return torch.softmax(x, -1)


@case(floats(32, 5000))
def softmax_wide(x):
    return torch.softmax(x, -1)


@case(floats(64, 128, dtype=BF16), backward=True)
def softmax_bf16(x):
    return torch.softmax(x, -1)


@case(floats(64, 128), floats(128), floats(128), backward=True)
def layer_norm(x, w, b):
    return F.layer_norm(x, (128,), w, b)


@case(floats(64, 768, dtype=BF16), floats(768, dtype=BF16), floats(768, dtype=BF16), backward=True)
def layer_norm_bf16(x, w, b):
    return F.layer_norm(x, (768,), w, b)


@case(floats(64, 256), floats(256), backward=True)
def rms_norm(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


@case(floats(64, 256), floats(256))
def rms_norm_function(x, w):
    return F.rms_norm(x, (256,), w)


@case(floats(8, 16, 8, 8), floats(16), floats(16), backward=True)
def batch_norm_train(x, w, b):
    return F.batch_norm(x, None, None, w, b, training=True)


@case(floats(8, 16, 8, 8), floats(16), positive(16))
def batch_norm_eval(x, mean, var):
    return F.batch_norm(x, mean, var)


@case(floats(8, 16, 64), floats(16), floats(16), backward=True)
def group_norm(x, w, b):
    return F.group_norm(x, 4, w, b)


@case(floats(64, 1000), ints(64, high=1000), backward=True)
def cross_entropy(x, target):
    return F.cross_entropy(x, target)


@case(floats(64, 128), floats(64, 128), backward=True)
def mse_and_huber(x, y):
    return F.mse_loss(x, y) + F.smooth_l1_loss(x, y)


@case(floats(64), positive(64), backward=True)
def bce_with_logits(x, y):
    return F.binary_cross_entropy_with_logits(x, y)


# ---------------------------------------------------------------- matmul and epilogues
@case(floats(64, 128), floats(128, 256), floats(256), backward=True)
def linear_relu(x, w, b):
    return torch.relu(x @ w + b)


@case(floats(64, 128, dtype=BF16), floats(256, 128, dtype=BF16), floats(256, dtype=BF16), backward=True)
def linear_gelu_bf16(x, w, b):
    return F.gelu(F.linear(x, w, b))


@case(floats(8, 32, 64), floats(8, 64, 16))
def bmm_scale(x, y):
    return torch.bmm(x, y) * 0.125


@case(floats(64, 128), floats(128, 512), floats(512, 128), backward=True)
def mlp_residual(x, up, down):
    return x + F.gelu(x @ up) @ down


@case(floats(2, 4, 32, 16), floats(2, 4, 32, 16), floats(2, 4, 32, 16))
def attention_by_hand(q, k, v):
    scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(16) + 0.01)
    return torch.softmax(scores.tril(), -1) @ v


@case(floats(2, 4, 32, 16), backward=True)
def rotary_embedding(x):
    half = x.shape[-1] // 2
    rotated = torch.cat([-x[..., half:], x[..., :half]], -1)
    angle = torch.arange(32, device=x.device).float()[:, None] * 0.01
    return x * angle.cos() + rotated * angle.sin()


@case(floats(2, 3, 16, 16), floats(8, 3, 3, 3))
def conv_relu(x, w):
    return torch.relu(F.conv2d(x, w, padding=1))


@case(floats(2, 4, 16, 16))
def max_pool(x):
    return F.max_pool2d(x, 2)


@case(floats(2, 4, 16, 16), backward=True)
def average_pool(x):
    return F.avg_pool2d(x, 2)


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


@case(floats(32, 64), floats(64, 64), floats(64), floats(64, 10), ints(32, high=10), backward=True)
def training_loss(x, w, g, head, target):
    h = F.layer_norm(F.gelu(x @ w), (64,), g)
    return F.cross_entropy(h @ head, target)


@case(floats(64, 128), floats(64, 128))
def two_outputs(x, y):
    z = x + y
    return z.relu(), z.sum(-1), z.detach() * 2
