"""PyTorch's registry of graph breaks."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import torch._dynamo


def number_of(reason: str) -> str | None:
    """``GB0170`` for ``Data-dependent branching``: the entry whose type is that text; None if there is none.

    Leans on ``torch/_dynamo/graph_break_registry.json`` and its ``Gb_type`` (2.11 to 2.15). A report of a break
    carries the number in its URL; this is for a report without one.
    """
    return _numbers().get(reason)


@functools.cache
def _numbers() -> dict[str, str]:
    path = Path(torch._dynamo.__file__).parent / "graph_break_registry.json"
    try:
        registry = json.loads(path.read_text(encoding="utf-8"))
        return {str(entry["Gb_type"]): number for number, entries in registry.items() for entry in entries}
    except (OSError, ValueError, TypeError, KeyError):
        return {}
