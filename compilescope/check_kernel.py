"""Check a hand-written Triton kernel, with or without a GPU: its numbers, its bounds, its masks, its races."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from compilescope.interpret import run_child
from compilescope.kernel_findings import Finding, compile_finding, memory_findings, number_findings
from compilescope.pretend import NO_TRITON
from compilescope.torch_internals.interpret_source import (
    KernelSource,
    bare,
    first_config,
    for_interpreter,
    is_triton_kernel,
    kernel_source,
)
from compilescope.torch_internals.interpret_wire import read_tensor, write_tensor
from compilescope.torch_internals.pretend_capture import copied
from compilescope.torch_internals.pretend_world import has_triton

_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_H100 = 90


@dataclass(frozen=True)
class KernelCheck:
    """The verdict on a kernel: right when there are no findings."""

    kernel: str
    ran_on: str
    """``Triton's interpreter`` or the name of the GPU, where the numbers come from."""
    findings: tuple[Finding, ...] = ()
    advice: tuple[str, ...] = ()
    """What is right here and may go wrong elsewhere."""
    largest_error: float | None = None
    """Largest absolute difference from the reference over the reference's largest magnitude."""
    wrote: tuple[str, ...] = ()
    """Parameters whose tensors it stores into, in their order."""
    by_one_program: dict[str, int] = field(default_factory=dict)
    """For each of these, the most elements that were stored last by one and the same program."""
    outputs: dict[str, torch.Tensor] = field(default_factory=dict, compare=False, repr=False)
    """What is in these tensors afterwards; elements that were never stored are as they came in."""

    @property
    def ok(self) -> bool:
        """Right numbers, nothing outside its arguments, no race."""
        return not self.findings

    def __str__(self) -> str:
        if self.ok:
            lines = [f"{self.kernel} is right (on {self.ran_on}; largest error {self.largest_error or 0:.1e})."]
        else:
            lines = [finding.sentence for finding in self.findings]
        return "\n".join((*lines, *self.advice))


def check_kernel(
    kernel: Any,
    grid: Sequence[int] | Callable[[dict[str, Any]], Sequence[int]],
    args: Sequence[Any],
    reference: Callable[..., Any],
    *,
    time_limit: float = 60.0,
    tolerance: float | None = None,
    **constexprs: Any,
) -> KernelCheck:
    """Run ``kernel[grid](*args, **constexprs)`` on copies of `args` and compare what it writes with `reference`.

    Args:
        kernel: a function with ``@triton.jit``, autotuned or not (then its first configuration is used).
        grid: as for a launch: up to three numbers, or a function of the constexprs.
        args: tensors and numbers, in the order of the kernel's parameters. They are not changed.
        reference: called with copies of `args`; returns the tensors the kernel should write, in the order of its
            parameters (one tensor, or a tuple).
        time_limit: seconds for Triton's interpreter, which runs in a child process.
        tolerance: allowed largest error, relative to the largest magnitude; by default what the dtype explains.
        **constexprs: the kernel's other parameters by name, ``BLOCK=1024``, and launch options such as ``num_warps``.

    Triton's compiler is asked whether it takes the kernel, for an H100, GPU or not: its interpreter takes more. Each
    address is checked in the interpreter, also where there is a GPU: reads and writes outside the arguments,
    elements that two programs write or that one reads while another writes, elements that nobody writes. Where
    there is a GPU and memory is in order, the numbers are the GPU's. Raises ValueError for arguments that do not fit.
    """
    if not has_triton():
        return KernelCheck(getattr(kernel, "__name__", "kernel"), "nothing", (Finding("not run", NO_TRITON),))
    if not is_triton_kernel(kernel):
        raise ValueError(f"{kernel!r} is no Triton kernel: decorate a function with @triton.jit.")
    source = kernel_source(kernel)
    launch = {**first_config(kernel), **constexprs}
    named = _named(source, args, launch)
    size = tuple(int(one) for one in (grid({**launch, **named}) if callable(grid) else grid))
    wanted = reference(*(copied(one) if isinstance(one, torch.Tensor) else one for one in args))
    wanted = tuple(wanted) if isinstance(wanted, (tuple, list)) else (wanted,)
    options = {name: launch[name] for name in _OPTIONS if name in launch}
    result, outputs = _interpret(source, named, size, options, time_limit)
    if isinstance(result, Finding):
        return KernelCheck(source.name, "Triton's interpreter", (result,))
    findings = memory_findings(result, source)
    ran_on = "Triton's interpreter"
    if torch.cuda.is_available() and not findings:
        ran_on = torch.cuda.get_device_name()
        outputs = _on_gpu(kernel, size, args, launch, tuple(outputs), source.parameters)
    by_one = {name: result["tensors"][name]["by_one_program"] for name in outputs}
    if result["error"]:  # what it wrote until then says nothing
        return KernelCheck(source.name, ran_on, findings, (), None, tuple(outputs), by_one, outputs)
    numbers, largest = number_findings(outputs, wanted, result["tensors"], tolerance)
    advice = tuple(
        f"{name} changes with what stands in lanes that a mask switches off: give tl.load an other=."
        for name in result["polluted"]
    )
    return KernelCheck(source.name, ran_on, (*findings, *numbers), advice, largest, tuple(outputs), by_one, outputs)


