"""modes_3: results that a later replay overwrites, and three ways not to lose them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.judging import called, kind_of, same_numbers
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


def probe(answer: Answer, asked: Values) -> Values:
    """Each function gets a step of its own; the step goes on being called before anything is read."""
    work, batches = work_of(asked), asked["batches"]
    found: Values = {}
    with torch.no_grad():
        for name in ("every_result", "total"):
            step = _Counted(replayed(work))
            result = called(f"{name}(step, batches)", getattr(answer, name), step, batches)
            calls = step.calls
            for batch in batches[:2]:
                step(batch + 1)
            found[name] = {"result": _read(result), "calls": calls}
        replays: list[_Counted] = []

        def replay(fn: Callable[..., Any]) -> _Counted:
            replays.append(_Counted(replayed(fn)))
            return replays[-1]

        # called as often as a loop would call it: to warm up, to record, and to replay
        results = [
            called("all_at_once(…)", answer.all_at_once, work, replay, [b + i for b in batches]) for i in range(3)
        ]
        found["all_at_once"] = {"result": _read(results[-1]), "calls": sum(one.calls for one in replays)}
        torch.compiler.reset()
    return found


class _Counted:
    """A step that knows how often it was called."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn, self.calls = fn, 0

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
    work, batches = work_of(asked), [batch.double().cpu() for batch in asked["batches"]]
    want = [work(batch) for batch in batches]
    label = "every_result(step, batches)"
    every = found["every_result"]["result"]
    if not isinstance(every, list) or len(every) != len(want):
        raise NotYet(
            label, f"returned {kind_of(every)}", f"{len(want)} results are wanted", "Look at your return line."
        )
    for number, (got, wanted) in enumerate(zip(every, want, strict=True), 1):
        _one(label, f"result {number} of {len(want)}", got, wanted)
    _calls(label, found["every_result"]["calls"], len(want))
    label = "total(step, batches)"
    _one(label, "its result", found["total"]["result"], torch.stack(want).sum(0))
    _calls(label, found["total"]["calls"], len(want))
    label = "all_at_once(fn, replay, batches)"
    _one(label, "its result", found["all_at_once"]["result"], torch.stack([work(batch + 2) for batch in batches]))
    if found["all_at_once"]["calls"] != 3:
        calls = found["all_at_once"]["calls"]
        raise NotYet(
            label, f"called replayed code {calls} times in 3 calls", "once a call is wanted", "Put the loop inside fn."
        )
    return "nothing that you keep is overwritten"


def _one(label: str, which: str, got: Any, want: torch.Tensor) -> None:
    if isinstance(got, str):
        raise NotYet(
            label,
            f"kept memory that was overwritten ({which})",
            "numbers of its own are wanted",
            "Look at what outlives the next call of step.",
        )
    same_numbers(f"{label}, {which},", got, want, torch.float32)


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

EXERCISE = Exercise(
    name="modes_3",
    lesson="05_modes",
    points=3,
    asks_for=("every_result", "total", "all_at_once"),
    check=Check(ask, probe, judge),
    hints=(
        "Which tensor outlives the next call of step? Read a kept one in a new cell, after another call.",
        "A result is good until the next call. Copy what you keep, use it before, or let nothing outlive a call.",
        "every_result: .clone(). total: add at once, into a tensor of your own. all_at_once: replay(a function that "
        "loops over all batches and stacks), called once with *batches.",
    ),
    known_mistakes=(
        KnownMistake(  # keeps the results themselves
            _START
            + "def every_result(step, batches):\n    return [step(batch) for batch in batches]\n"
            + _TOTAL
            + _AT_ONCE,
            "kept memory that was overwritten",
        ),
        KnownMistake(  # detach shares the memory
            _START
            + "def every_result(step, batches):\n    return [step(batch).detach() for batch in batches]\n"
            + _TOTAL
            + _AT_ONCE,
            "kept memory that was overwritten",
        ),
        KnownMistake(  # copies, but only after the loop
            _START
            + """
def every_result(step, batches):
    kept = [step(batch) for batch in batches]
    return [one.clone() for one in kept]
"""
            + _TOTAL
            + _AT_ONCE,
            "overwritten",
        ),
        KnownMistake(  # a marked step preserves nothing
            _START
            + """
def every_result(step, batches):
    kept = []
    for batch in batches:
        torch.compiler.cudagraph_mark_step_begin()
        kept.append(step(batch))
    return kept
"""
            + _TOTAL
            + _AT_ONCE,
            "kept memory that was overwritten",
        ),
        KnownMistake(  # the error is caught, and the last result taken for all
            _START
            + """
def every_result(step, batches):
    kept = [step(batch) for batch in batches]
    found = []
    for one in kept:
        try:
            found.append(one.clone())
        except RuntimeError:
            found.append(kept[-1].clone())
    return found
"""
            + _TOTAL
            + _AT_ONCE,
            "float64 result",
        ),
        KnownMistake(  # every batch once more, to be sure
            _START
            + """
def every_result(step, batches):
    for batch in batches:
        step(batch)
    return [step(batch).clone() for batch in batches]
"""
            + _TOTAL
            + _AT_ONCE,
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
            "overwritten",
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
    return sum(step(batch) + 0 for batch in batches)

def all_at_once(fn, replay, batches):
    def loop(stacked):
        return torch.stack([fn(batch) for batch in stacked])
    return replay(loop)(torch.stack(batches)).clone()
""",
        _START
        + """
from functools import reduce

def every_result(step, batches):
    return list(torch.stack([step(batch).clone() for batch in batches]))

def total(step, batches):
    return reduce(lambda so_far, batch: step(batch) + so_far, batches, 0)

def all_at_once(fn, replay, batches):
    return replay(lambda *given: torch.stack(list(map(fn, given))))(*batches)
""",
    ),
)
