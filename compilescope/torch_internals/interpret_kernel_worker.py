"""Child process: run one hand-written kernel through the interpreter, with each memory access watched.

Started with TRITON_INTERPRET=1 and a folder in which ``job.json`` and the raw tensors are.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import torch

from compilescope.torch_internals.interpret_log import AccessLog, Buffer, watch
from compilescope.torch_internals.interpret_shims import install_for_learners
from compilescope.torch_internals.interpret_wire import read_tensor, write_tensor

_ROOM = 1 << 16
"""Elements between arguments, at least."""


def _load_kernel(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location("learners_kernel", path)
    if spec is None or spec.loader is None:
        raise ImportError(str(path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def _arguments(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    return {
        name: _apart(read_tensor(told, folder / told["file"])) if "file" in told else told["value"]
        for name, told in job["arguments"].items()
    }


def _apart(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with as much room of its own on both sides: one element too far must not be a neighbor's first."""
    span = tensor.untyped_storage().nbytes() // tensor.element_size()
    room = max(span, _ROOM)
    whole = torch.zeros(room + span + room, dtype=tensor.dtype)
    whole[room : room + span] = tensor.as_strided((span,), (1,), 0)
    return whole.as_strided(tensor.size(), tensor.stride(), room)


def _buffers(arguments: dict[str, Any]) -> list[Buffer]:
    found = []
    for name, value in arguments.items():
        if isinstance(value, torch.Tensor):
            extent = zip(value.size(), value.stride(), strict=True)
            size = (1 + sum((length - 1) * stride for length, stride in extent)) * value.element_size()
            found.append(Buffer(name, value.data_ptr(), value.data_ptr() + size, value.element_size()))
    return found


def run(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Findings, final tensors, and for each tensor how many elements were never written."""
    path = folder / job["file"]
    kernel = _load_kernel(path, job["kernel"])
    arguments = _arguments(job, folder)
    log = AccessLog(_buffers(arguments), str(path))
    watch(log)
    error = _launch(kernel, log, arguments, job)
    tensors: dict[str, Any] = {}
    for buffer in log.buffers:
        written = buffer.writer != -1
        file = f"out_{buffer.name}.raw"
        missing = (~written).nonzero()[0]
        tensors[buffer.name] = {
            **write_tensor(arguments[buffer.name], folder / file), "file": file, "written": int(written.sum()),
            "missing": len(missing), "first_missing": int(missing[0]) if len(missing) else None,
            "by_one_program": int(np.bincount(buffer.writer[written]).max()) if written.any() else 0,
        }  # fmt: skip
    result: dict[str, Any] = {"findings": log.findings, "tensors": tensors, "error": error, "polluted": []}
    if log.bare_masks and not error:
        result["polluted"] = _polluted(kernel, job, folder, log, arguments)
    return result


def _launch(kernel: Any, log: AccessLog, arguments: dict[str, Any], job: dict[str, Any]) -> dict[str, Any] | None:
    log.dims = tuple((*job["grid"], 1, 1)[:3])
    try:
        kernel[tuple(job["grid"])](**arguments)
    except Exception as error:
        cause = error.__cause__ or error
        lines = [frame.lineno for frame in traceback.extract_tb(cause.__traceback__) if frame.filename == log.file]
        return {"text": f"{type(cause).__name__}: {cause}"[:500], "line": lines[-1] if lines else 0}
    return None


def _polluted(kernel: Any, job: dict[str, Any], folder: Path, log: AccessLog, first: dict[str, Any]) -> list[str]:
    """Names of outputs that change when lanes which a mask switches off, without ``other=``, hold nan."""
    again = _arguments(job, folder)
    log.buffers = sorted(_buffers(again), key=lambda one: one.start)
    log.poison, log.found = True, {}
    if _launch(kernel, log, again, job):
        return []
    return [
        name
        for name, value in again.items()
        if isinstance(value, torch.Tensor) and value.is_floating_point() and not _equal(value, first[name])
    ]


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.isnan(), other.isnan()) and torch.equal(one.nan_to_num(), other.nan_to_num())


def main() -> None:
    """Do the job and write ``result.json``."""
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    install_for_learners()
    result = run(json.loads((folder / "job.json").read_text(encoding="utf-8")), folder)
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
