"""Lesson 1, basic compile: its exercises in order."""

from __future__ import annotations

from autograder.exercises.basic import checkpoint, report, ways

EXERCISES = (report.EXERCISE, ways.EXERCISE, checkpoint.EXERCISE)
