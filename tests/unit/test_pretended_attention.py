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

RECORDED = Path(__file__).parents[2] / "assets" / "recorded"
BF16 = torch.bfloat16


def plain(q, k, v):
    return scaled_dot_product_attention(q * 2, k, v) + 1


def causal(q, k, v):
    return scaled_dot_product_attention(q * 2, k, v, is_causal=True) + 1


def masked(q, k, v, mask):
    return scaled_dot_product_attention(q * 2, k, v, mask) + 1


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
    names = [kernel.name for code in run.code for kernel in code.kernels if kernel.language == "extern"]
    return [name.split("_product_")[1].removesuffix(".default") for name in names if "_product_" in name]


ROWS = torch.randn(9, 9)
SHORT_ROWS = torch.randn(2, 1, 16, 16)
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
        (by_hand, three(1, 2, 9, 8), "h100", None),
        (plain, three(1, 2, 9, 8, dtype=BF16, grad=True), "h100", "cudnn"),
        (plain, three(1, 2, 9, 8, dtype=BF16, grad=True), "a100", "flash"),
        (causal, three(1, 2, 9, 12, dtype=BF16, grad=True), "h100", "flash"),
        (masked, [*three(1, 2, 9, 8, dtype=BF16), ROWS.to(BF16)], "a100", "efficient"),
    ],
)  # fmt: skip
def test_a_gpu_takes_its_own_library_and_its_kernels_give_the_numbers_of_eager(
    fn: Any, args: list[torch.Tensor], gpu: str, library: str | None
):
    run = preview(fn, *args, on=gpu)[0]
    learns = any(one.requires_grad for one in args)
    forward, backward = f"{library}_attention", f"{library}_attention_backward"
    assert libraries(run) == ([] if library is None else [forward, backward] if learns else [forward])
    assert "for_cpu" not in "".join(code.text for code in run.code)
    done = interpret(run)
    assert len(done) == 1 + learns
    assert [one for one in done if not one.ok] == []


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
    assert [one for one in interpret(run) if not one.ok] == []


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
