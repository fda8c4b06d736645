"""Whether torch, compilescope and the checks are in a submission's process what they were before its cells ran.

The comparison is made here, outside, with a job of the same sandbox that ran no cell. What a right answer of ours
changes as well is torch's own doing.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from autograder.sandbox.bubble import Bubble
from autograder.sandbox.job import Job
from autograder.sandbox.limits import Limits

SIZE = 32
"""Digits for one name in a state."""
NAMED = 3
"""Names that a sentence says."""
_copies: WeakKeyDictionary[Bubble, tuple[str, list[str]]] = WeakKeyDictionary()


def replaced_in(job: Job, bubble: Bubble, limits: Limits, order: dict[str, Any], right: str) -> str:
    """A sentence that names what the cells of a job replaced; empty if nothing. `right` is an answer of ours."""
    state = said_by(job, "pristine")
    if bubble not in _copies:
        _copies[bubble] = _copy(bubble, limits)
    copy, names = _copies[bubble]
    changed = _changed(state, copy, names)
    if changed:
        with_ours = bubble.start(limits)
        try:
            with_ours.send({"cells": [right], **order})
            _wait_for_outcome(with_ours)
            changed -= _changed(said_by(with_ours, "pristine"), copy, names)
        finally:
            with_ours.end()
    if not changed:
        return ""
    shortest: dict[str, str] = {}  # one function, many names
    for name in sorted(changed, key=len, reverse=True):
        at = SIZE * names.index(name) if name in names else -1
        shortest[copy[at : at + SIZE] if at >= 0 else name] = name
    first = sorted(shortest.values())
    more = f" and {len(first) - NAMED} more" if len(first) > NAMED else ""
    return f"The cells of this submission replaced {', '.join(first[:NAMED])}{more} in their process."


def said_by(job: Job, what: str) -> Any:
    """The job's answer to ``{what: 1}``; None if it gives none."""
    job.send({what: 1})
    for frame in job.frames():
        if isinstance(frame, dict) and what in frame:
            return frame[what]
    return None


def _copy(bubble: Bubble, limits: Limits) -> tuple[str, list[str]]:
    job = bubble.start(limits)
    try:
        job.send({"cells": []})
        return str(said_by(job, "pristine")), [str(name) for name in said_by(job, "watched")]
    finally:
        job.end()


def _wait_for_outcome(job: Job) -> None:
    next((frame for frame in job.frames() if isinstance(frame, dict) and {"found", "not yet", "error"} & set(frame)), 0)


def _changed(state: Any, copy: str, names: list[str]) -> set[str]:
    if not isinstance(state, str) or len(state) != len(copy):
        return {"its report of what it replaced"}
    starts = range(0, len(copy), SIZE) if state != copy else ()
    return {names[at // SIZE] for at in starts if state[at : at + SIZE] != copy[at : at + SIZE]}
