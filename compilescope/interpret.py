"""Run the Triton kernels of a pretended GPU on the CPU, and compare their numbers with eager PyTorch and float64."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from compilescope.facts import Kernel, Run
from compilescope.pretend import NO_TRITON, graphs_of
from compilescope.torch_internals.interpret_reference import is_random, run_graph
from compilescope.torch_internals.interpret_wire import read_tensor, write_tensor
from compilescope.torch_internals.pretend_capture import copied
from compilescope.torch_internals.pretend_codegen import Lowered, replay
from compilescope.torch_internals.pretend_world import has_triton

_SECONDS_PER_LINE = 1.6e-4
"""What one line of a Triton kernel costs the interpreter for one program, on one core of a small machine."""
_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 6e-2}


@dataclass(frozen=True)
class Output:
    """One output tensor. Errors are the largest absolute difference over the largest magnitude in float64."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    from_eager: float
    from_float64: float
    eager_from_float64: float
    """The error of eager PyTorch itself: what rounding alone explains."""
    ok: bool


@dataclass(frozen=True)
class Interpreted:
    """What the kernels of one generated module computed. `sentence` says why, where there is nothing."""

    compile_id: str
    which: str
    outputs: tuple[Output, ...] = ()
    sentence: str = ""
    traceback: str = field(default="", repr=False)

    @property
    def ok(self) -> bool:
        """Each output is as near to float64 as eager PyTorch, or within the rounding of its dtype."""
        return bool(self.outputs) and all(one.ok for one in self.outputs)

    def __str__(self) -> str:
        if not self.outputs:
            return f"{self.compile_id} {self.which}: {self.sentence}"
        worst = max(self.outputs, key=lambda one: one.from_float64)
        verdict = "the same numbers as eager" if self.ok else "NOT the numbers of eager"
        return (
            f"{self.compile_id} {self.which}: {verdict}; largest error {worst.from_float64:.1e} from float64 "
            f"(eager itself: {worst.eager_from_float64:.1e})"
        )


def interpret(run: Run, *, time_limit: float = 60.0) -> tuple[Interpreted, ...]:
    """Execute the kernels of a pretended run on the CPU, through Triton's interpreter, with the learner's inputs.

    Args:
        run: a pretended run of this session, or the run that has it in ``run.pretended``.
        time_limit: seconds for all kernels together. What would take longer is not begun.

    One `Interpreted` for each generated module: the forward, the backward (for a fixed gradient), each graph. The
    kernels run in a child process, from which only raw bytes come back.
    """
    run = run.pretended[0] if run.pretended else run
    captured = graphs_of(run)
    if not has_triton() or captured is None:
        gone = "This run came from a file, or is not pretended: interpret a run of this session, observed with on=…"
        return (Interpreted("", "", sentence=NO_TRITON if not has_triton() else gone),)
    gpu = run.code[0].target if run.code else "h100"
    done: list[Interpreted] = []
    jobs: list[tuple[str, str, Lowered]] = []
    for one in captured:
        compile_id = str(one.compile_id)
        kernels = {code.which: code.kernels for compiled in run.compiles for code in compiled.code
                   if code.compile_id.split("#")[0] == compile_id}  # fmt: skip
        try:
            lowered = replay(one, gpu)
        except Exception as error:
            done.append(Interpreted(compile_id, "", sentence=f"Not run: {type(error).__name__}: {error}"))
            continue
        for number, part in enumerate(lowered):
            which = list(kernels)[number] if number < len(kernels) else "forward"
            refused = _refusal(part, kernels.get(which, ()), time_limit)  # type: ignore[call-overload]
            if refused:
                done.append(Interpreted(compile_id, which, sentence=refused))
            else:
                jobs.append((compile_id, which, part))
    return (*_run_jobs(jobs, time_limit), *done) if jobs else tuple(done)


def _refusal(lowered: Lowered, kernels: tuple[Kernel, ...], time_limit: float) -> str:
    if is_random(lowered.module):
        return "Not run: it draws random numbers, and a GPU draws others than this CPU, so there is nothing to compare."
    slowest, expected = "", 0.0
    for kernel in kernels:
        seconds = _expected_seconds(kernel)
        expected += seconds
        slowest = kernel.name if seconds >= expected / 2 else slowest
    if expected > time_limit:
        return (
            f"Smaller, please: {slowest} and the others would take the interpreter about {expected:,.0f} s, more than "
            f"the limit of {time_limit:.0f} s. Call the function with smaller inputs, or pass time_limit=…"
        )
    return ""


def _expected_seconds(kernel: Kernel) -> float:
    if kernel.language != "triton" or kernel.grid is None:
        return 0.0
    programs = 1
    for size in kernel.grid:
        programs *= size if isinstance(size, int) else 1
    lines = sum(1 for line in kernel.source.splitlines() if " = tl." in line or " = tmp" in line or "tl.store" in line)
    elements = (kernel.bytes_read or 0) / 4
    looped = elements / 2048 if "for r0_offset" in kernel.source else 0.0
    return (programs + looped) * lines * _SECONDS_PER_LINE * kernel.launches


