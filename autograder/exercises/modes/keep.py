"""modes_3: results that a later replay overwrites, and three ways not to lose them.

A new step warms up and records before it replays: reading those two results later raises. A warm step only replays:
what is kept of it shows the numbers of a later call, and no error says so. `every_result` gets a new step, `total` a
warm one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.judging import beside, called, exact, kind_of, same_numbers
from compilescope import replayed

Step = Callable[[torch.Tensor], torch.Tensor]


def work_of(asked: Values) -> Step:
    """The step on a batch [rows, width], numbers in and out; one of two, with a drawn factor."""
    factor: float = asked["factor"]

    def gate(x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = torch.sigmoid(x) * x * factor
        return out

    def spread(x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = (x - x.mean(-1, keepdim=True)) * factor
        return out

    return {"gate": gate, "spread": spread}[asked["work"]]


def ask(draw: Draw) -> Values:
    """Batches of one size, and what is computed of each."""
    rows, width = draw.size(2, 6), draw.size(3, 9)
    batches = [draw.tensor(rows, width) for _ in range(draw.size(4, 7))]
    return {"work": draw.choice(("gate", "spread")), "factor": draw.number(0.5, 2), "batches": batches}


_LATER = (2, 3)
"""What the first batch is multiplied by for the calls that follow before a result is read."""


def probe(answer: Answer, asked: Values) -> Values:
    """Each function gets a step of its own; the step goes on being called before anything is read."""
    work, batches = work_of(asked), asked["batches"]
    found: Values = {}
    with torch.no_grad(), beside(batches[0]):
        for name, before in (("every_result", []), ("total", batches[:3])):
            torch.compiler.reset()  # else, on a GPU, a step of the same work finds a graph that is there
            step = _Counted(replayed(work), before)
            result = called(f"{name}(step, batches)", getattr(answer, name), step, batches)
            calls = step.calls
            for times in _LATER:
                step(batches[0] * times)
            found[name] = {"result": _read(result), "calls": calls}
        torch.compiler.reset()
        replays: list[_Counted] = []

        def replay(fn: Callable[..., Any]) -> _Counted:
            replays.append(_Counted(replayed(fn)))
            return replays[-1]

        # called as often as a loop would call it: to warm up, to record, and to replay
        results = [
            called("all_at_once(…)", answer.all_at_once, work, replay, [b * times for b in batches])
            for times in (1, 2, 3)
        ]
        found["all_at_once"] = {"result": _read(results[-1]), "calls": sum(one.calls for one in replays)}
        torch.compiler.reset()
    return found


class _Counted:
    """A step that knows how often it was called, after one call for each of the batches `before`."""

    def __init__(self, fn: Callable[..., Any], before: Sequence[torch.Tensor] = ()) -> None:
        self.fn, self.calls = fn, 0
        for batch in before:
            fn(batch)

    def __call__(self, *args: torch.Tensor) -> Any:
        self.calls += 1
        return self.fn(*args)


def _read(result: Any) -> Any:
    """The numbers as ordinary tensors, or what reading them raised."""
    try:
        if isinstance(result, (list, tuple)):
            return [_read(one) for one in result]
        return result.clone().cpu() if isinstance(result, torch.Tensor) else result
    except RuntimeError:
        return "overwritten"


def judge(asked: Values, found: Values) -> str:
    """Right numbers, read late; from one call of the step a batch, or one of the whole."""
    work, batches = work_of(asked), [exact(batch) for batch in asked["batches"]]
    want = [work(batch) for batch in batches]
    others = [*want, *(work(batches[0] * times) for times in _LATER)]
    label = "every_result(step, batches)"
    every = found["every_result"]["result"]
    if not isinstance(every, list) or len(every) != len(want):
        raise NotYet(
            label, f"returned {kind_of(every)}", f"{len(want)} results are wanted", "Look at your return line."
        )
    for number, (got, wanted) in enumerate(zip(every, want, strict=True), 1):
        _one(label, f"result {number} of {len(want)}", got, wanted, others)
    _calls(label, found["every_result"]["calls"], len(want))
    label = "total(step, batches)"
    _one(label, "its result", found["total"]["result"], torch.stack(want).sum(0), others)
    _calls(label, found["total"]["calls"], len(want))
    label = "all_at_once(fn, replay, batches)"
    _one(label, "its result", found["all_at_once"]["result"], torch.stack([work(batch * 3) for batch in batches]), [])
    if found["all_at_once"]["calls"] != 3:
        calls = found["all_at_once"]["calls"]
        raise NotYet(
            label, f"called replayed code {calls} times in 3 calls", "once a call is wanted", "Put the loop inside fn."
        )
    return "nothing that you keep is overwritten"


_LOOK = "Look at what outlives the next call of step."


def _one(label: str, which: str, got: Any, want: torch.Tensor, others: list[torch.Tensor]) -> None:
    """`got` is `want`; not memory that raises by now, and not what another call has left there."""
    if isinstance(got, str):
        own = "numbers of its own are wanted"
        raise NotYet(label, f"kept memory that was overwritten ({which}; reading it raises)", own, _LOOK)
    if not _near(got, want) and any(_near(got, other) for other in others):
        own = "its own are wanted, and no error tells you"
        raise NotYet(label, f"kept memory that was overwritten ({which} has another call's numbers)", own, _LOOK)
    try:
        same_numbers(f"{label}, {which},", got, want, torch.float32)
    except NotYet as wrong:
        look = f"Is the sum right? {_LOOK} A replay overwrites without an error." if others else wrong.look
        raise NotYet(wrong.ran, wrong.got, wrong.wanted, look) from None


def _near(got: Any, want: torch.Tensor) -> bool:
    if not isinstance(got, torch.Tensor) or got.shape != want.shape:
        return False
    return torch.allclose(exact(got), want, rtol=1e-4, atol=1e-4)


def _calls(label: str, calls: int, wanted: int) -> None:
    if calls != wanted:
        raise NotYet(label, f"called step {calls} times", f"{wanted} batches want {wanted} calls", "Look at your loop.")


_START = "import torch\n"
_EVERY = "\ndef every_result(step, batches):\n    return [step(batch).clone() for batch in batches]\n"
_TOTAL = """
def total(step, batches):
    total = torch.zeros_like(batches[0])
    for batch in batches:
        total += step(batch)
    return total
