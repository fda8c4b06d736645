"""Import early what a first compile would import."""

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
