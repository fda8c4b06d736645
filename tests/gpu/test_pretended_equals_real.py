"""A pretended GPU gets the Triton source that a real one gets: line for line, on the machine that has one."""

from __future__ import annotations

import difflib

import pytest
import torch

from cases import CASES, Case
from triton_text import Written, pretended, real

# What differs, and why. An entry that no longer differs fails the test, so that the table stays true.
EXPLAINED: dict[str, str] = {
    "rms_norm_function": "F.rms_norm is one operation on CUDA and a composite on the CPU: the kernel's name differs, "
    "and nothing else",
}

PRETENDED_FOR = {(7, 5): "t4", (8, 0): "a100", (9, 0): "h100"}
ALL = [pytest.param(case, id=case.name) for case in CASES]


@pytest.mark.parametrize("case", ALL)
def test_each_case_yields_triton_kernels_or_library_calls(case: Case):
    written = pretended(case, "h100")
    assert written.launches
    assert written.kernels or any("extern_kernels." in line or "ops." in line for line in written.launches)
    for source in written.kernels.values():
        assert "@triton.jit" in source


def test_there_are_at_least_60_cases_with_different_names():
    assert len({case.name for case in CASES}) == len(CASES) >= 60


@pytest.mark.gpu
@pytest.mark.parametrize("case", ALL)
def test_the_pretended_source_equals_the_real_one(case: Case, gpu: str, report: list[dict[str, object]]):
    target = PRETENDED_FOR.get(torch.cuda.get_device_capability())
    if target is None:
        pytest.skip(f"{gpu} is none of the pretended GPUs: its code was not compared.")
    on_gpu = real(case)
    on_nothing = pretended(case, target)
    found = difference(on_gpu, on_nothing)
    row = {"case": case.name, "gpu": gpu, "kernels": len(on_gpu.kernels), "difference": found}
    report.append(row | {"explained": EXPLAINED.get(case.name, "")})
    if case.name in EXPLAINED:
        assert found, f"{case.name} is in EXPLAINED, yet nothing differs any more: {EXPLAINED[case.name]}"
        return
    assert not found, "\n".join(found)


def difference(on_gpu: Written, on_nothing: Written) -> list[str]:
    """Lines that differ, as a unified diff."""
    first = [*"\n".join(on_gpu.kernels.values()).splitlines(), *on_gpu.launches]
    second = [*"\n".join(on_nothing.kernels.values()).splitlines(), *on_nothing.launches]
    lines = difflib.unified_diff(first, second, "real", "pretended", lineterm="", n=0)
    return [line[:400] for line in lines][:40]
