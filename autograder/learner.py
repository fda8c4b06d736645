"""What a learner calls in a notebook: `check`, `hint`, `predict`."""

from __future__ import annotations

import contextlib
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from autograder.exercise import Exercise
from autograder.exercises import find
from autograder.judge import judge
from autograder.standing import note_event

CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "inside-torch-compile"
"""The course's own small files between sessions."""

RUNNING = CACHE / "running"
"""Holds one file for each running check, named after its process; a kernel that dies in a check leaves it behind."""

_rung: dict[str, int] = {}


class CheckFailed(Exception):  # noqa: N818 - it names the outcome of a check
    """An answer that is not right yet. Jupyter shows the feedback instead of a traceback."""

    def __init__(self, exercise: Exercise, sentence: str) -> None:
        self.exercise, self.sentence = exercise, sentence
        super().__init__(sentence)

    def _render_traceback_(self) -> list[str]:
        lines = textwrap.wrap(self.sentence, 100)
        return [f"✗ {self.exercise.name} · 0 of {self.exercise.points} points", *lines]


def check(name: str, namespace: Mapping[str, Any] | None = None) -> None:
    """Judge what you defined for the exercise `name` on fresh inputs.

    Prints one line when it is right; raises CheckFailed, shown as two to four lines, when it is not yet.
    `namespace` holds the answer; by default the notebook's own names.
    """
    exercise = find(name)
    names = _notebook_names() if namespace is None else namespace
    with _noted(exercise):
        verdict = judge(exercise, names)
    note_event(exercise, "passed" if verdict.passed else "failed")
    if not verdict.passed:
        raise CheckFailed(exercise, f'{verdict.sentence} Stuck? hint("{name}")')
    found = f" · {verdict.sentence}" if verdict.sentence else ""
    print(f"✓ {name} · {verdict.points} of {verdict.out_of} points{found}")


def hint(name: str) -> None:
    """Show the next of three hints: where to look, which rule, the shape of the code. The last one stays.

    In a notebook a button below climbs one further; elsewhere the hint is printed.
    """
    from IPython import get_ipython

    from autograder.hint_ladder import Ladder

    exercise = find(name)

    def climbed(rung: int) -> None:
        _rung[name] = rung + 1
        note_event(exercise, "hint")

    ladder = Ladder(name, exercise.hints, _rung.get(name, 0), climbed)
    climbed(ladder.last)
    if get_ipython() is None:
        print(ladder.text)
    else:
        ladder.show()


def predict(question: str, choices: Sequence[object], compute: Callable[[], object]) -> None:
    """Ask before you run: choose, and `compute` runs the code to say what really happens.

    `compute` returns one of `choices`, compared as text. Without widgets the question is printed and nothing runs.
    """
    from autograder.prediction import show_prediction

    show_prediction(question, [str(choice) for choice in choices], compute)


def _notebook_names() -> Mapping[str, Any]:
    from IPython import get_ipython

    shell = get_ipython()
    if shell is None:
        raise RuntimeError("check() looks your answer up in a notebook; elsewhere write check(name, globals()).")
    names: Mapping[str, Any] = shell.user_ns
    return names


def checks_that_died(*, forget: bool = True) -> Iterator[str]:
    """Names of the exercises in whose check a kernel ended, each once; they are forgotten then."""
    for note in sorted(RUNNING.glob("[0-9]*")):
        if note.name == str(os.getpid()) or not _is_alive(int(note.name)):
            with contextlib.suppress(OSError):
                yield note.read_text()
                if forget:
                    note.unlink()


def _is_alive(process: int) -> bool:
    if sys.platform == "win32":  # signal 0 would be Ctrl-C there
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextlib.contextmanager
def _noted(exercise: Exercise) -> Iterator[None]:
    if os.environ.get("NBGRADER_EXECUTION"):  # somebody else's answer: not for the instructor's doctor()
        yield
        return
    note = RUNNING / str(os.getpid())
    with contextlib.suppress(OSError):  # a full disk must not stop a check; doctor() names it
        RUNNING.mkdir(parents=True, exist_ok=True)
        note.write_text(exercise.name)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            note.unlink(missing_ok=True)
