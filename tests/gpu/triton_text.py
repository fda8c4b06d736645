"""Generated code of a case, on a real GPU and on a pretended one, in a form in which the two must be equal."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import torch

from cases import Case
from compilescope.reading.generated import read_code
from compilescope.torch_internals import records, settings
from compilescope.torch_internals.pretend_capture import capturing, latest
from compilescope.torch_internals.pretend_codegen import generate

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
    modules: int = 0
    """How many wrappers were written."""

    def add(self, code: str) -> None:
        self.modules += 1
        for kernel in read_code(code, "0/0").kernels:
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


def real(case: Case) -> Written:
    """What Inductor writes, compiles and runs on the GPU that is there."""
    torch.compiler.reset()
    written = Written()

    def take(meta: dict[str, object], payload: str | None) -> None:
        if "inductor_output_code" in meta:
            written.add(payload or "")
            written.paths.append(str(meta["inductor_output_code"].get("file_path", "")))

    stop = records.listen(take)
    try:
        with settings.observing(bypass_caches=True):
            case.run(torch.compile(case.fn, dynamic=case.dynamic), case.args("cuda"))
            torch.cuda.synchronize()
    finally:
        stop()
        torch.compiler.reset()
    return written
