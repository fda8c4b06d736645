"""Import early what a first compile would import, and leave out what only many compiles are worth."""

from __future__ import annotations

import contextlib
import importlib

LATE = (
    "torch._inductor.compile_fx",
    "torch._inductor.cudagraph_trees",
    "torch.distributed.tensor.experimental",
    "torch.testing._internal.optests",
    "sympy.combinatorics",
    "sympy.sets.setexpr",
    "sympy.tensor.tensor",
)
"""What a compile, an observation or `torch.library.opcheck` imports only when it needs it (2.11 to 2.15)."""


def import_inductor() -> None:
    """Import Inductor and `LATE` without compiling anything: a process that forks afterwards shares it all.

    A module that this torch does not have is left out.
    """
    for name in LATE:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)


def precompile_no_headers() -> None:
    """Have Inductor compile C++ without a precompiled header of its own, in this process and its forks.

    The header takes longer than the few kernels of one job, and a process remembers where it lies: in a temporary
    folder, which a fork with a folder of its own does not have. `torch._inductor.config` (2.11 to 2.15).
    """
    import torch._inductor.config as config

    config.cpp_cache_precompile_headers = False
