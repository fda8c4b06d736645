"""The answer to "would this call compile again?": a fact about a call that is not made. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from compilescope.facts import Refusal


@dataclass(frozen=True)
class Verdict:
    """What Dynamo would do with a call, asked without calling. True in an ``if`` when it would compile again."""

    function: str
    outcome: Literal["hit", "first compile", "recompile", "give up"]
    entries: tuple[str, ...] = ()
    """Compile ids of the cached entries, in the order they are tried."""
    accepts: str | None = None
    """The entry that accepts these arguments."""
    refusals: tuple[Refusal, ...] = ()
    """For each entry that is asked and does not accept: the first guard that refuses."""

    def __bool__(self) -> bool:
        return self.outcome == "recompile"
