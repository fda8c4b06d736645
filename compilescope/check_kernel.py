"""Check a hand-written Triton kernel, with or without a GPU: its numbers, its bounds, its masks, its races."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from compilescope.facts import Source
from compilescope.interpret import error as relative_error
from compilescope.interpret import run_child
from compilescope.pretend import NO_TRITON
from compilescope.torch_internals.interpret_source import KernelSource, first_config, is_triton_kernel, kernel_source
from compilescope.torch_internals.interpret_wire import read_tensor, write_tensor
from compilescope.torch_internals.pretend_capture import copied
from compilescope.torch_internals.pretend_world import has_triton

Kind = Literal[
    "out-of-bounds read", "out-of-bounds write", "race", "missing elements", "wrong numbers", "masked lanes", "crash",
    "not run",
]  # fmt: skip
_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 3e-2}


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, in words, with the learner's line."""

    kind: Kind
    sentence: str
    source: Source | None = None


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

    Each address is checked in the interpreter, also where there is a GPU: reads and writes outside the arguments,
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
    result, outputs = _interpret(source, named, size, time_limit)
    if isinstance(result, Finding):
        return KernelCheck(source.name, "Triton's interpreter", (result,))
    findings = _memory_findings(result, source)
    ran_on = "Triton's interpreter"
    if torch.cuda.is_available() and not findings:
        ran_on = torch.cuda.get_device_name()
        outputs = _on_gpu(kernel, size, args, constexprs, tuple(outputs), source.parameters)
    numbers, largest = _number_findings(outputs, wanted, result["tensors"], tolerance)
    polluted = [name for name in result["polluted"] if not numbers]
    advice = tuple(
        f"{name} changes with what stands in lanes that a mask switches off: give tl.load an other=."
        for name in polluted
    )
    return KernelCheck(source.name, ran_on, (*findings, *numbers), advice, largest, tuple(outputs))


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
    source: KernelSource, named: dict[str, Any], grid: tuple[int, ...], time_limit: float
) -> tuple[Any, dict[str, torch.Tensor]]:
    """What the child found and the tensors it wrote; a `Finding` where it did not come back."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "kernel.py").write_text(source.text, encoding="utf-8")
        arguments: dict[str, Any] = {}
        for key, value in named.items():
            if isinstance(value, torch.Tensor):
                file = f"in_{key}.raw"
                arguments[key] = {**write_tensor(value.detach().cpu(), folder / file), "file": file}
            else:
                arguments[key] = {"value": value}
        job = {"file": "kernel.py", "kernel": source.name, "grid": grid, "arguments": arguments}
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        ended = run_child("compilescope.torch_internals.interpret_kernel_worker", folder, time_limit)
        path = folder / "result.json"
        if not path.exists():
            return Finding("not run", ended or "The interpreter gave no result."), {}
        result = json.loads(path.read_text(encoding="utf-8"))
        told = result["tensors"]
        outputs = {
            key: read_tensor(told[key], folder / told[key]["file"])
            for key in named
            if key in told and told[key]["written"]
        }
    return result, outputs


def _memory_findings(result: dict[str, Any], source: KernelSource) -> tuple[Finding, ...]:
    findings = [_finding(one, source) for one in result["findings"]]
    if result["error"]:
        where = _source(result["error"]["line"], source)
        findings.append(Finding("crash", f"The kernel stopped at {_at(where)}: {result['error']['text']}", where))
    return tuple(findings)


def _finding(told: dict[str, Any], source: KernelSource) -> Finding:
    where = _source(told["line"], source)
    element = f"{told['argument']}[{told['index']}]"
    program = f"program {_program(told['program'])}"
    if told["kind"] == "race":
        sentence = f"Race on {element}: {_RACES[told['how']].format(me=program, other=_program(told['other'] or []))}"
        return Finding("race", f"{sentence} ({_at(where)}).", where)
    reads = told["kind"] == "out-of-bounds read"
    verb, what = ("reads", "read") if reads else ("writes", "write")
    times = f", {told['count']} such {what}s in all" if told["count"] > 1 else ""
    return Finding(
        told["kind"],
        f"{program.capitalize()} {verb} {element}, outside the tensor{times} ({_at(where)}). Does the mask fit?",
        where,
    )


_RACES = {
    "two writes": "program {other} and {me} write different values, and which one stays is chance",
    "two lanes of one store": "two lanes of one store in {me} write different values, and which one stays is chance",
    "read after write": "{me} reads what program {other} writes, and programs have no order",
    "write after read": "{me} writes what program {other} reads, and programs have no order",
}


def _program(place: list[int]) -> str:
    while len(place) > 1 and place[-1] == 0:
        place = place[:-1]
    return str(place[0]) if len(place) == 1 else str(tuple(place))


def _source(line: int, source: KernelSource) -> Source | None:
    return Source(*source.origin(line)) if line else None


def _at(where: Source | None) -> str:
    return f"line {where.line}, {where.code}" if where is not None else "a line that is not known"


def _on_gpu(
    kernel: Any, grid: tuple[int, ...], args: Sequence[Any], constexprs: dict[str, Any],
    written: tuple[str, ...], parameters: tuple[str, ...],
) -> dict[str, torch.Tensor]:  # fmt: skip
    there = [copied(one).cuda() if isinstance(one, torch.Tensor) else one for one in args]
    kernel[grid](*there, **constexprs)
    torch.cuda.synchronize()
    by_name = dict(zip(parameters, there, strict=False))
    return {name: by_name[name].cpu() for name in written}


def _number_findings(
    outputs: dict[str, torch.Tensor], wanted: tuple[Any, ...], told: dict[str, Any], tolerance: float | None
) -> tuple[tuple[Finding, ...], float | None]:
    if len(outputs) != len(wanted):
        names = ", ".join(outputs) or "nothing"
        return (
            Finding("wrong numbers", f"The kernel writes {names}; the reference gives {len(wanted)} tensor(s)."),
        ), None
    findings: list[Finding] = []
    largest = 0.0
    for (name, got), want in zip(outputs.items(), wanted, strict=True):
        want = torch.as_tensor(want).detach().cpu()
        if want.numel() == got.numel() and want.shape != got.shape:
            want = want.reshape(got.shape)
        found = relative_error(got, want)
        largest = max(largest, found)
        allowed = tolerance if tolerance is not None else _TOLERANCE.get(got.dtype, 0.0)
        if found > allowed:
            findings.append(_wrong(name, got, want, told[name], allowed))
    return tuple(findings), largest


def _wrong(name: str, got: torch.Tensor, want: torch.Tensor, told: dict[str, Any], allowed: float) -> Finding:
    if got.shape != want.shape:
        return Finding("wrong numbers", f"{name} has shape {tuple(got.shape)}, the reference {tuple(want.shape)}.")
    near = torch.isclose(got.double(), want.double(), rtol=allowed, atol=allowed * _scale(want), equal_nan=True)
    first = int((~near.reshape(-1)).nonzero()[0]) if not near.all() else 0
    if told["missing"] and not near.all():
        return Finding(
            "missing elements",
            f"{told['missing']} of {got.numel()} elements of {name} are never written, the first is "
            f"{name}[{told['first_missing']}]. Do grid and mask cover the tensor?",
        )
    a, b = got.reshape(-1)[first].item(), want.reshape(-1)[first].item()
    return Finding(
        "wrong numbers",
        f"{int((~near).sum())} of {got.numel()} elements of {name} are wrong: {name}[{first}] is {a:.6g}, not {b:.6g}.",
    )


def _scale(want: torch.Tensor) -> float:
    finite = want.double()[want.double().isfinite()]
    return float(finite.abs().max()) if finite.numel() else 1.0
