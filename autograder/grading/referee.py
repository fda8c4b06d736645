"""Judges one exercise of one submission: asks from outside, hears what the sandbox says, decides, tries canaries."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from autograder.exercise import Check, Draw, Exercise, NotYet, Values, start_clean
from autograder.grading.picture import Facts, picture_of
from autograder.grading.pristine import replaced_in
from autograder.quiet import quiet
from autograder.sandbox.bubble import Bubble
from autograder.sandbox.job import Job
from autograder.sandbox.limits import SAID, Limits
from autograder.sandbox.visible import probe_of
from autograder.wire import encode, plain


@dataclass
class Ruling:
    """What became of one exercise. `sentence` is for the student, `suspicion` for the instructor.

    `suspicion` says why a person should look before the 0 stands; `output` is what the cells printed, cut off;
    `picture` is HTML of ours that shows what a wrong answer compiled, where the check heard of it.
    """

    exercise: str
    points: int
    out_of: int
    sentence: str
    passed: bool = False
    suspicion: str = ""
    ended: str = ""
    output: str = ""
    picture: str = ""
    cell_errors: list[list[Any]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """For the journal."""
        return asdict(self)


@dataclass(frozen=True)
class Question:
    """One exercise's inputs, drawn once for the whole class."""

    exercise: Exercise
    check: Check
    asked: Values
    order: dict[str, Any]

    @staticmethod
    def of(exercise: Exercise, draw: Draw | None = None) -> Question:
        """The question of this class: from ``COURSE_SECRET`` and the exercise's name, where that is set."""
        check = exercise.check
        module, probe = probe_of(exercise)
        start_clean()
        with quiet():
            asked = plain(check.ask(draw or Draw.fresh(exercise.name)), strict=True)
        start_clean()
        order = {"asks_for": list(exercise.asks_for), "module": module, "probe": probe, "asked": asked}
        encode(order, strict=True)
        return Question(exercise, check, asked, order)


def rule(
    bubble: Bubble, question: Question, cells: Sequence[str], limits: Limits, wanted: Mapping[str, Facts] | None = None
) -> Ruling:
    """Run the cells and the probe in a fresh process, judge here, and, if the answer is right, the canaries.

    `wanted` are the facts of a right answer, to stand beside those of a wrong one.
    """
    exercise = question.exercise
    ruling = Ruling(exercise.name, 0, exercise.points, "")
    job = bubble.start(limits)
    try:
        job.send({"cells": list(cells), **question.order})
        answer = heard(job, OUTCOMES, ruling.cell_errors)
        passed, ruling.sentence = decide(question, answer, job)
        if passed:
            replaced = replaced_in(job, bubble, limits, question.order, exercise.alternatives[0])
            ruling.suspicion = f"{_suspicion(bubble, job, question, cells, limits)} {replaced}".strip()
            ruling.passed = not ruling.suspicion
        else:
            ruling.picture = picture_of(answer.get("found"), wanted or {})
    finally:
        job.end()
        ruling.ended = job.why
        ruling.output = job.output.decode("utf-8", errors="replace")
    ruling.points = exercise.points if ruling.passed else 0
    if ruling.suspicion:
        ruling.sentence = "This answer waits for a person to look at it."
    return ruling


OUTCOMES = ("found", "not yet", "error")


def heard(job: Job, kinds: tuple[str, ...], cell_errors: list[list[Any]] | None = None) -> dict[str, Any]:
    """The next frame of one of these kinds; empty if the job ended without it."""
    for frame in job.frames():
        if not isinstance(frame, dict) or len(frame) != 1:
            job.end("message")
            break
        ((kind, said),) = frame.items()
        if kind in kinds:
            return frame
        if kind == "cell error" and cell_errors is not None and len(cell_errors) < 50:
            cell_errors.append(said)
    return {}


