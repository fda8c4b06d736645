"""An exercise as one object: what is judged, points, hints, and the mistakes it must recognize."""

from __future__ import annotations

import copy
import hashlib
import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import torch

T = TypeVar("T")

STUB = "your code here"
"""What a learner notebook says where the solution was; a function that still says so is unsolved."""


class NotYet(Exception):  # noqa: N818 - no error of ours: the answer is not right yet
    """The first failing fact of an answer, in four parts, at most 45 words together."""

    def __init__(self, ran: str, got: str, wanted: str, look: str) -> None:
        self.ran, self.got, self.wanted, self.look = ran, got, wanted, look
        super().__init__(self.sentence())

    def sentence(self) -> str:
        """What ran, what came out; what was expected. Where to look."""
        return f"{self.ran} {self.got}; {self.wanted}. {self.look}".rstrip()


class Draw:
    """Fresh inputs for one check, all from one seed.

    With ``COURSE_SECRET`` in the environment the seed comes from it and the exercise's name, so that an instructor's
    inputs are the same for the whole class and known to nobody; without it every check draws anew.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._random = random.Random(seed)

    @staticmethod
    def fresh(exercise: str) -> Draw:
        """The inputs for one check of `exercise`."""
        secret = os.environ.get("COURSE_SECRET")
        material = f"{secret}/{exercise}".encode() if secret else os.urandom(16)
        return Draw(int.from_bytes(hashlib.sha256(material).digest()[:6], "big"))

    @property
    def device(self) -> str:
        """``cuda`` where there is a GPU, else ``cpu``."""
        import torch

        return "cuda" if torch.cuda.is_available() else "cpu"

    def size(self, low: int, high: int) -> int:
        """A dimension between `low` and `high`, both included."""
        return self._random.randint(low, high)

    def choice(self, options: Sequence[T]) -> T:
        """One of `options`."""
        return self._random.choice(options)

    def number(self, low: float, high: float) -> float:
        """A float between `low` and `high`."""
        return self._random.uniform(low, high)

    def tensor(self, *shape: int, dtype: torch.dtype | None = None, requires_grad: bool = False) -> torch.Tensor:
        """Standard normal values of that shape on `device`; float32 unless `dtype` says otherwise."""
        import torch

        generator = torch.Generator().manual_seed(self._random.getrandbits(40))
        values = torch.randn(*shape, generator=generator).to(device=self.device, dtype=dtype or torch.float32)
        return values.requires_grad_(requires_grad)


class Answer:
    """What the learner defined: ``answer.price`` is their `price`."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace

    def __getattr__(self, name: str) -> Any:
        """The learner's object of that name."""
        try:
            return self._namespace[name]
        except KeyError:
            raise NotYet(
                f"{name}", "is not defined", "this exercise needs it", "Run the cell above, then check again."
            ) from None


def start_clean() -> None:
    """No compiled code and no stance left from before: whoever counts compiles begins here."""
    import torch

    torch.compiler.reset()
    torch.compiler.set_stance("default")


Values = dict[str, Any]
"""What crosses between a check and the process of an answer: by name None, bool, int, float, str, tensors, Runs, and
lists and dicts (with str keys) of these. Nothing else, so that nothing is ever unpickled. What an answer returned and
what cannot cross arrives as an `autograder.wire.Opaque`, a tuple as a list, a Run without its result."""


@dataclass(frozen=True)
class Check:
    """How an exercise is judged, in three parts, of which only `probe` needs the learner's process.

    A learner's own check runs all three in the notebook. Grading runs `ask` and `judge` where no answer can reach
    them: expected values, and anything that decides, belongs into `judge`.
    """

    ask: Callable[[Draw], Values]
    """Fresh inputs: sizes, seeds, choices, tensors."""
    probe: Callable[[Answer, Values], Values]
    """Runs the answer on the inputs and reports what came out: values, and Runs as facts. It may raise NotYet where
    nothing sensible can be reported, such as something that is no function."""
    judge: Callable[[Values, Values], str | None]
    """From the inputs as drawn and what `probe` reported: raises NotYet with the first failing fact, or returns a
    few words on what was found."""

    def __call__(self, answer: Answer, draw: Draw) -> str | None:
        """All three in this process. The answer gets copies of the inputs, so that what it overwrites stays its own."""
        from autograder.wire import plain

        asked = plain(self.ask(draw), strict=True)
        start_clean()
        found = plain(self.probe(answer, copy.deepcopy(asked)))
        start_clean()
        return self.judge(asked, found)


@dataclass(frozen=True)
class KnownMistake:
    """A wrong program that learners write (or a cheat), and what its feedback must say."""

    code: str
    says: str


Lap = Callable[[int, int], Values]
"""So many calls, one fed by the other, from a number that nobody knew before; values that tell what was computed."""


@dataclass(frozen=True)
class Bonus:
    """How fast a right answer is on a GPU, as a ratio in one run, on a clock that no answer can reach. Never points."""

    prepare: Callable[[Answer, Values], Lap]
    """At the top of its module, as a probe is: makes what is raced out of an answer; it runs in the answer's process
    and, for `reference`, in one of ours."""
    ask: Callable[[Draw], Values]
    """Inputs of the race."""
    right: Callable[[Values, int, int, Values], bool]
    """From the inputs, calls, number and what a lap returned: whether the answer computed it."""
    reference: str
    """The program that is raced against, in the shape of an answer."""
    wanted: float
    """How many times as fast as `reference` the answer shall be."""
    of: str
    """What `reference` is, in words: ``a plain copy``."""


@dataclass(frozen=True)
class Exercise:
    """One exercise. Its prose stays in the lesson."""

    name: str
    lesson: str
    points: int
    asks_for: tuple[str, ...]
    """Names the learner defines."""
    check: Check = field(repr=False)
    """What is asked, what the answer does, what is judged."""
    hints: tuple[str, str, str] = field(repr=False)
    """Where to look, which rule, the shape of the code."""
    known_mistakes: tuple[KnownMistake, ...] = field(repr=False)
    alternatives: tuple[str, ...] = field(default=(), repr=False)
    """Other right answers, in styles a good engineer would use."""
    bonus: Bonus | None = field(default=None, repr=False)
