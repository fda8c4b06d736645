"""Child process: run generated wrappers on CPU tensors through Triton's interpreter.

``python -m compilescope.torch_internals.interpret_worker FOLDER`` with TRITON_INTERPRET=1. FOLDER holds ``jobs.json``
and raw tensors; one ``result_N.json`` and raw tensors come out for each job, as soon as it is done.
"""

from __future__ import annotations

import json
import re
import sys
import traceback
from pathlib import Path
from typing import Any

import torch

from compilescope.torch_internals.interpret_attention import attention_on_the_cpu
from compilescope.torch_internals.interpret_shims import install
from compilescope.torch_internals.interpret_wire import read_tensor, write_tensor

# The wrapper was written for CUDA device 0; here its buffers are CPU tensors and there are no streams.
_FOR_CPU = (
    ("empty_strided_cuda", "empty_strided_cpu"),
    ("torch.cuda._DeviceGuard(0)", "contextlib.nullcontext()"),
    ("torch.cuda.set_device(0)", "pass"),
    ("device='cuda:0'", "device='cpu'"),
    ("device=device(type='cuda', index=0)", "device='cpu'"),
    ("device(type='cuda', index=0)", "device('cpu')"),
    ("device='cuda'", "device='cpu'"),
    ("from torch._C import _cuda_getCurrentRawStream as get_raw_stream", "get_raw_stream = lambda _: 0"),
    ("get_raw_stream = torch._C._cuda_getCurrentRawStream", "get_raw_stream = lambda _: 0"),
)


def on_cpu(code: str) -> str:
    """A generated wrapper, with its kernels untouched, that allocates and launches on the CPU."""
    for old, new in _FOR_CPU:
        code = code.replace(old, new)
    code = _ASSERT.sub(r"\1\2 = laid_out(\2, ", code)
    return f"import contextlib\nfrom compilescope.torch_internals.interpret_worker import laid_out\n{code}"


_ASSERT = re.compile(r"^(\s+)assert_(?:size_stride|tensor_metadata)\((\w+), ", re.MULTILINE)
"""The second name is that of 2.14 and 2.15, for what a library call gives."""


def laid_out(tensor: torch.Tensor, size: tuple[int, ...], stride: tuple[int, ...], *_: Any) -> torch.Tensor:
    """The tensor with the strides that the GPU's library call would give it: convolutions differ."""
    if tuple(tensor.stride()) == tuple(stride) and tuple(tensor.size()) == tuple(size):
        return tensor
    return torch.empty_strided(size, stride, dtype=tensor.dtype).copy_(tensor)


def run_job(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Outputs and final arguments of one wrapper."""
    from torch._inductor.codecache import PyCodeCache

    module: Any = PyCodeCache.load(on_cpu(job["code"]))
    for name, told in job["constants"].items():
        setattr(module, name, read_tensor(told, folder / told["file"]))
    args = [read_tensor(one, folder / one["file"]) if "file" in one else one["value"] for one in job["args"]]
    outputs = list(module.call(list(args)))
    return {
        "outputs": _write(outputs, folder, f"{job['name']}_out"),
        "args": _write(args, folder, f"{job['name']}_arg"),
    }


def _write(values: list[Any], folder: Path, stem: str) -> list[dict[str, Any] | None]:
    told: list[dict[str, Any] | None] = []
    for number, value in enumerate(values):
        if not isinstance(value, torch.Tensor):
            told.append(None)
            continue
        name = f"{stem}{number}.raw"
        told.append({**write_tensor(value, folder / name), "file": name})
    return told


def main() -> None:
    """Do the jobs in order; one that fails says why, and the next goes on."""
    import torch._inductor.config as inductor_config

    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    install()
    inductor_config.compile_threads = 1
    inductor_config.force_disable_caches = True
    for job in json.loads((folder / "jobs.json").read_text(encoding="utf-8")):
        try:
            with attention_on_the_cpu():
                result = run_job(job, folder)
        except Exception as error:
            said = traceback.format_exc(limit=-3)
            result = {"error": f"{type(error).__name__}: {error}"[:500], "traceback": said[:4000]}
        part = folder / f"result_{job['name']}.part"
        part.write_text(json.dumps(result), encoding="utf-8")
        part.rename(folder / f"result_{job['name']}.json")


if __name__ == "__main__":
    main()