def decide(question: Question, answer: dict[str, Any], job: Job) -> tuple[bool, str]:
    """Whether it is right, and the sentence for it."""
    name = question.exercise.asks_for[0]
    if not answer:
        look = "Look for exit(), endless loops or recursion, and too much memory."
        why = SAID.get(job.why, "gave no answer")
        return False, NotYet(name, why, "the check needs a result", look).sentence()
    ((kind, said),) = answer.items()
    if kind == "not yet" and isinstance(said, list) and len(said) == 4:
        return False, NotYet(*(str(part)[:200] for part in said)).sentence()
    if kind == "error":
        return False, str(said)[:400]
    return _judged(question, said)


def _judged(question: Question, found: Any) -> tuple[bool, str]:
    name = question.exercise.asks_for[0]
    if not isinstance(found, dict):
        return False, NotYet(name, "gave no values", "the check needs some", "Check again.").sentence()
    start_clean()
    try:
        with quiet():
            return True, question.check.judge(question.asked, found) or ""
    except NotYet as not_yet:
        return False, not_yet.sentence()
    except Exception as error:  # values that no probe of ours reports
        odd = f"reported values that cannot be judged ({type(error).__name__})"
        return False, NotYet(name, odd, "the check needs its own", "Leave the check's functions alone.").sentence()
    finally:
        start_clean()


TRIES = 3
"""Known mistakes that are tried as canaries, one after the other, where one comes out wrong after our answers, too."""
_NAMESPACE = re.compile(r"""["'](\w+)::\w+""")


def wrong_canaries(exercise: Exercise) -> list[str]:
    """Known mistakes, drawn anew for each submission, so that no submission can be written against one."""
    some = random.SystemRandom().sample(exercise.known_mistakes, min(TRIES, len(exercise.known_mistakes)))
    return [mistake.code for mistake in some]


def _suspicion(bubble: Bubble, job: Job, question: Question, cells: Sequence[str], limits: Limits) -> str:
    """What speaks against a submission whose answer passed in `job`; empty if its canaries come out as they must.

    A canary that comes out wrong is tried after a right answer of ours as well, in a process that no submission
    reached. If it comes out wrong there, too, it is no witness, and another one is tried, in a fresh process.
    """
    ours = question.exercise.alternatives[0]
    seen = ""
    for number, wrong in enumerate(wrong_canaries(question.exercise)):
        seen = canaries_in(job, question, wrong) if number == 0 else after(bubble, question, cells, limits, wrong)
        if not seen or not after(bubble, question, [ours], limits, wrong):
            return seen
    return seen


def after(bubble: Bubble, question: Question, cells: Sequence[str], limits: Limits, wrong: str) -> str:
    """What canaries say in a fresh process in which these cells ran and were judged; `wrong` is a known mistake."""
    job = bubble.start(limits)
    try:
        job.send({"cells": list(cells), **question.order})
        heard(job, OUTCOMES)
        return canaries_in(job, question, wrong)
    finally:
        job.end()


def canaries_in(job: Job, question: Question, wrong: str) -> str:
    """A wrong answer of ours must fail and a right one must pass in the same process; else what was seen."""
    job.give_more_time()
    for code, must_pass in ((wrong, False), (question.exercise.alternatives[0], True)):
        if said := canary_in(job, question, code, must_pass):
            return said
    return ""


def canary_in(job: Job, question: Question, code: str, must_pass: bool) -> str:
    """Have an answer of ours judged in a job; what was seen if it does not come out as it must, else empty."""
    job.send({"canary": with_own_operators(code), **question.order})
    answer = heard(job, OUTCOMES)
    passed, sentence = decide(question, answer, job)
    if passed == must_pass:
        return ""
    which = "a wrong answer of ours passes" if passed else "a right answer of ours fails"
    return f"After the cells of this submission {which} in {question.exercise.name}: {sentence}"[:400]


def with_own_operators(code: str, mark: str = "of_ours") -> str:
    """The program with other namespaces, ending in `mark`, for its operators: an answer may have taken those names."""
    for space in set(_NAMESPACE.findall(code)):
        code = re.sub(rf"""(?<=["'])({space})(?=::|["'])|(?<=torch\.ops\.){space}\b""", f"{space}_{mark}", code)
    return code
