"""Hand-written kernels: each mistake is found and said in words; a real GPU gives the verdict of the interpreter."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest
import torch

pytest.importorskip("triton", reason="Without triton no kernel can be checked: that was not tested.")

import learners_kernels
from compilescope.check_kernel import KernelCheck, check_kernel
from learners_kernels import CASES, KernelCase

ALL = [pytest.param(case, id=case.name) for case in CASES]
ON_A_GPU = ("", "wrong numbers", "missing elements")
"""First findings of kernels that may run there: the others read, write or race outside of what is theirs."""


def check(case: KernelCase) -> KernelCheck:
    return check_kernel(case.kernel, case.grid, case.args(), case.reference, **case.constexprs)


@pytest.fixture(scope="module")
def without_a_gpu(request: pytest.FixtureRequest) -> dict[str, KernelCheck]:
    """The verdicts of this machine's CPU, GPU or not. What takes time are two child processes for each kernel."""
    asked = [case for case in CASES if any(f"[{case.name}]" in item.name for item in request.session.items)]
    made = [case.args() for case in asked]  # the seed is the process's

    def verdict(case: KernelCase, args: tuple[object, ...]) -> KernelCheck:
        return check_kernel(case.kernel, case.grid, args, case.reference, **case.constexprs)

    with mock.patch.object(torch.cuda, "is_available", return_value=False), ThreadPoolExecutor(2) as two:
        return dict(zip((case.name for case in asked), two.map(verdict, asked, made), strict=True))


@pytest.mark.parametrize("case", ALL)
def test_each_kernel_gets_its_verdict_its_sentence_and_its_line(case: KernelCase, without_a_gpu):
    found = without_a_gpu[case.name]
    assert found.ran_on == "Triton's interpreter"
    assert (found.findings[0].kind if found.findings else "") == case.kind, str(found)
    assert case.says in str(found)
    for finding in found.findings:
        if finding.source is not None:
            assert finding.source.file == learners_kernels.__file__
            assert finding.source.function == case.name
    if case.kind in ("does not compile", "race", "out-of-bounds read", "out-of-bounds write"):
        assert found.findings[0].source is not None


@pytest.mark.gpu
@pytest.mark.parametrize("case", [one for one in ALL if one.values[0].kind in ON_A_GPU])
def test_a_real_gpu_gives_the_same_verdict(case: KernelCase, gpu: str, without_a_gpu, report):
    there, here = check(case), without_a_gpu[case.name]
    kinds = [[finding.kind for finding in one.findings] for one in (there, here)]
    report.append({"kernel of a learner": case.name, "gpu": gpu, "there": kinds[0], "here": kinds[1]})
    assert there.ran_on == gpu
    assert kinds[0] == kinds[1]


@pytest.mark.gpu
@pytest.mark.parametrize("case", [one for one in ALL if one.values[0].kind == "does not compile"])
def test_a_real_gpu_refuses_what_is_said_not_to_compile(case: KernelCase, gpu: str, report):
    args = [one.cuda() if isinstance(one, torch.Tensor) else one for one in case.args()]
    with pytest.raises(Exception) as refused:  # noqa: PT011 - Triton raises what it likes, and the message is its own
        case.kernel[case.grid](*args, **case.constexprs)
    report.append({"kernel of a learner": case.name, "gpu": gpu, "there": [type(refused.value).__name__],
                   "here": [case.kind]})  # fmt: skip
