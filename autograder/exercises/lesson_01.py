"""Lesson 1, basic compile: its exercises in order."""

from __future__ import annotations

from autograder.exercises.basic import backend, checkpoint, report, step, ways

EXERCISES = (report.EXERCISE, ways.EXERCISE, checkpoint.EXERCISE, step.EXERCISE, backend.EXERCISE)
