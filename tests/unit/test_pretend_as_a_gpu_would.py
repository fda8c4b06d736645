"""What Inductor does otherwise on a GPU than on a CPU is done for a pretended one, in branches and loops too."""

from __future__ import annotations

import torch

from compilescope.pretend import preview, previewing


def _inputs(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(*shape) for shape in shapes]


def test_a_float_that_varies_is_an_argument_of_the_kernel_and_one_that_must_be_fixed_is_in_it():
    def waved(x, k):
        return (x + k).sin() * k

    with previewing("h100") as found:
        compiled = torch.compile(waved, backend="eager")
        for k in (0.5, 0.75):
            compiled(torch.ones(8), k)
    torch.compiler.reset()
    (run,), notes = found.runs()
    assert not notes
    fixed, varying = (kernel.source for kernel in run.kernels)
    assert "0.5" in fixed
    assert "tmp1 = in_ptr1" in varying
    assert all(one.ok for one in run.interpret()), [str(one) for one in run.interpret()]


def test_both_branches_of_a_cond_get_their_kernels():
    def clipped(x, w):
        return torch.cond(x.sum() > 0, lambda x: torch.sin(x) * w, lambda x: x.cos() - torch.ones(8), (x,))

    run = preview(clipped, *_inputs((8,), (8,)))[0]
    assert run.notes == ()
    operations = [set(kernel.nodes) for kernel in run.kernels]
    assert any({"sin", "mul"} <= nodes for nodes in operations)
    assert any({"cos", "sub"} <= nodes for nodes in operations)


def test_the_body_of_a_loop_gets_its_kernel():
    def three_times(x):
        start = torch.zeros((), dtype=torch.int64)
        return torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2 + 1), (start, x))

    def doubled_with_a_loop(x):
        return three_times(x)[1]

    run = preview(doubled_with_a_loop, *_inputs((8,)))[0]
    assert run.notes == ()
    assert any("tmp0 * tmp1" in kernel.source for kernel in run.kernels)


@torch.compiler.nested_compile_region
def block(x, w):
    return (x @ w).relu() + 1


def test_a_nested_region_gets_its_kernel_forward_and_backward():
    x, w = _inputs((8, 8), (8, 8))
    run = preview(lambda x, w: block(block(x, w), w), x, w.requires_grad_())[0]
    assert run.notes == ()
    assert {kernel.language for code in run.code for kernel in code.kernels} == {"extern", "triton"}
    forward = [kernel for code in run.code if code.which == "forward" for kernel in code.kernels]
    assert any("relu" in node for kernel in forward if kernel.language == "triton" for node in kernel.nodes)


def test_a_product_in_a_batch_of_one_is_a_plain_product_as_on_a_gpu():
    run = preview(lambda x, y: torch.bmm(x, y).relu(), *_inputs((1, 4, 8), (1, 8, 6)))[0]
    assert [kernel.name for kernel in run.kernels if kernel.language == "extern"] == ["mm"]


def test_attention_by_hand_in_float32_stays_three_kernels_as_on_a_gpu():
    def attention(q, k, v):
        return torch.softmax(q @ k.transpose(-2, -1) / 4, -1) @ v

    run = preview(attention, *_inputs(*[(2, 4, 32, 16)] * 3))[0]
    assert [kernel.language for kernel in run.kernels] == ["extern", "triton", "extern"]
