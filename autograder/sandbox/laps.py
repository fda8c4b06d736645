"""Laps of a race, run in a job: the grader looks at its own clock from the order to the values.

From the grader ``{"prepare": name, "module": …, "asked": …}``, answered by ``{"ready": 1}``; then any number of
``{"lap": calls, "nonce": number}``, answered by ``{"lap": values}``. ``{"error": sentence}`` may stand for either.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any


class Racer:
    """Makes the answer in `namespace` ready, and runs its laps."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace
        self._lap: Any = None

    def answered(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """What to say to one order."""
        from autograder.exercise import Answer
        from autograder.quiet import quiet

        try:
            if "lap" in order:
                return {"lap": self._lap(order["lap"], order["nonce"])}
            with quiet():
                prepare = getattr(importlib.import_module(order["module"]), order["prepare"])
                self._lap = prepare(Answer(self._namespace), order["asked"])
            return {"ready": 1}
        except BaseException as error:
            return {"error": f"{type(error).__name__}: {error}"[:300]}
