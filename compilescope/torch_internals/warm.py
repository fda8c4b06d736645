"""Import early what a first compile would import."""

from __future__ import annotations

import importlib


def import_inductor() -> None:
    """Import Inductor without compiling anything: a process that forks afterwards shares it with its children.

    Leans on the module ``torch._inductor.compile_fx`` (2.11 to 2.15); where there is none, nothing is imported.
    """
    try:
        importlib.import_module("torch._inductor.compile_fx")
    except ModuleNotFoundError:
        return
