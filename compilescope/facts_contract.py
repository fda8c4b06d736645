"""What a model keeps of a contract, as frozen dataclasses: no torch, JSON in and out."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import cattrs

from compilescope.facts import Origin


@dataclass(frozen=True)
class Clause:
    """One fact that a model must show before it goes into production."""

    name: str
    wanted: str
    found: str
    kept: bool | None = None
    """None: it could not be measured here, and `found` says why."""
    why: str = ""
    """Where a clause is broken: the line, the guard or the key that broke it first."""
    bonus: bool = False
    """Shown, and no part of the verdict."""


@dataclass(frozen=True)
class Contract:
    """The clauses of one model, and what their pictures are drawn from."""

    origin: Origin
    clauses: tuple[Clause, ...] = ()
    shapes: tuple[str, ...] = ()
    """Shape of each call of the stream, in order: ``4 × 16``."""
    compiled: tuple[int, ...] = ()
    """How many frames compiled in each call of the stream; -1 where the call ran as plain Python."""
    warm_up: int = 0
    """How many calls of the stream count as warm-up."""
    losses: tuple[float, ...] = ()
    exact_losses: tuple[float, ...] = ()
    """The loss before each training step, and the same from eager in float64."""

    def clause(self, name: str) -> Clause:
        """The clause called `name`; KeyError with those that there are."""
        for one in self.clauses:
            if one.name == name:
                return one
        raise KeyError(f"There is no clause {name!r}; there are: {', '.join(one.name for one in self.clauses)}.")

    @property
    def broken(self) -> tuple[Clause, ...]:
        """The clauses that are not kept; a bonus is none of them."""
        return tuple(one for one in self.clauses if one.kept is False and not one.bonus)

    @property
    def kept(self) -> bool:
        """Whether each clause was measured and kept; a bonus does not count."""
        return bool(self.clauses) and all(one.kept for one in self.clauses if not one.bonus)

    def to_json(self) -> str:
        """JSON text; `from_json` gives an equal Contract back."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Contract:
        """The contract of `to_json`'s text. Raises ValueError with a sentence if it is none."""
        try:
            return cattrs.structure(json.loads(text), Contract)
        except (json.JSONDecodeError, cattrs.BaseValidationError, KeyError, TypeError, AttributeError) as error:
            raise ValueError("This is no contract: write one with Contract.to_json().") from error