"""
_AT_ONCE = """
loops = {}
def all_at_once(fn, replay, batches):
    if fn not in loops:
        loops[fn] = replay(lambda *batches: torch.stack([fn(batch) for batch in batches]))
    return loops[fn](*batches)
"""


def _every(code: str, says: str) -> KnownMistake:
    return KnownMistake(_START + code + _TOTAL + _AT_ONCE, says)


EXERCISE = Exercise(
    name="modes_3",
    lesson="05_modes",
    points=3,
    asks_for=("every_result", "total", "all_at_once"),
    check=Check(ask, probe, judge),
    hints=(
        "Which tensor outlives the next call of step? Read a kept one two calls later: an error, or whose numbers?",
        "A result is good until the next call. Copy what you keep, use it before, or let nothing outlive a call.",
        "every_result: .clone(). total: add at once, into a tensor of your own. all_at_once: replay(a function that "
        "loops over all batches and stacks), called once with *batches.",
    ),
    known_mistakes=(
        _every(  # keeps the results themselves
            "def every_result(step, batches):\n    return [step(batch) for batch in batches]\n",
            "reading it raises",
        ),
        _every(  # detach shares the memory
            "def every_result(step, batches):\n    return [step(batch).detach() for batch in batches]\n",
            "reading it raises",
        ),
        _every(  # copies, but only after the loop
            """
def every_result(step, batches):
    kept = [step(batch) for batch in batches]
    return [one.clone() for one in kept]
""",
            "overwritten",
        ),
        _every(  # a mark before each call preserves nothing
            """
def every_result(step, batches):
    kept = []
    for batch in batches:
        torch.compiler.cudagraph_mark_step_begin()
        kept.append(step(batch))
    return kept
""",
            "reading it raises",
        ),
        _every(  # the error is caught, and the last result taken for all
            """
def every_result(step, batches):
    kept = [step(batch) for batch in batches]
    found = []
    for one in kept:
        try:
            found.append(one.clone())
        except RuntimeError:
            found.append(kept[-1].clone())
    return found
""",
            "(result 1 of",
        ),
        _every(  # copies only what would raise
            """
def every_result(step, batches):
    return [step(batch).clone() if i < 2 else step(batch) for i, batch in enumerate(batches)]
""",
            "has another call's numbers",
        ),
        _every(  # once the step is warm, no error is left, and a slice is no copy
            """
def every_result(step, batches):
    for batch in batches[:2]:
        step(batch)
    return [step(batch)[:] for batch in batches]
""",
            "(result 1 of",
        ),
        _every(  # every batch once more, to be sure
            """
def every_result(step, batches):
    for batch in batches:
        step(batch)
    return [step(batch).clone() for batch in batches]
""",
            "times",
        ),
        KnownMistake(  # adds into the step's own memory
            _START
            + _EVERY
            + """
def total(step, batches):
    total = step(batches[0])
    for batch in batches[1:]:
        total += step(batch)
    return total
"""
            + _AT_ONCE,
            "(its result has another call's numbers)",
        ),
        KnownMistake(  # a warm step says nothing: every term is the last one
            _START
            + _EVERY
            + "\ndef total(step, batches):\n    return sum([step(batch) for batch in batches])\n"
            + _AT_ONCE,
            "A replay overwrites without an error",
        ),
        KnownMistake(  # still one replay a batch
            _START
            + _EVERY
            + _TOTAL
            + """
def all_at_once(fn, replay, batches):
    step = replay(fn)
    return torch.stack([step(batch).clone() for batch in batches])
""",
            "times in 3 calls",
        ),
        KnownMistake(  # nothing is replayed
            _START
            + _EVERY
            + _TOTAL
            + "\ndef all_at_once(fn, replay, batches):\n    return torch.stack([fn(batch) for batch in batches])\n",
            "called replayed code 0 times",
        ),
    ),
    alternatives=(
        _START
        + """
def every_result(step, batches):
    kept = batches[0].new_empty(len(batches), *batches[0].shape)
    for i, batch in enumerate(batches):
        kept[i].copy_(step(batch))
    return list(kept)

def total(step, batches):
    total = torch.zeros(batches[0].shape)
    for batch in batches:
        total.add_(step(batch))
    return total

def all_at_once(fn, replay, batches):
    def loop(stacked):
        return torch.stack([fn(batch) for batch in stacked])
    return replay(loop)(torch.stack(batches)).clone()
""",
        _START
        + """
from functools import reduce

def every_result(step, batches):
    return [step(batch).cpu() for batch in batches]

def total(step, batches):
    return reduce(lambda so_far, batch: step(batch) + so_far, batches, 0)

def all_at_once(fn, replay, batches):
    return replay(lambda *given: torch.stack(list(map(fn, given))))(*batches)
""",
    ),
)
