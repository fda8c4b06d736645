"""Numbers that torch counts for the whole process."""

from __future__ import annotations

import sys


def graphs_captured() -> int:
    """How many graphs Dynamo has handed to a backend so far; 0 before it is imported.

    Leans on ``torch._dynamo.utils.counters["stats"]["unique_graphs"]`` (2.11 to 2.15).
    """
    utils = sys.modules.get("torch._dynamo.utils")
    return int(utils.counters["stats"]["unique_graphs"]) if utils else 0


def forget_counts() -> None:
    """Torch's own counts of what was compiled begin anew in this process.

    Leans on ``torch._dynamo.utils.counters``, a dict of Counters (2.11 to 2.15).
    """
    if utils := sys.modules.get("torch._dynamo.utils"):
        utils.counters.clear()
