"""Lesson 1, basic compile: its exercises in order."""

from __future__ import annotations

from autograder.exercises.basic import apart, backend, checkpoint, kernel, report, step, ways

EXERCISES = tuple(module.EXERCISE for module in (report, ways, checkpoint, apart, kernel, step, backend))
