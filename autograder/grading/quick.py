"""What makes the grader's own processes ready sooner."""

from __future__ import annotations

import importlib
import sys

_GRAMMAR = "rfc3987_syntax"


def import_jsonschema() -> None:
    """Import jsonschema, which nbformat needs, without its check of IRIs, which no notebook needs.

    That check builds a grammar when it is imported, which takes a second and a half in each process. jsonschema leaves
    it out where its library is not installed, so for this one import it is not. jsonschema 4.26.
    """
    if "jsonschema" in sys.modules or _GRAMMAR in sys.modules:
        return
    sys.modules[_GRAMMAR] = None  # type: ignore[assignment]
    try:
        importlib.import_module("jsonschema")
    finally:
        del sys.modules[_GRAMMAR]
