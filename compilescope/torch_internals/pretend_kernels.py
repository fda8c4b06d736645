"""What Inductor's own launcher code says of a generated Triton kernel: autotune configurations and launch grid."""

from __future__ import annotations

import contextlib
import importlib.util
import linecache
import re
import tempfile
from pathlib import Path
from typing import Any

from compilescope.torch_internals.pretend_world import has_triton, pretended_gpu

_CEILING = re.compile(r"-\(\((.+?)\) // -\((\d+)\)\)")


def launch_facts(kernels: dict[str, str], gpu: str) -> dict[str, dict[str, Any]]:
    """Per kernel name its ``configs`` (texts), ``signature`` (argument names) and ``grids`` (one per configuration).

    A grid is three expressions in the kernel's own size names (``ceil(xnumel / 128)``). Needs triton; empty without.
    Leans on ``torch._inductor.runtime.triton_heuristics.CachingAutotuner`` and ``GridExpr`` (2.11 to 2.15).
    """
    if not has_triton() or not kernels:
        return {}
    facts: dict[str, dict[str, Any]] = {}
    with pretended_gpu(gpu), tempfile.TemporaryDirectory() as folder:
        for name, source in kernels.items():
            tuner = load_tuner(name, source, Path(folder))
            facts[name] = {
                "configs": [str(config) for config in tuner.configs],
                "signature": list(tuner.triton_meta["signature"]),
                "grids": [_grid(tuner.inductor_meta, config) for config in tuner.configs],
                "fixed": tuner.inductor_meta.get("grid_type") == "FixedGrid",
            }
    return facts


def load_tuner(name: str, source: str, folder: Path) -> Any:
    """The `CachingAutotuner` that the kernel's module makes, imported from a file in `folder`."""
    path = folder / f"{name[:100]}.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{name} is no Python module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    linecache.cache.pop(str(path), None)  # Triton has read it; the file goes, and so would never the entry
    return getattr(module, name, None) or next(v for v in vars(module).values() if hasattr(v, "triton_meta"))


def _grid(meta: dict[str, Any], config: Any) -> list[str]:
    from torch._inductor.runtime.triton_heuristics import GridExpr

    with contextlib.suppress(Exception):  # a grid that needs more than the sizes stays unknown
        grid = GridExpr.from_meta(meta, config)
        if not grid.prefix:
            return [_CEILING.sub(r"ceil(\1 / \2)", str(one)) for one in (grid.x_grid, grid.y_grid, grid.z_grid)]
    return []
