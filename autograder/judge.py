"""Judge one answer: run the exercise's check on fresh inputs and say the first failing fact."""

from __future__ import annotations

import linecache
import sys
import traceback
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.exercise import STUB, Answer, Draw, Exercise, NotYet, start_clean
from autograder.quiet import quiet
from autograder.time_limit import EndlessAnswerError, time_limit


@dataclass(frozen=True)
class Verdict:
    """The outcome of one check. `points` of `out_of`; `sentence` is for the learner; `output` is what was printed."""

    exercise: str
    passed: bool
    points: int
    out_of: int
    sentence: str
    output: str = ""


def judge(exercise: Exercise, namespace: Mapping[str, Any], draw: Draw | None = None) -> Verdict:
    """The verdict on what `namespace` defines. Never raises for what a learner wrote; KeyboardInterrupt passes."""
    passed, sentence = False, ""
    with quiet() as captured:
        try:
            refuse_unsolved(exercise.asks_for, namespace)
            start_clean()
            with time_limit():
                found = exercise.check(Answer(namespace), draw or Draw.fresh(exercise.name))
            passed, sentence = True, found or ""
        except NotYet as not_yet:
            sentence = not_yet.sentence()
        except EndlessAnswerError as endless:
            sentence = say_endless(exercise.asks_for[0], endless)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # sys.exit() in an answer is an answer that failed
            sentence = say_error(exercise.asks_for[0], error)
        finally:
            start_clean()
    points = exercise.points if passed else 0
    return Verdict(exercise.name, passed, points, exercise.points, sentence, captured.text)


def refuse_unsolved(asks_for: Iterable[str], namespace: Mapping[str, Any]) -> None:
    """NotYet for the first of these names that is missing or still as it was handed out."""
    for name in asks_for:
        answer = getattr(Answer(namespace), name)
        if any(STUB in constant for constant in _strings(answer)):
            raise NotYet(f"{name}", "is still to be written", "the check runs it", "Replace the line that raises.")


def _strings(answer: object) -> Iterator[str]:
    """The text constants in the code of a function, or of the methods of a class."""
    if isinstance(answer, type):
        for member in vars(answer).values():
            yield from _strings(member)
    code = getattr(answer, "__code__", None)
    if isinstance(code, types.CodeType):
        yield from (constant for constant in code.co_consts if isinstance(constant, str))


def say_error(name: str, error: BaseException) -> str:
    """What the learner's own code raised, and on which of their lines; `name` is what was called."""
    text = str(error).strip().splitlines()
    what = f"{type(error).__name__}: {_shorten(text[0])}" if text else type(error).__name__
    return NotYet(name, f"raised {what}", "the check needs a result", _last_line(name, error)).sentence()


def say_endless(name: str, stopped: BaseException) -> str:
    """The line at which an answer was stopped because it came to no end."""
    return NotYet(name, "comes to no end", "the check needs a result", _last_line(name, stopped)).sentence()


def _last_line(name: str, error: BaseException) -> str:
    steps = [s for s in traceback.extract_tb(error.__traceback__) if _is_the_answer(s.filename)]
    return f"Look at line {steps[-1].lineno}, {steps[-1].line}." if steps else f"Call {name} in a new cell to see more."


def _shorten(text: str, words: int = 14) -> str:
    parts = text.split()
    return " ".join(parts[:words]) + (" …" if len(parts) > words else "")


def _is_the_answer(file: str) -> bool:
    """Neither ours nor a library's: the learner's cell or a known answer."""
    ours = Path(__file__).parents[1]
    inside = any(str(ours / package) in file for package in ("autograder", "compilescope"))
    return not inside and "site-packages" not in file and f"python{sys.version_info.major}." not in file


def namespace_of(code: str, title: str = "answer") -> dict[str, Any]:
    """Run `code` as a module of its own and return its names; its lines stay readable for tracebacks and pictures."""
    import torch

    name = f"<{title} {abs(hash(code)):x}>"
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    module = types.ModuleType(title)
    sys.modules[title] = module  # Dynamo looks the module of an inlined function up by its name
    namespace = vars(module)
    namespace["torch"] = torch
    exec(compile(code, name, "exec"), namespace)
    return namespace
