"""The registry: each ``lesson_NN.py`` beside this file holds a tuple ``EXERCISES``."""

from __future__ import annotations

import difflib
import functools
import importlib
import pkgutil

from autograder.exercise import Exercise


class UnknownExerciseError(LookupError):
    """No exercise of that name; Jupyter shows the sentence instead of a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"✗ {self}"]


@functools.cache
def everything() -> tuple[Exercise, ...]:
    """All exercises, in the order of the lessons."""
    modules = sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name.startswith("lesson_"))
    return tuple(e for name in modules for e in importlib.import_module(f"{__name__}.{name}").EXERCISES)


def find(name: str) -> Exercise:
    """The exercise called `name`. Raises UnknownExerciseError with the nearest name if there is none."""
    by_name = {exercise.name: exercise for exercise in everything()}
    if name in by_name:
        return by_name[name]
    near = difflib.get_close_matches(name, by_name, n=1)
    raise UnknownExerciseError(f'There is no exercise "{name}".' + (f' Did you mean "{near[0]}"?' if near else ""))


def of_lesson(lesson: str) -> tuple[Exercise, ...]:
    """The exercises of one lesson, such as ``01_basic_compile``, in order."""
    return tuple(exercise for exercise in everything() if exercise.lesson == lesson)