def _run_jobs(jobs: list[tuple[str, str, Lowered]], time_limit: float) -> tuple[Interpreted, ...]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        told = [_write_job(str(number), lowered, folder) for number, (_, _, lowered) in enumerate(jobs)]
        (folder / "jobs.json").write_text(json.dumps(told), encoding="utf-8")
        ended = run_child("compilescope.torch_internals.interpret_worker", folder, time_limit + 30)
        return tuple(
            _compared(compile_id, which, lowered, folder, str(number), ended)
            for number, (compile_id, which, lowered) in enumerate(jobs)
        )


_WITHOUT_VIEWS = (
    "import runpy, sys, types; package = types.ModuleType('compilescope'); package.__path__ = [sys.argv.pop(1)]; "
    "sys.modules['compilescope'] = package; runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)
"""Starts a module of this package without the package's own imports: the child draws nothing, and starts sooner."""


def run_child(module: str, folder: Path, seconds: float, interpreter: bool = True) -> str:
    """Run ``python -m module folder``, under Triton's interpreter; empty when it ended well, else a sentence."""
    environment = {**os.environ, "TRITON_INTERPRET": "1" if interpreter else "0", "CUDA_VISIBLE_DEVICES": ""}
    began = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-c", _WITHOUT_VIEWS, str(Path(__file__).parent), module, str(folder)],
            env=environment, cwd=folder, capture_output=True, text=True, timeout=seconds,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return (
            f"Stopped after {time.monotonic() - began:.0f} s. Smaller, please: call the function with smaller inputs."
        )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        who = "interpreter" if interpreter else "compiler"
        return f"The {who}'s process ended with {done.returncode}: {last[:300]}"
    return ""


def _write_job(name: str, lowered: Lowered, folder: Path) -> dict[str, Any]:
    args: list[dict[str, Any]] = []
    for number, value in enumerate(lowered.calls[0]):
        if isinstance(value, torch.Tensor):
            file = f"{name}_in{number}.raw"
            args.append({**write_tensor(value, folder / file), "file": file})
        else:
            args.append({"value": value})
    constants: dict[str, dict[str, Any]] = {}
    for key, value in lowered.constants.items():
        file = f"{name}_constant_{len(constants)}.raw"
        constants[key] = {**write_tensor(value, folder / file), "file": file}
    return {"name": name, "code": lowered.code, "args": args, "constants": constants}


def _compared(compile_id: str, which: str, lowered: Lowered, folder: Path, name: str, ended: str) -> Interpreted:
    path = folder / f"result_{name}.json"
    if not path.exists():
        return Interpreted(compile_id, which, sentence=ended or "The interpreter's process gave no result.")
    result = json.loads(path.read_text(encoding="utf-8"))
    if "error" in result:
        return Interpreted(compile_id, which, (), f"The interpreter failed: {result['error']}", result["traceback"])
    given = lowered.calls[0]
    eager, eager_args = run_graph(lowered.module, _copies(given), double=False)
    exact, exact_args = run_graph(lowered.module, _copies(given), double=True)
    outputs = [
        _output(f"output {number}", read_tensor(told, folder / told["file"]), eager[number], exact[number])
        for number, told in enumerate(result["outputs"])
        if told is not None
    ]
    for number, told in enumerate(result["args"]):
        if told is not None and not _same(eager_args[number], given[number]):
            written = read_tensor(told, folder / told["file"])
            outputs.append(_output(f"argument {number}", written, eager_args[number], exact_args[number]))
    nothing = "" if outputs else "It has no output that could be compared."
    return Interpreted(compile_id, which, tuple(outputs), nothing)


def _copies(values: list[Any]) -> list[Any]:
    return [copied(one) if isinstance(one, torch.Tensor) else one for one in values]


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return (
        torch.equal(torch.nan_to_num(one), torch.nan_to_num(other))
        if one.is_floating_point()
        else torch.equal(one, other)
    )


def _output(name: str, got: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> Output:
    from_eager, from_exact, eager_error = error(got, eager), error(got, exact), error(eager, exact)
    tolerance = _TOLERANCE.get(got.dtype, 0.0)
    ok = got.shape == eager.shape and from_exact <= max(tolerance, 4 * eager_error)
    return Output(
        name, str(got.dtype).removeprefix("torch."), tuple(got.shape), from_eager, from_exact, eager_error, ok
    )


def error(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """Largest absolute difference over the largest magnitude of `wanted`; infinite where one is nan alone."""
    if got.shape != wanted.shape:
        return float("inf")
    if not got.numel():
        return 0.0
    first, second = got.detach().double(), wanted.detach().double()
    if not torch.equal(first.isnan(), second.isnan()):
        return float("inf")
    equal = first == second  # also where both are infinite
    difference = torch.where(equal | first.isnan(), 0.0, (first - second).abs()).max().item()
    finite = torch.where(second.isfinite(), second.abs(), 0.0).max().item()
    return float(difference / max(finite, 1e-12)) if difference else 0.0
