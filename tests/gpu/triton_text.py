"""Generated code of a case, on a real GPU and on a pretended one, in a form in which the two must be equal."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from cases import Case
from compilescope.reading.generated import read_code
from compilescope.torch_internals import records, settings
from compilescope.torch_internals.pretend_capture import Captured, capturing, latest
from compilescope.torch_internals.pretend_codegen import generate
from compilescope.torch_internals.pretend_floats import inputs_with_numbers, is_number, with_fixed_floats
from graph_on_device import graph_on

# File names and cache flags, nothing else.
_CACHE_FLAGS = re.compile(
    r" '(?:force_disable_caches|backend_hash|autotune_local_cache|autotune_remote_cache)': [^,}]+,?"
)
_LAUNCH = re.compile(r"^\s*((?:\w+\.run|extern_kernels\.\w+|torch\.ops\.\S+|aten\.\S+?)\(.*)$", re.MULTILINE)


@dataclass
class Written:
    """What Inductor wrote: Triton sources by kernel name, in order, and the launches of each wrapper."""

    kernels: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    """As they were written, by the same names."""
    launches: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    for_the_cpu: list[str] = field(default_factory=list)
    """Names of C++ kernels."""
    modules: int = 0
    """How many wrappers were written."""

    def forget(self) -> None:
        self.kernels, self.sources, self.launches, self.paths, self.modules = {}, {}, [], [], 0
        self.for_the_cpu = []

    def add(self, code: str) -> None:
        self.modules += 1
        for kernel in read_code(code, "0/0").kernels:
            if kernel.language == "cpp":
                self.for_the_cpu.append(kernel.name)
            if kernel.language == "triton":
                name = kernel.name
                while name in self.kernels:  # forward and backward count from 0 again
                    name += "'"
                self.sources[name] = kernel.source
                self.kernels[name] = _CACHE_FLAGS.sub("", kernel.source)
        self.launches += [re.sub(r"stream=\w+", "", line) for line in _LAUNCH.findall(code)]


def pretended(case: Case, gpu: str) -> Written:
    """What Inductor writes for `gpu`, from a call on the CPU."""
    torch.compiler.reset()
    written = Written()
    with capturing() as captured:
        case.run(torch.compile(case.fn, backend="eager", dynamic=case.dynamic), case.args("cpu"))
    for one in latest(captured):
        for meta, payload in generate(one, gpu):
            if "inductor_output_code" in meta:
                written.add(payload or "")
    torch.compiler.reset()
    return written


def pretended_graph(captured: Captured, gpu: str) -> Written:
    """What Inductor writes for `gpu` from a graph that was captured on the CPU."""
    written = Written()
    for meta, payload in generate(captured, gpu):
        if "inductor_output_code" in meta:
            written.add(payload or "")
    return written


def real_graph(captured: Captured, device: str = "cuda") -> Written:
    """What Inductor writes for the same graph, and compiles, when its tensors are on the GPU that is there."""
    written = Written()

    def attempt(given: Captured) -> None:
        written.forget()
        with torch.inference_mode(given.inference), torch.set_grad_enabled(given.grad):
            inputs = [_fake(one, device, given.fake_mode) for one in inputs_with_numbers(given)]
            with (
                torch._functorch.config.patch(force_non_lazy_backward_lowering=True),
                torch._guards.tracing(torch._guards.TracingContext(given.fake_mode)),
                torch._guards.compile_context(torch._guards.CompileContext(given.compile_id)),
            ):
                torch._inductor.compile_fx.compile_fx(graph_on(given, device), inputs)

    with _written(written):
        with_fixed_floats(captured, attempt)
    return written


def _fake(value: Any, device: str, mode: Any) -> Any:
    if not isinstance(value, torch.Tensor) or is_number(value):
        return value  # a number stays on the CPU, with a GPU too
    with mode, torch.no_grad():
        there = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=device)
    return there.requires_grad_(value.requires_grad)


@contextlib.contextmanager
def _written(written: Written) -> Iterator[None]:
    def take(meta: dict[str, Any], payload: str | None) -> None:
        if "inductor_output_code" in meta:
            written.add(payload or "")
            written.paths.append(str(meta["inductor_output_code"].get("file_path", "")))

    torch.compiler.reset()
    stop = records.listen(take)
    try:
        with settings.observing(bypass_caches=True):
            yield
    finally:
        stop()
        torch.compiler.reset()


def real(case: Case) -> Written:
    """What Inductor writes, compiles and runs on the GPU that is there."""
    written = Written()
    with _written(written):
        case.run(torch.compile(case.fn, dynamic=case.dynamic), case.args("cuda"))
        torch.cuda.synchronize()
    return written
