"""Attention on a pretended GPU: the library that the GPU takes, a mask as it wants it, and the numbers of eager."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from compilescope import Run
from compilescope.interpret import interpret
from compilescope.pretend import preview
from compilescope.torch_internals.interpret_attention import attention_on_the_cpu

RECORDED = Path(__file__).parents[2] / "assets" / "recorded"
BF16 = torch.bfloat16


def plain(q, k, v):
    return scaled_dot_product_attention(q * 2, k, v) + 1


def causal(q, k, v):
    return scaled_dot_product_attention(q * 2, k, v, is_causal=True) + 1


def masked(q, k, v, mask):
    return scaled_dot_product_attention(q * 2, k, v, mask) + 1


def under_autocast(q, k, v):
    with torch.autocast("cpu", BF16):
        return scaled_dot_product_attention(q * 2, k, v) + 1


def shared_heads(q, k, v):
    return scaled_dot_product_attention(q * 2, k, v, enable_gqa=True) + 1


def in_a_branch(q, k, v):
    return torch.cond(q.sum() > 0, plain, causal, (q, k, v))


@torch.compiler.nested_compile_region
def region(q, k, v):
    return scaled_dot_product_attention(q * 2, k, v)


def in_a_region(q, k, v):
    return region(q, k, v) + region(k, q, v)


def by_hand(q, k, v):
    with sdpa_kernel(SDPBackend.MATH):
        return scaled_dot_product_attention(q * 2, k, v) + 1


def dropped(q, k, v):
    return scaled_dot_product_attention(q * 2, k, v, dropout_p=0.5) + 1


def three(*size: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> list[torch.Tensor]:
    return [torch.randn(*size, dtype=dtype, requires_grad=grad) for _ in range(3)]


def libraries(run: Run) -> list[str]:
    """The attention operations that the generated code calls."""
    assert run.notes == ()
    assert "for_cpu" not in "".join(code.text for code in run.code)
    names = [kernel.name for code in run.code for kernel in code.kernels if kernel.language == "extern"]
    return [name.split("_product_")[1].partition(".")[0] for name in names if "_product_" in name]


def fewer(heads: int, shared: int, **kwargs: Any) -> list[torch.Tensor]:
    """4 queries to 9 keys and values, of `heads` and of `shared` heads."""
    q, k, v = three(1, heads, 4, 8, **kwargs)[0], *three(1, shared, 9, 8, **kwargs)[1:]
    return [q, k, v]


ROWS = torch.randn(9, 9)
SHORT_ROWS = torch.randn(2, 1, 16, 16)
SQUARE = torch.randn(16, 16)
LEARNED = torch.randn(16, 16, dtype=BF16, requires_grad=True)
NOTHING_SEEN = torch.arange(16)[:, None].ne(3).expand(16, 16).contiguous()
TRIANGLE = torch.ones(9, 9, dtype=torch.bool).tril()


@pytest.mark.parametrize(
    ("fn", "args", "gpu", "library"),
    [
        (plain, three(1, 2, 9, 8), "h100", "efficient"),
        (plain, three(1, 2, 9, 8), "t4", "efficient"),
        (plain, three(1, 2, 9, 7), "h100", None),
        (plain, three(1, 2, 9, 7), "t4", "efficient"),
        (plain, three(2, 9, 8), "h100", None),
        (plain, three(1, 2, 9, 8, grad=True), "a100", "efficient"),
        (causal, three(1, 2, 9, 8, grad=True), "h100", "efficient"),
        (masked, [*three(1, 2, 9, 8), ROWS], "h100", "efficient"),
        (masked, [*three(1, 2, 9, 8), TRIANGLE], "h100", "efficient"),
        (masked, [*three(2, 2, 16, 8, grad=True), SHORT_ROWS.requires_grad_()], "h100", "efficient"),
        (masked, [*three(2, 2, 16, 8, grad=True), SQUARE], "h100", "efficient"),
        (masked, [*three(2, 2, 16, 8), NOTHING_SEEN], "h100", "efficient"),
        (by_hand, three(1, 2, 9, 8), "h100", None),
        (plain, three(1, 2, 9, 8, dtype=BF16, grad=True), "h100", "cudnn"),
        (plain, three(1, 2, 9, 8, dtype=BF16, grad=True), "a100", "flash"),
        (causal, three(1, 2, 9, 12, dtype=BF16, grad=True), "h100", "flash"),
        (masked, [*three(1, 2, 9, 8, dtype=BF16), ROWS.to(BF16)], "a100", "efficient"),
        (masked, [*three(1, 2, 9, 8, dtype=BF16), ROWS.to(BF16)], "h100", "cudnn"),
        (masked, [*three(1, 2, 16, 8, dtype=BF16, grad=True), LEARNED], "h100", "efficient"),
        (masked, [*three(1, 2, 16, 8, dtype=BF16), SQUARE.to(BF16).T], "h100", None),
        (causal, fewer(2, 2, dtype=BF16), "a100", "efficient"),
        (plain, fewer(2, 2, dtype=BF16), "a100", "flash"),
        (shared_heads, fewer(4, 2, dtype=BF16, grad=True), "h100", "cudnn"),
        (shared_heads, fewer(4, 2, dtype=BF16, grad=True), "a100", "flash"),
        (under_autocast, three(1, 2, 9, 8), "a100", "flash"),
    ],
)  # fmt: skip
def test_a_gpu_takes_its_own_library_and_its_kernels_give_the_numbers_of_eager(
    fn: Any, args: list[torch.Tensor], gpu: str, library: str | None
):
    run = preview(fn, *args, on=gpu)[0]
    learns = any(one.requires_grad for one in args)
    forward, backward = f"{library}_attention", f"{library}_attention_backward"
    assert libraries(run) == ([] if library is None else [forward, backward] if learns else [forward])
    done = interpret(run)
    assert len(done) == 1 + learns
    assert [one for one in done if not one.ok] == []


@pytest.mark.parametrize("changes", [False, True])
def test_a_mask_is_padded_if_it_must_be_and_always_in_a_graph_for_every_length(changes: bool):
    """As an H200 does (tests/gpu/test_live_gpu_facts.py): a graph cannot know that 32 is divided by 8."""
    rows, mask = three(1, 2, 32, 8), torch.ones(32, 32, dtype=torch.bool).tril()
    for one, dim in [*((one, 2) for one in rows), (mask, 0), (mask, 1)] if changes else []:
        torch._dynamo.mark_dynamic(one, dim)
    run = preview(masked, *rows, mask)[0]
    assert any("constant_pad_nd" in kernel.name for kernel in run.kernels) == changes
    assert [one.ok for one in interpret(run)] == [True]


@pytest.mark.parametrize("fn", [in_a_branch, in_a_region])
def test_branches_and_regions_take_the_library_too(fn: Any):
    assert set(libraries(preview(fn, *three(1, 2, 9, 8))[0])) == {"efficient_attention"}


@pytest.mark.parametrize(("dtype", "library"), [(torch.float32, "efficient"), (BF16, "cudnn")])
def test_modules_with_many_heads_take_it_too(dtype: torch.dtype, library: str):
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, dtype=dtype)
    found = libraries(preview(layer, torch.randn(2, 9, 16, dtype=dtype))[0])
    assert found == [f"{library}_attention", f"{library}_attention_backward"]
    assert torch.nn.functional.scaled_dot_product_attention is scaled_dot_product_attention


def test_what_sdpa_kernel_leaves_holds_for_the_pretended_gpu_and_when_its_code_runs_later():
    with sdpa_kernel(SDPBackend.MATH):
        run = preview(plain, *three(1, 2, 9, 8))[0]
    assert libraries(run) == []
    assert [one.ok for one in interpret(run)] == [True]
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        refused = preview(plain, *three(1, 2, 9, 8))[0]
    assert "No available kernel for this attention" in refused.notes[0]


def test_strict_determinism_keeps_a_gpu_from_cudnn():
    torch.use_deterministic_algorithms(True)
    try:
        run = preview(plain, *three(1, 2, 9, 8, dtype=BF16))[0]
    finally:
        torch.use_deterministic_algorithms(False)
    assert libraries(run) == ["flash_attention"]


OPERATIONS = {
    "efficient": lambda q, k, v, mask, causal, scale: torch.ops.aten._scaled_dot_product_efficient_attention(
        q, k, v, mask, True, 0.0, causal, scale=scale
    ),
    "cudnn": lambda q, k, v, mask, causal, scale: torch.ops.aten._scaled_dot_product_cudnn_attention(
        q, k, v, mask, True, 0.0, causal, False, scale=scale
    ),
    "flash": lambda q, k, v, mask, causal, scale: torch.ops.aten._scaled_dot_product_flash_attention(
        q, k, v, 0.0, causal, False, scale=scale
    ),
}


SETTINGS = [
    (None, False, None, 9, 4),
    (None, False, 0.3, 5, 4),
    (None, True, None, 9, 4),
    (None, True, None, 5, 4),
    (None, False, None, 9, 2),
    ("float", False, None, 9, 4),
    ("one row sees nothing", False, 0.7, 9, 4),
]


@pytest.mark.parametrize(
    ("library", "mask", "is_causal", "scale", "keys", "shared"),
    [(name, *one) for name in OPERATIONS for one in SETTINGS if not (name == "flash" and one[0])],
)
def test_the_cpu_computes_what_the_libraries_compute(
    library: str, mask: str | None, is_causal: bool, scale: float | None, keys: int, shared: int
):
    q = torch.randn(2, 4, 9, 8, dtype=torch.float64, requires_grad=True)
    k, v = (torch.randn(2, shared, keys, 8, dtype=torch.float64, requires_grad=True) for _ in range(2))
    added = None if mask is None else torch.randn(9, keys, dtype=torch.float64)
    if mask == "one row sees nothing":
        added[3] = -torch.inf
    gradient = torch.randn(2, 4, 9, 8, dtype=torch.float64)
    with sdpa_kernel(SDPBackend.MATH):
        wanted = scaled_dot_product_attention(q, k, v, added, is_causal=is_causal, scale=scale, enable_gqa=shared != 4)
        wanted_gradients = torch.autograd.grad(wanted, (q, k, v), gradient)
    with attention_on_the_cpu():
        found = OPERATIONS[library](q, k, v, added, is_causal, scale)[0]
        gradients = torch.autograd.grad(found, (q, k, v), gradient)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(gradients, wanted_gradients)


def test_query_key_and_value_of_one_buffer_are_three_reads_and_what_the_library_gives_is_read_on():
    def attend(x, w):
        q, k, v = (x @ w).view(2, 16, 3, 4, 8).permute(2, 0, 3, 1, 4)
        return scaled_dot_product_attention(q, k, v) + 1

    (code,) = preview(attend, torch.randn(32, 32), torch.randn(32, 96))[0].code
    product, attention, add = ((kernel.bytes_read, kernel.bytes_written) for kernel in code.kernels)
    assert product == (4 * (32 * 32 + 32 * 96), 4 * 32 * 96)
    assert attention[0] == 3 * 4 * 32 * 32
    assert add == (4 * 32 * 32, 4 * 32 * 32)


def test_a_matrix_that_is_both_factors_is_read_once():
    def square(x):
        y = x * 2
        return y @ y.T

    (code,) = preview(square, torch.randn(16, 8))[0].code
    assert [kernel.bytes_read for kernel in code.kernels] == [4 * 16 * 8, 4 * 16 * 8]


def test_without_a_library_the_scores_are_two_products_with_a_softmax_between():
    run = preview(by_hand, *three(1, 2, 9, 8))[0]
    assert sum(kernel.name.startswith("bmm") for code in run.code for kernel in code.kernels) == 2


@pytest.mark.parametrize(("keys", "padded"), [(9, True), (16, False), (24, False), (20, True)])
def test_the_rows_of_a_mask_begin_at_multiples_of_8(keys: int, padded: bool):
    q, (k, v, _) = torch.randn(1, 2, 5, 8), three(1, 2, keys, 8)
    run = preview(masked, q, k, v, torch.randn(5, keys))[0]
    assert ("constant_pad" in "".join(code.text for code in run.code)) is padded


def test_sizes_may_change_under_a_mask():
    tensors = three(1, 2, 16, 8)
    mask = torch.randn(16, 16)
    for one, dims in [*((one, (2,)) for one in tensors), (mask, (0, 1))]:
        for dim in dims:
            torch._dynamo.mark_dynamic(one, dim)
    run = preview(masked, *tensors, mask)[0]
    assert libraries(run) == ["efficient_attention"]
    assert [one.ok for one in interpret(run)] == [True]


def test_attention_with_dropout_is_not_compared():
    run = preview(dropped, *three(1, 2, 9, 8))[0]
    assert libraries(run) == ["efficient_attention"]
    assert [one.sentence[:32] for one in interpret(run)] == ["Not run: it draws random numbers"]


def test_the_cpu_has_these_operations_for_interpret_only():
    interpret(preview(plain, *three(1, 2, 9, 8))[0])
    with pytest.raises(NotImplementedError):
        torch.ops.aten._scaled_dot_product_efficient_attention(*three(1, 2, 9, 8), None, False)


def test_a_decode_step_has_the_attention_kernels_that_an_h200_tuned():
    recipe = runpy.run_path(str(RECORDED / "recipes" / "modes.py"))
    recipe["decode"].__globals__["size"] = lambda device, large, small: large
    decode = recipe["decode"]("cpu")
    with torch.no_grad():
        run = preview(decode["model"], *decode["calls"][0])[0]
    recorded = json.loads((RECORDED / "modes.json").read_text())
    trials = recorded["modes"]["trials"]
    tuned = {
        one["subject"]
        for trial in trials
        if (trial["workload"], trial["mode"]) == ("decode", "default")
        for one in trial["autotuning"]
    }
    assert any("cudnn_attention" in name for name in tuned)
    assert tuned <= {kernel.name for code in run.code for kernel in code.kernels}
