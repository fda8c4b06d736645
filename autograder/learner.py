"""What a learner calls in a notebook: `check`, `hint`, `predict`."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from autograder.exercise import Exercise
from autograder.exercises import find
from autograder.judge import judge

CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "inside-torch-compile"
"""The course's own small files between sessions."""

RUNNING = CACHE / "running-check.json"
"""Says which check is running; left behind only by a kernel that died in it, and then read by `doctor`."""

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
    _note_running(exercise)
    try:
        verdict = judge(exercise, _notebook_names() if namespace is None else namespace)
    finally:
        _forget_running()
    if not verdict.passed:
        raise CheckFailed(exercise, f'{verdict.sentence} Stuck? hint("{name}")')
    found = f" · {verdict.sentence}" if verdict.sentence else ""
    print(f"✓ {name} · {verdict.points} of {verdict.out_of} points{found}")


def hint(name: str) -> None:
    """Print the next of three hints: where to look, which rule, the shape of the code. The last one stays."""
    exercise = find(name)
    rung = min(_rung.get(name, 0), len(exercise.hints) - 1)
    _rung[name] = rung + 1
    print("\n".join(textwrap.wrap(f"Hint {rung + 1} of {len(exercise.hints)}: {exercise.hints[rung]}", 100)))


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


def _note_running(exercise: Exercise) -> None:
    try:
        RUNNING.parent.mkdir(parents=True, exist_ok=True)
        RUNNING.write_text(json.dumps({"exercise": exercise.name, "pid": os.getpid()}))
    except OSError:
        return  # a full disk must not stop a check; doctor() names it


def _forget_running() -> None:
    try:
        RUNNING.unlink(missing_ok=True)
    except OSError:
        return
