"""Lesson 2, timing and warm-up: its exercises in order."""

from __future__ import annotations

from autograder.exercises.timing import break_even, choose, lies, moved, steady, stopwatch

EXERCISES = tuple(module.EXERCISE for module in (stopwatch, steady, break_even, moved, lies, choose))
