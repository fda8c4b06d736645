"""A compile cache that may be trusted: what our own right answers and known mistakes compiled, in the sandbox.

With one secret the whole class gets the same inputs, so most graphs that submissions compile are those of a right
answer. Each job sees the cache read-only under a layer of its own; nothing that a submission compiled gets into it.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import shutil
import tarfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from autograder.grading.lease import gpus_here
from autograder.grading.picture import Facts, facts_of, walk_runs
from autograder.grading.referee import OUTCOMES, Question, heard
from autograder.sandbox.as_nobody import NOBODY
from autograder.sandbox.bubble import Bubble
from autograder.sandbox.inside import FIRST_COMPILE
from autograder.sandbox.job import Job
from autograder.sandbox.limits import Limits
from autograder.sandbox.required import SandboxError

DONE = ".complete"
FACTS = ".facts"
AT_ONCE = 2
"""Right answers that compile beside each other, where there is no GPU."""
MISTAKES = 3
"""Known mistakes that are compiled beforehand, for they serve as canaries."""


def ready_cache(
    folder: Path, questions: Iterable[Question], limits: Limits, *, answers: bool = True, bubble: Bubble | None = None
) -> Path:
    """`folder` with the cache in it, made if it is not there; whoever comes meanwhile waits. Older ones go.

    Without `answers` it holds a first compile only, so that no job has to try the compiler out. What is compiled is
    compiled in `bubble`, a sandbox that has no cache and in which nobody's code ran, or in one of its own.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_ready(folder):
            for old in folder.parent.iterdir():
                if old.is_dir():
                    shutil.rmtree(old)
                elif old.suffix == FACTS:
                    old.unlink()
            folder.mkdir()
            every = list(questions)
            with (
                contextlib.nullcontext(bubble)
                if bubble
                else Bubble([question.exercise for question in every], gpu=gpus_here())
            ) as bubble:
                found: dict[str, bytes] = {}
                facts: dict[str, dict[str, Facts]] = {}
                for question, files, reported in right_answers(bubble, every if answers else [], limits):
                    _require_values(question, reported)
                    found |= files
                    facts[question.exercise.name] = {path: facts_of(run) for path, run in walk_runs(reported)}
                if every and (found or not answers):
                    found |= compiled(bubble, every[0], limits, FIRST_COMPILE)[0]
            for file, content in found.items():
                _put(folder / file, content)
            _hand_over(folder)
            folder.with_suffix(FACTS).write_text(json.dumps(facts))  # beside it, where no job looks
            (folder / DONE).touch()
    return folder


def is_ready(folder: Path) -> bool:
    """Whether `ready_cache` has nothing to do."""
    return (folder / DONE).exists()


def is_empty(folder: Path) -> bool:
    """Whether no right answer left anything in the compile caches, so that a sandbox is as good without this one."""
    return all(one.name == DONE for one in folder.iterdir())


def _require_values(question: Question, reported: Any) -> None:
    """SandboxError where a right answer gave none: every student would get 0, and nobody would know why."""
    if not isinstance(reported, dict):
        raise SandboxError(
            f"A right answer of ours to {question.exercise.name} gives no values in the sandbox of this machine, so "
            "nothing is graded. Look with: python -m autograder check"
        )


def wanted_facts(folder: Path) -> dict[str, dict[str, Facts]]:
    """Of each exercise the facts of a right answer, run by run, as `ready_cache` found them; empty without it."""
    try:
        found: dict[str, dict[str, Facts]] = json.loads(folder.with_suffix(FACTS).read_text())
    except (OSError, ValueError):
        return {}
    return found


def right_answers(
    bubble: Bubble, questions: Sequence[Question], limits: Limits
) -> Iterator[tuple[Question, dict[str, bytes], Any]]:
    """Each question with what `compiled` says of our right answer to it.

    The next one begins before this one is heard: whoever waits for the cache leaves a core idle.
    """
    at_once = 1 if gpus_here() else AT_ONCE  # a sandbox's GPU memory is counted for all its jobs together
    with contextlib.ExitStack() as ends:
        begun: deque[tuple[Question, Job]] = deque()
        for question in questions:
            job = _begun(bubble, question, limits, question.exercise.alternatives[0])
            ends.callback(job.end)
            begun.append((question, job))
            if len(begun) == at_once:
                yield _left_by(*begun.popleft())
        while begun:
            yield _left_by(*begun.popleft())


def compiled(bubble: Bubble, question: Question, limits: Limits, code: str) -> tuple[dict[str, bytes], Any]:
    """What `code` leaves in the compile caches, path to content, and what the probe reported of it.

    Where it leaves anything, a few known mistakes are compiled, too.
    """
    return _left_by(question, _begun(bubble, question, limits, code))[1:]


def _begun(bubble: Bubble, question: Question, limits: Limits, code: str) -> Job:
    job = bubble.start(limits)
    job.send({"cells": [code], **question.order})
    return job


def _left_by(question: Question, job: Job) -> tuple[Question, dict[str, bytes], Any]:
    """The question, and what `compiled` says of a job that was begun for it; the job ends."""
    job.give_more_time()  # it is not late because another one was heard first
    try:
        reported = heard(job, OUTCOMES).get("found")
        found = _exported(job)
        if found:
            for mistake in question.exercise.known_mistakes[:MISTAKES]:
                job.send({"canary": mistake.code, **question.order})
                heard(job, OUTCOMES)
            found |= _exported(job)
    finally:
        job.end()
    return question, found, reported


def _exported(job: Job) -> dict[str, bytes]:
    job.send({"export": 1})
    cache = heard(job, ("cache",)).get("cache")
    return _unpacked(cache.numpy().tobytes()) if isinstance(cache, torch.Tensor) else {}


def _unpacked(raw: bytes) -> dict[str, bytes]:
    found = {}
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member) if member.isreg() else None
            if file is not None and ".." not in Path(member.name).parts and not member.name.startswith("/"):
                found[member.name] = file.read()
    return found


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _hand_over(folder: Path) -> None:
    """Everybody may read and run it; where root grades, it is nobody's, so that a layer above can copy from it."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)