def _named(source: KernelSource, args: Sequence[Any], launch: dict[str, Any]) -> dict[str, Any]:
    if len(args) > len(source.parameters):
        raise ValueError(
            f"{source.name} has {len(source.parameters)} parameters, and {len(args)} arguments were given."
        )
    named = dict(zip(source.parameters, args, strict=False))
    named |= {name: value for name, value in launch.items() if name in source.parameters}
    absent = [name for name in source.parameters if name not in named]
    if absent:
        raise ValueError(f"{source.name} needs {', '.join(absent)}: pass a constexpr by name, BLOCK=1024.")
    for name, value in named.items():
        if isinstance(value, torch.Tensor) and value.numel() == 0:
            raise ValueError(f"{name} is empty: give the kernel something to do.")
    return named


def _interpret(
    source: KernelSource, named: dict[str, Any], grid: tuple[int, ...], options: dict[str, Any], time_limit: float
) -> tuple[Any, dict[str, torch.Tensor]]:
    """What the interpreter found and the tensors it wrote; a `Finding` where there is nothing to compare."""
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(1) as beside:
        folder = Path(name)
        arguments = _write_job(source, named, grid, options, folder)
        refused = beside.submit(_refused, source, folder, time_limit)
        ended = run_child("compilescope.torch_internals.interpret_kernel_worker", folder, time_limit)
        if (finding := refused.result()) is not None:
            return finding, {}
        path = folder / "result.json"
        if not path.exists():
            return Finding("not run", ended or "The interpreter gave no result."), {}
        result = json.loads(path.read_text(encoding="utf-8"))
        told = result["tensors"]
        outputs = {
            key: read_tensor(told[key], folder / told[key]["file"])
            for key in arguments
            if key in told and told[key]["written"]
        }
    return result, outputs


def _write_job(
    source: KernelSource, named: dict[str, Any], grid: tuple[int, ...], options: dict[str, Any], folder: Path
) -> dict[str, Any]:
    """The kernel for the compiler and for the interpreter, and what each has to do; gives the arguments."""
    (folder / "kernel.py").write_text(source.text, encoding="utf-8")
    (folder / "interpreted.py").write_text(for_interpreter(source.text), encoding="utf-8")
    arguments: dict[str, Any] = {}
    for key, value in named.items():
        if isinstance(value, torch.Tensor):
            file = f"in_{key}.raw"
            arguments[key] = {**write_tensor(value.detach().cpu(), folder / file), "file": file}
        else:
            arguments[key] = {"value": value}
    job = {"kernel": source.name, "arguments": arguments}
    (folder / "job.json").write_text(json.dumps({**job, "file": "interpreted.py", "grid": grid}), encoding="utf-8")
    asked = {**job, "file": "kernel.py", "arch": _H100, "options": options}
    (folder / "compile.json").write_text(json.dumps(asked), encoding="utf-8")
    return arguments


def _refused(source: KernelSource, folder: Path, time_limit: float) -> Finding | None:
    """Why Triton's compiler does not take the kernel; None where it does, or where that could not be found out."""
    run_child("compilescope.torch_internals.compile_kernel_worker", folder, time_limit, interpreter=False)
    path = folder / "compiled.json"
    told = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return compile_finding(told, source) if told else None


def _on_gpu(
    kernel: Any, grid: tuple[int, ...], args: Sequence[Any], launch: dict[str, Any],
    written: tuple[str, ...], parameters: tuple[str, ...],
) -> dict[str, torch.Tensor]:  # fmt: skip
    """What the kernel writes there, once: an autotuner would launch it many times on the same tensors."""
    there = [copied(one).cuda() if isinstance(one, torch.Tensor) else one for one in args]
    bare(kernel)[grid](*there, **launch)
    torch.cuda.synchronize()
    by_name = dict(zip(parameters, there, strict=False))
    return {name: by_name[name].cpu() for name in written}
