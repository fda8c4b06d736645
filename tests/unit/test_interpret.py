"""Triton kernels run on the CPU: generated ones give eager's numbers, hand-written ones are judged with a sentence."""

from __future__ import annotations

import pytest
import torch

from compilescope import Run, observe
from compilescope.check_kernel import check_kernel
from compilescope.interpret import error, interpret
from compilescope.pretend import preview
from compilescope.torch_internals.interpret_source import kernel_source
from compilescope.torch_internals.interpret_wire import read_tensor, write_tensor

triton = pytest.importorskip("triton", reason="Without triton no kernel can be interpreted: that was not tested.")
tl = pytest.importorskip("triton.language")


@triton.jit
def doubled(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # noqa: N803
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)


@triton.jit
def atomic_sum(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # noqa: N803
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n)))


def test_lanes_that_a_mask_switches_off_are_advice_when_they_reach_the_result():
    x = torch.randn(1000)
    found = check_kernel(atomic_sum, (8,), (x, torch.zeros(1), 1000), lambda x, out, n: x.sum()[None], BLOCK=128)
    assert found.ok, str(found)
    assert "give tl.load an other=" in found.advice[0]


def test_the_arguments_of_a_check_are_not_changed():
    x = torch.ones(16)
    out = torch.zeros(16)
    check_kernel(doubled, (1,), (x, out, 16), lambda x, out, n: x * 2, BLOCK=16)
    assert torch.equal(out, torch.zeros(16))


def test_bad_arguments_get_a_sentence():
    with pytest.raises(ValueError, match=r"decorate a function with @triton\.jit"):
        check_kernel(lambda x: x, (1,), (), lambda: ())
    with pytest.raises(ValueError, match=r"needs BLOCK"):
        check_kernel(doubled, (1,), (torch.ones(1), torch.ones(1), 1), lambda *_: ())
    with pytest.raises(ValueError, match="x_ptr is empty"):
        check_kernel(doubled, (1,), (torch.ones(0), torch.ones(1), 1), lambda *_: (), BLOCK=16)


def test_a_kernel_that_uses_a_tensor_of_the_notebook_is_refused():
    notebook = {"tl": tl, "table": torch.ones(3)}

    def uses_table(x_ptr):
        tl.store(x_ptr, table)  # noqa: F821

    jitted = triton.jit(uses_table)
    jitted.fn.__globals__["table"] = notebook["table"]
    try:
        with pytest.raises(ValueError, match="uses_table uses table, a Tensor"):
            kernel_source(jitted)
    finally:
        del jitted.fn.__globals__["table"]


def test_generated_kernels_give_the_numbers_of_eager_forward_and_backward():
    def train(x, w):
        return torch.softmax(torch.tanh(x @ w), -1).sum(0)

    torch.manual_seed(0)
    run = preview(train, torch.randn(16, 32, requires_grad=True), torch.randn(32, 24, requires_grad=True))[0]
    found = interpret(run)
    assert [one.which for one in found] == ["forward", "backward"]
    for one in found:
        assert one.ok, f"{one} {one.traceback}"
        assert all(output.from_float64 < 1e-5 for output in one.outputs)


def test_an_observed_run_interprets_its_pretended_kernels_by_a_method_of_its_own():
    x = torch.randn(8, 16)
    run = observe(torch.compile(lambda x: torch.softmax(x, -1), backend="eager"), x, on="h100")
    torch.compiler.reset()
    (found,) = run.interpret()
    assert found.ok, str(found)
    assert "the same numbers as eager" in str(found)
    (gone,) = Run.from_json(run.to_json()).interpret()
    assert "interpret a run of this session" in gone.sentence


def test_a_written_argument_is_compared_too():
    def write(x):
        x.mul_(2)
        return x.sum()

    found = interpret(preview(write, torch.randn(64))[0])
    assert found[0].ok, str(found[0])
    assert any(output.name == "argument 0" for output in found[0].outputs)


def test_random_numbers_are_not_compared_and_it_says_so():
    run = preview(lambda x: torch.nn.functional.dropout(x, 0.5), torch.randn(64))[0]
    assert "draws random numbers" in interpret(run)[0].sentence


def test_too_large_a_run_is_refused_before_it_starts():
    run = preview(lambda x: torch.softmax(x, -1), torch.randn(4096, 256))[0]
    (found,) = interpret(run, time_limit=0.05)
    assert found.sentence.startswith("Smaller, please")
    assert not found.ok


def test_a_run_from_a_file_says_that_it_cannot_be_interpreted():
    run = preview(torch.sin, torch.randn(8))[0]
    (found,) = interpret(type(run).from_json(run.to_json()))
    assert "interpret a run of this session" in found.sentence


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_tensors_cross_to_the_child_as_bytes(tmp_path, dtype):
    tensor = (torch.arange(24).reshape(4, 6) % 3).to(dtype).t()
    told = write_tensor(tensor, tmp_path / "t.raw")
    back = read_tensor(told, tmp_path / "t.raw")
    assert torch.equal(back, tensor)
    assert back.stride() == tensor.stride()


def test_bytes_that_do_not_fit_their_description_are_refused(tmp_path):
    told = write_tensor(torch.ones(4), tmp_path / "t.raw")
    with pytest.raises(ValueError, match="16 bytes are not"):
        read_tensor({**told, "shape": [5]}, tmp_path / "t.raw")
    with pytest.raises(ValueError, match="no tensor is described"):
        read_tensor({**told, "dtype": "load"}, tmp_path / "t.raw")


def test_an_error_is_relative_and_nan_alone_is_infinite():
    assert error(torch.tensor([1.0, 101.0]), torch.tensor([1.0, 100.0])) == pytest.approx(0.01)
    assert error(torch.tensor([float("nan")]), torch.tensor([1.0])) == float("inf")
    assert error(torch.tensor([float("inf")]), torch.tensor([float("inf")])) == 0.0
