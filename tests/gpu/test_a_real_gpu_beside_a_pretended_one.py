"""On a machine with a GPU: pretending leaves it alone, and what is assembled is what it really gets."""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path

import pytest
import torch

from cases import CASES
from compilescope.torch_internals.pretend_assemble import machine_code
from compilescope.torch_internals.pretend_kernels import load_tuner
from compilescope.torch_internals.pretend_world import pretended_gpu
from test_pretended_equals_real import PRETENDED_FOR
from triton_text import pretended, real

SOME = [case for case in CASES if case.name in ("softmax", "layer_norm", "gelu_exact", "cross_entropy", "adam_step")]


@pytest.mark.gpu
def test_pretending_leaves_the_real_gpu_as_it_was(gpu: str):
    torch.manual_seed(0)  # as each case does for its arguments
    state = torch.cuda.get_rng_state()
    x = torch.randn(64, 64, device="cuda", generator=torch.Generator("cuda").manual_seed(1))
    before = torch.relu(x @ x).sum().item()
    for target in ("t4", "a100", "h100"):
        assert pretended(SOME[0], target).kernels
        assert torch.cuda.get_device_name() == gpu
        assert torch.cuda.is_available()
    assert torch.equal(state, torch.cuda.get_rng_state())
    assert torch.compile(lambda y: torch.relu(y @ y).sum())(x).item() == pytest.approx(before, rel=1e-3)


def place_of(chosen: object, name: str, source: str, gpu: str) -> int:
    """Place of the configuration that autotuning kept: the tuner on the GPU has thrown the others away."""
    with pretended_gpu(gpu), tempfile.TemporaryDirectory() as folder:
        return [str(one) for one in load_tuner(name, source, Path(folder)).configs].index(str(chosen))


@pytest.mark.gpu
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in SOME])
def test_registers_spills_and_shared_memory_are_the_real_ones(case, gpu: str, report: list[dict[str, object]]):
    target = PRETENDED_FOR.get(torch.cuda.get_device_capability())
    if target is None:
        pytest.skip(f"{gpu} is none of the pretended GPUs: its machine code was not compared.")
    on_gpu = real(case)
    modules = {
        module.__file__: module for module in importlib.import_module("torch._inductor.codecache").PyCodeCache.modules
    }
    compared = 0
    for path in on_gpu.paths:
        for name, source in on_gpu.sources.items():
            tuner = getattr(modules.get(path), name, None)
            if tuner is None or len(tuner.launchers) != 1:
                continue
            launcher = tuner.launchers[0]
            made = machine_code({name: source}, target, place_of(launcher.config, name, source, target))[name]
            assert "error" not in made, made["error"]
            got = (made["registers"], made["shared"])
            report.append(
                {"case": case.name, "kernel": name, "real": [launcher.n_regs, launcher.shared], "assembled": got}
            )
            assert got == (launcher.n_regs, launcher.shared)
            compared += 1
    assert compared
