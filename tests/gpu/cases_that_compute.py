"""Pointwise functions, reductions, norms, losses and matrix products."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812

from case import BF16, F16, I64, bools, case, floats, ints, positive


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


# ---------------------------------------------------------------- where a CPU and a GPU take different decompositions
@case(floats(1, 128), floats(128, 64), floats(64), backward=True)
def linear_one_row(x, w, b):
    return torch.relu(x @ w + b)


@case(floats(64, 1), floats(1, 48), floats(48))
def outer_product_addmm(x, w, b):
    return torch.addmm(b, x, w)


@case(floats(8, 1, 64), floats(8, 64, 1))
def batched_dot(x, y):
    return torch.bmm(x, y) + 1


@case(floats(33, 65, dtype=BF16), floats(65, 31, dtype=BF16))
def matmul_odd_sizes_bf16(x, w):
    return torch.relu(x @ w)


@case(floats(2, 3, 8, 8), backward=True)
def upsample_bilinear(x):
    return F.interpolate(x, scale_factor=2.0, mode="bilinear")


@case(floats(2, 3, 8, 8))
def reflection_pad(x):
    return F.pad(x, (1, 1, 1, 1), mode="reflect") * 2


@case(floats(8, 16, 8, 8, dtype=BF16), floats(16, dtype=BF16), floats(16, dtype=BF16), backward=True)
def batch_norm_bf16(x, w, b):
    return torch.relu(F.batch_norm(x, None, None, w, b, training=True))


@case(floats(2, 4, 64, 32, dtype=BF16), floats(2, 4, 64, 32, dtype=BF16), floats(2, 4, 64, 32, dtype=BF16))
def attention_function(q, k, v):
    return F.scaled_dot_product_attention(q * 2, k, v) + 1


@case(floats(2, 4, 32, 16), floats(2, 4, 32, 16), floats(2, 4, 32, 16))
def attention_in_float32(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(16), -1) @ v


@case(floats(1, 32, 16), floats(1, 16, 24))
def batch_of_one(x, y):
    return torch.relu(torch.bmm(x, y))


@case(floats(4, 8, 16, 16), floats(8, 8, 3, 3), floats(8), backward=True)
def conv_batch_norm_train(x, w, g):
    y = F.conv2d(x, w, padding=1)
    return F.gelu(F.batch_norm(y, None, None, g, None, training=True))
