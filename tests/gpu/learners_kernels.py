# ruff: noqa: N803 - BLOCK is how Triton's users write it
"""Kernels as learners write them: right ones, and one for each way of being wrong, with what must be said of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = 0.6931471805599453


@dataclass(frozen=True)
class KernelCase:
    """A kernel, how it is launched on what, what it should compute, and the verdict it must get."""

    kernel: Any
    grid: tuple[int, ...]
    make: Callable[[], tuple[Any, ...]]
    reference: Callable[..., Any]
    kind: str = ""
    """First finding; empty for a right kernel."""
    says: str = ""
    constexprs: dict[str, Any] = field(default_factory=lambda: {"BLOCK": 128})

    @property
    def name(self) -> str:
        kernel = self.kernel
        while hasattr(kernel, "fn"):
            kernel = kernel.fn
        return kernel.__name__

    def args(self) -> tuple[Any, ...]:
        torch.manual_seed(0)
        return self.make()


CASES: list[KernelCase] = []
N = 1000


def flat(out: int = N) -> Callable[[], tuple[Any, ...]]:
    return lambda: (torch.randn(N), torch.zeros(out), N)


def rows() -> tuple[Any, ...]:
    return torch.randn(7, 100), torch.zeros(7, 100), 100


def matrices() -> tuple[Any, ...]:
    return torch.randn(20, 40), torch.randn(40, 24), torch.zeros(20, 24), 20, 24, 40


def product(a, b, *_):
    return a @ b


def plus_one(x, *_):
    return x + 1


def total(x, *_):
    return x.sum()[None]


def case(grid, make, reference, kind="", says="", **constexprs):
    def add(kernel):
        CASES.append(KernelCase(kernel, grid, make, reference, kind, says, constexprs or {"BLOCK": 128}))
        return kernel

    return add


# ---------------------------------------------------------------- right
@triton.jit
def exponential(x):
    return tl.exp2(x * LOG2E)


@case((8,), flat(), lambda x, *_: x.exp())
@triton.jit
def right_with_a_helper_and_a_constant(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out_ptr + i, exponential(tl.load(x_ptr + i, mask=mask)), mask=mask)


@case((8,), flat(), plus_one)
@triton.jit
def right_with_and_between_blocks(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = (i < n) and not (i < 0)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=mask) + 1, mask=mask)


@case((8,), flat(), lambda x, *_: x.tanh())
@triton.jit
def right_with_a_function_of_libdevice(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, libdevice.tanh(tl.load(x_ptr + i, mask=i < n)), mask=i < n)


@case((8,), flat(1), total, BLOCK=128)
@triton.jit
def right_sum_by_atomics(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0)))


@case((8,), flat(1), total, num_warps=4)
@triton.autotune([triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})], key=["n"])
@triton.jit
def right_sum_autotuned(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0)))


@case((2, 2), matrices, product, B=16)
@triton.jit
def right_matmul(a_ptr, b_ptr, c_ptr, M, N, K, B: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B)[:, None]
    n = tl.program_id(1) * B + tl.arange(0, B)[None, :]
    acc = tl.zeros((B, B), tl.float32)
    for start in range(0, K, B):
        k = start + tl.arange(0, B)
        a = tl.load(a_ptr + m * K + k[None, :], mask=(m < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n, mask=(k[:, None] < K) & (n < N), other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
    tl.store(c_ptr + m * N + n, acc, mask=(m < M) & (n < N))


# ---------------------------------------------------------------- masks and bounds
@case((8,), flat(), lambda x, *_: x, "out-of-bounds read", "x_ptr[1000], outside the tensor, 24 such reads")
@triton.jit
def load_without_mask(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i), mask=i < n)


@case((8,), flat(), lambda x, *_: x, "out-of-bounds write", "out_ptr[1000], outside the tensor")
@triton.jit
def store_without_mask(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0.0))


@case((8,), flat(), lambda x, *_: x.roll(1), "out-of-bounds read", "Program 0 reads x_ptr[-1]")
@triton.jit
def left_neighbor(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i - 1, mask=i < n), mask=i < n)


@case((7,), rows, lambda x, *_: x * 2, "out-of-bounds read", "Program 5 reads x_ptr[700]")
@triton.jit
def rows_by_block_instead_of_width(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    at = tl.program_id(0) * BLOCK + column
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=column < width) * 2, mask=column < width)


@case((2, 2), matrices, product, "out-of-bounds read", "Program 0 reads b_ptr[960]", B=16)
@triton.jit
def matmul_without_mask_along_k(a_ptr, b_ptr, c_ptr, M, N, K, B: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B)[:, None]
    n = tl.program_id(1) * B + tl.arange(0, B)[None, :]
    acc = tl.zeros((B, B), tl.float32)
    for start in range(0, K, B):
        k = start + tl.arange(0, B)
        a = tl.load(a_ptr + m * K + k[None, :], mask=m < M, other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n, mask=n < N, other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
    tl.store(c_ptr + m * N + n, acc, mask=(m < M) & (n < N))


# ---------------------------------------------------------------- elements nobody writes
@case((8,), flat(), lambda x, *_: x, "missing elements", "8 of 1000 elements of out_ptr are never written")
@triton.jit
def mask_too_short(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n - 8
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=mask), mask=mask)


@case((N // 128,), flat(), plus_one, "missing elements", "the first is out_ptr[896]")
@triton.jit
def grid_too_small(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)


@case((8,), flat(), plus_one, "missing elements", "872 of 1000 elements of out_ptr are never written")
@triton.jit
def other_axis_of_the_grid(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)


# ---------------------------------------------------------------- races
@case((8,), flat(1), total, "race", "program 1 reads what program 0 writes")
@triton.jit
def sum_without_atomics(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr, tl.load(out_ptr) + tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0)))


@case((8,), flat(1), total, "race", "program 0 and program 1 write different values")
@triton.jit
def everybody_stores_there(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0)))


@case((8,), lambda: (torch.randn(N), N), lambda x, *_: x, "race", "program 1 writes what program 0 reads")
@triton.jit
def shifted_in_place(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i + 1, mask=i < n - 1), mask=i < n - 1)


@case(
    (1,),
    lambda: (torch.arange(N) % 10, torch.arange(N).float(), torch.zeros(10), N),
    lambda b, x, *_: torch.zeros(10).index_add_(0, b, x),
    "race",
    "two lanes of one store",
    BLOCK=1024,
)
@triton.jit
def scatter_into_bins(bin_ptr, x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bins = tl.load(bin_ptr + i, mask=i < n, other=0)
    tl.store(out_ptr + bins, tl.load(x_ptr + i, mask=i < n), mask=i < n)


# ---------------------------------------------------------------- numbers
@case((8,), flat(), lambda x, *_: x + 7, "wrong numbers", "1000 of 1000 elements of out_ptr are wrong")
@triton.jit
def three_times(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) * 3, mask=i < n)


@case((7,), rows, lambda x, *_: x.softmax(-1), "wrong numbers", "give tl.load an other=")
@triton.jit
def softmax_over_masked_lanes(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    at = tl.program_id(0) * width + column
    x = tl.load(x_ptr + at, mask=column < width)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + at, e / tl.sum(e, 0), mask=column < width)


@case((2, 2), matrices, product, "wrong numbers", "elements of c_ptr are wrong", B=16)
@triton.jit
def matmul_that_stays_at_its_first_block(a_ptr, b_ptr, c_ptr, M, N, K, B: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B)[:, None]
    n = tl.program_id(1) * B + tl.arange(0, B)[None, :]
    k = tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for _ in range(0, K, B):
        a = tl.load(a_ptr + m * K + k[None, :], mask=m < M, other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n, mask=n < N, other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
    tl.store(c_ptr + m * N + n, acc, mask=(m < M) & (n < N))


@case((1,), lambda: (torch.rand(5000) + 1, torch.zeros(1), 5000), total, "wrong numbers", "1 of 1 elements")
@triton.jit
def sum_in_half_precision(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    acc = tl.zeros((1,), tl.float16)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        acc += tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float16), 0)
    tl.store(out_ptr + tl.arange(0, 1), acc.to(tl.float32))


# ---------------------------------------------------------------- what the compiler refuses, and the interpreter takes
@case((8,), flat(), lambda x, *_: x.abs(), "does not compile", "let tl.where choose")
@triton.jit
def if_on_a_block(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    if x < 0:
        x = -x
    tl.store(out_ptr + i, x, mask=i < n)


@case((1,), flat(1), total, "does not compile", "Begin with the type that the loop gives it")
@triton.jit
def sum_that_begins_with_an_integer(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    acc = 0
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        acc += tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0), 0)
    tl.store(out_ptr, acc)


@case((10,), flat(), plus_one, "does not compile", "Take the next larger power of 2", BLOCK=100)
@triton.jit
def block_of_one_hundred(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)


@case((8,), flat(), plus_one, "does not compile", "Write BLOCK: tl.constexpr")
@triton.jit
def block_that_is_no_constexpr(x_ptr, out_ptr, n, BLOCK):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)


@case((8,), flat(), plus_one, "does not compile", "write with tl.store")
@triton.jit
def returns_its_result(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    return tl.load(x_ptr + i, mask=i < n) + 1


@case((8,), flat(), plus_one, "does not compile", ".nothing")
@triton.jit
def no_such_attribute(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n).nothing, mask=i < n)


@case((8,), flat(), lambda x, *_: x / x, "does not compile", "tl.constexpr(value)")
@triton.jit
def constant_of_the_notebook(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) * LN2, mask=i < n)
