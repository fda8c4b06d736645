"""PTX, SASS, registers, shared memory and spills of a pretended run, on request: a second or so for each kernel."""

from __future__ import annotations

import dataclasses
from typing import Any

from compilescope.facts import Code, Kernel, Run
from compilescope.pretend import NO_TRITON, keep_graphs
from compilescope.roofline import GPUS
from compilescope.torch_internals.pretend_assemble import machine_code
from compilescope.torch_internals.pretend_world import has_triton


def assemble(run: Run, config: int = 0) -> Run:
    """The same Run with ``ptx``, ``sass``, ``registers``, ``shared_bytes`` and ``spills`` of its Triton kernels.

    Args:
        run: a pretended run, ``observe(fn, on="h100").pretended[0]``. A run that has pretended ones gets theirs filled.
        config: which of `Kernel.configs` to compile; the autotuner of a real GPU would pick by measuring.

    Registers are per thread, shared memory and spills in bytes (spills: what ``ptxas -v`` calls spill stores).
    Without triton the run comes back with a sentence in ``missing``; a kernel that fails becomes one in ``notes``.
    """
    if run.pretended:
        return _changed(run, pretended=tuple(assemble(one, config) for one in run.pretended))
    if run.origin.kind != "pretended":
        return _changed(
            run, missing=run.missing | {"ptx": 'Only a pretended run can be assembled: observe(fn, on="h100").'}
        )
    if not has_triton():
        return _changed(run, missing=run.missing | {"ptx": NO_TRITON, "sass": NO_TRITON})
    notes: list[str] = []
    compiles = tuple(
        dataclasses.replace(compiled, code=tuple(_assembled(code, config, notes) for code in compiled.code))
        for compiled in run.compiles
    )
    return _changed(run, compiles=compiles, notes=run.notes + tuple(dict.fromkeys(notes)))


def _changed(run: Run, **values: Any) -> Run:
    changed = dataclasses.replace(run, **values)
    keep_graphs(run, changed)
    return changed


def _assembled(code: Code, config: int, notes: list[str]) -> Code:
    if code.target not in GPUS:
        return code
    wanted = {kernel.name: kernel.source for kernel in code.kernels if kernel.language == "triton"}
    found = machine_code(wanted, code.target, config)
    return dataclasses.replace(
        code, kernels=tuple(_filled(one, found.get(one.name, {}), notes) for one in code.kernels)
    )


def _filled(kernel: Kernel, found: dict[str, Any], notes: list[str]) -> Kernel:
    if "error" in found:
        notes.append(f"{kernel.name} could not be assembled: {found['error']}")
    if "ptx" not in found:
        return kernel
    return dataclasses.replace(
        kernel,
        ptx=found["ptx"],
        sass=found["sass"],
        registers=found["registers"],
        shared_bytes=found["shared"],
        spills=found["spills"],
    )
