"""Child process: ask Triton's compiler whether it takes a hand-written kernel. No GPU is needed, and no torch.

Started with a folder in which ``compile.json`` and the kernel's module are; writes ``compiled.json``.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

_TYPES = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
    "int16": "i16", "int8": "i8", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "i1",
}  # fmt: skip
"""Name of a torch dtype to that of Triton, as ``triton.runtime.jit`` maps them for a launch (3.6 to 3.9)."""


def _kernel(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location("learners_kernel", path)
    if spec is None or spec.loader is None:
        raise ImportError(str(path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def _signature(kernel: Any, arguments: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Type of each parameter, and the values of those that are compiled in."""
    signature: dict[str, str] = {}
    constants: dict[str, Any] = {}
    for parameter in kernel.params:
        told = arguments[parameter.name]
        if parameter.is_constexpr or told.get("value", 0) is None:
            signature[parameter.name] = "constexpr"
            constants[parameter.name] = told["value"]
        else:
            signature[parameter.name] = _type(told)
    return signature, constants


def _type(told: dict[str, Any]) -> str:
    if "dtype" in told:
        return f"*{_TYPES[told['dtype']]}"
    value = told["value"]
    if isinstance(value, bool):
        return "u1"
    if isinstance(value, int):
        return "i32" if -(2**31) <= value < 2**31 else "i64"
    return "fp32"


def attempt(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """``{}`` where it compiles, else ``text`` and ``line`` of the kernel's module (0 where it is not known).

    Leans on ``triton.compile``, ``triton.compiler.ASTSource``, ``JITFunction.params`` and on the attributes ``src``
    and ``node`` of ``CompilationError`` (3.6 to 3.9).
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler.errors import CompilationError

    path = folder / job["file"]
    kernel = _kernel(path, job["kernel"])
    source = ASTSource(kernel, *_signature(kernel, job["arguments"]))
    try:
        triton.compile(source, target=GPUTarget("cuda", job["arch"], 32), options=job["options"])
    except CompilationError as error:
        causes = [error]
        while isinstance(causes[-1].__cause__, CompilationError):
            causes.append(causes[-1].__cause__)
        return {"text": _message(causes[-1]), "line": _line(error, path)}
    except Exception as error:
        return {"text": f"{type(error).__name__}: {str(error).strip()[:300]}", "line": 0}
    return {}


def _message(error: Any) -> str:
    cause = error.__cause__
    said = error.error_message or (f"{type(cause).__name__}: {cause}" if cause is not None else str(error))
    return " ".join(str(said).split())[:300]


def _line(error: Any, path: Path) -> int:
    """Line in the module, from the line in the function's own text."""
    first = next((line for line in (error.src or "").splitlines() if line.startswith("def ")), "")
    lines = path.read_text(encoding="utf-8").splitlines()
    if error.node is None or not first or first not in lines:
        return 0
    return lines.index(first) + int(error.node.lineno)


def main() -> None:
    """Do the job and write ``compiled.json``."""
    folder = Path(sys.argv[1])
    result = attempt(json.loads((folder / "compile.json").read_text(encoding="utf-8")), folder)
    part = folder / "compiled.part"
    part.write_text(json.dumps(result), encoding="utf-8")
    part.rename(folder / "compiled.json")


if __name__ == "__main__":
    main()
