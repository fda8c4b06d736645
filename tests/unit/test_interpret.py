"""Triton kernels run on the CPU: generated ones give eager's numbers, hand-written ones are judged with a sentence."""

from __future__ import annotations

import pytest
import torch

from compilescope import Run, observe
from compilescope.check_kernel import KernelCheck, check_kernel
from compilescope.interpret import error, interpret
from compilescope.pretend import preview
from compilescope.torch_internals.interpret_source import kernel_source
from compilescope.torch_internals.interpret_wire import read_tensor, write_tensor

triton = pytest.importorskip("triton", reason="Without triton no kernel can be interpreted: that was not tested.")
tl = pytest.importorskip("triton.language")

LOG2E: tl.constexpr = 1.4426950408889634


@triton.jit
def exponential(x):
    return tl.exp2(x * LOG2E)


@triton.jit
def right(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # noqa: N803
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out_ptr + i, exponential(tl.load(x_ptr + i, mask=mask)), mask=mask)


@triton.jit
def without_mask(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # noqa: N803
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i), mask=i < n)


@triton.jit
def writes_too_far(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # noqa: N803
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0.0))


@triton.jit
def mask_too_short(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # noqa: N803
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n - 8
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=mask), mask=mask)


@triton.jit
def racing_sum(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # noqa: N803
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0))
    tl.store(out_ptr, tl.load(out_ptr) + part)


@triton.jit
def racing_store(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # noqa: N803
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0)))


@triton.jit
def atomic_sum(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # noqa: N803
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n)))


@triton.jit
def shifted_in_place(x_ptr, n, BLOCK: tl.constexpr):  # noqa: N803
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i + 1, mask=i < n - 1), mask=i < n - 1)


@triton.jit
def three_times(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # noqa: N803
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) * 3, mask=i < n)


@triton.jit
def crashing(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # noqa: N803
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n).nothing, mask=i < n)


def _check(kernel, out_size: int, reference, n: int = 1000) -> KernelCheck:
    torch.manual_seed(0)
    x = torch.randn(n)
    return check_kernel(kernel, (8,), (x, torch.zeros(out_size), n), reference, BLOCK=128)


def test_a_right_kernel_with_a_helper_and_a_constant_passes():
    found = _check(right, 1000, lambda x, out, n: x.exp())
    assert found.ok, str(found)
    assert found.advice == ()


@pytest.mark.parametrize(
    ("kernel", "out_size", "reference", "kind", "says"),
    [
        (without_mask, 1000, lambda x, o, n: x, "out-of-bounds read", "x_ptr[1000], outside the tensor, 24 such reads"),
        (writes_too_far, 1000, lambda x, o, n: x, "out-of-bounds write", "out_ptr[1000], outside the tensor"),
        (
            mask_too_short,
            1000,
            lambda x, o, n: x,
            "missing elements",
            "8 of 1000 elements of out_ptr are never written",
        ),
        (racing_sum, 1, lambda x, o, n: x.sum()[None], "race", "program 1 reads what program 0 writes"),
        (racing_store, 1, lambda x, o, n: x.sum()[None], "race", "write different values"),
        (three_times, 1000, lambda x, o, n: x + 7, "wrong numbers", "1000 of 1000 elements of out_ptr are wrong"),
        (crashing, 1000, lambda x, o, n: x, "crash", ".nothing"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_each_mistake_gets_its_own_sentence_and_the_line(kernel, out_size, reference, kind, says):
    found = _check(kernel, out_size, reference)
    assert kind in [finding.kind for finding in found.findings]
    first = next(finding for finding in found.findings if finding.kind == kind)
    assert says in first.sentence
    if first.source is not None:
        assert first.source.file == __file__
        assert "tl." in first.source.code


def test_reading_what_another_program_overwrites_is_a_race():
    found = check_kernel(shifted_in_place, (8,), (torch.randn(1000), 1000), lambda x, n: x, BLOCK=128)
    assert found.findings[0].kind == "race"
    assert "program 1 writes what program 0 reads" in found.findings[0].sentence


def test_lanes_that_a_mask_switches_off_are_advice_when_they_reach_the_result():
    found = _check(atomic_sum, 1, lambda x, out, n: x.sum()[None])
    assert found.ok, str(found)
    assert "give tl.load an other=" in found.advice[0]


def test_the_arguments_of_a_check_are_not_changed():
    x = torch.ones(16)
    out = torch.zeros(16)
    check_kernel(right, (1,), (x, out, 16), lambda x, out, n: x.exp(), BLOCK=16)
    assert torch.equal(out, torch.zeros(16))


def test_bad_arguments_get_a_sentence():
    with pytest.raises(ValueError, match=r"decorate a function with @triton\.jit"):
        check_kernel(lambda x: x, (1,), (), lambda: ())
    with pytest.raises(ValueError, match=r"needs BLOCK"):
        check_kernel(right, (1,), (torch.ones(1), torch.ones(1), 1), lambda *_: ())
    with pytest.raises(ValueError, match="x_ptr is empty"):
        check_kernel(right, (1,), (torch.ones(0), torch.ones(1), 1), lambda *_: (), BLOCK=16)


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
