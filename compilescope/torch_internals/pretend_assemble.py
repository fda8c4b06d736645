"""From Triton source to machine code without a driver, by the tools that the triton wheel carries."""

from __future__ import annotations

import contextlib
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from compilescope.torch_internals.pretend_device import capability
from compilescope.torch_internals.pretend_kernels import load_tuner
from compilescope.torch_internals.pretend_world import pretended_gpu

_TARGET = re.compile(r"^\.target (\w+)", re.MULTILINE)
_USED = re.compile(r"Used (\d+) registers")
_SPILLED = re.compile(r"(\d+) bytes spill stores")


def machine_code(kernels: dict[str, str], gpu: str, config: int = 0) -> dict[str, dict[str, Any]]:
    """Per kernel name ``ptx``, ``sass``, ``registers`` (per thread), ``shared`` and ``spills`` (bytes).

    `config` is the place of the autotune configuration. A kernel that does not compile has ``error`` alone. Leans on
    ``triton.compile`` with a ``GPUTarget``, on the wheel's ``ptxas`` and ``nvdisasm`` (3.6 to 3.9), and on
    ``CachingAutotuner._create_compile_meta`` (2.11 to 2.15).
    """
    found: dict[str, dict[str, Any]] = {}
    with pretended_gpu(gpu), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kernel, source in kernels.items():
            try:
                found[kernel] = _assemble(load_tuner(kernel, source, folder), capability(gpu), config, folder)
            except subprocess.CalledProcessError as error:
                said = (str(error.stderr).strip().splitlines() or ["nothing"])[0].replace(f"{folder}/", "")
                found[kernel] = {"error": f"{Path(error.cmd[0]).name} said: {said}"}
            except Exception as error:  # Triton's compiler raises what it likes; the other kernels go on
                first = (str(error).strip().splitlines() or [""])[0]
                found[kernel] = {"error": f"{type(error).__name__}: {first}"}
    return found


def _assemble(tuner: Any, arch: int, config: int, folder: Path) -> dict[str, Any]:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    chosen = tuner.configs[min(config, len(tuner.configs) - 1)]
    meta = tuner._create_compile_meta(chosen)
    options = {"num_warps": meta["num_warps"], "num_stages": meta["num_stages"]}
    if hasattr(tuner, "_create_compile_options"):
        with contextlib.suppress(TypeError):  # its parameters moved; the two options above are what matters
            options = tuner._create_compile_options(chosen, meta)
    source = ASTSource(tuner.fn, meta["signature"], meta["constants"], meta["configs"][0])
    binary = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
    return {
        "ptx": readable_ptx(binary.asm["ptx"]),
        "shared": int(binary.metadata.shared),
        **_resources(binary.asm["ptx"], arch, folder),
        "sass": _disassemble(binary.asm["cubin"], folder),
    }


def readable_ptx(ptx: str) -> str:
    """PTX without the debug sections and without the folder of the file that was compiled."""
    ptx = re.sub(r"\n\s*\.section\s+\.debug_\w+\s*\{.*?\n\s*\}", "", ptx, flags=re.DOTALL)
    return re.sub(r'(\.file\s+\d+ ")[^"]*/', r"\1", ptx).rstrip() + "\n"


def tool(name: str) -> Path:
    """Path of the ``nvdisasm``, or another tool, that Triton itself uses. Raises FileNotFoundError where there is none.

    Leans on ``triton.knobs.nvidia`` (3.6 to 3.9): torch's CUDA builds point it at a ``ptxas`` of their own, and the one
    of the wheel may be too old to read the PTX made for that.
    """
    from triton import knobs

    path = Path(getattr(knobs.nvidia, name).path)
    if not path.exists():
        raise FileNotFoundError(f"this triton wheel has no {name}")
    return path


def _ptxas(arch: int) -> str:
    """The ``ptxas`` that Triton takes for sm_`arch`: there are two, and one reads older PTX only.

    Leans on ``triton.backends.nvidia.compiler.get_ptxas`` (3.6 to 3.9).
    """
    from triton.backends.nvidia import compiler

    return str(compiler.get_ptxas(arch).path)


def _resources(ptx: str, arch: int, folder: Path) -> dict[str, int]:
    target = _TARGET.search(ptx)
    source = folder / "kernel.ptx"
    source.write_text(ptx, encoding="utf-8")
    chip = target[1] if target else "sm_90a"
    command = [_ptxas(arch), "-v", f"--gpu-name={chip}", str(source), "-o", str(folder / "out.cubin")]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stderr
    used, spilled = _USED.search(said), _SPILLED.search(said)
    return {"registers": int(used[1]) if used else 0, "spills": int(spilled[1]) if spilled else 0}


def _disassemble(cubin: bytes, folder: Path) -> str:
    path = folder / "kernel.cubin"
    path.write_bytes(cubin)
    done = subprocess.run(
        [str(tool("nvdisasm")), "-c", str(path)], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout
