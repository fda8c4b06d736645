"""Lesson 4, guards and recompiles: its exercises in order."""

from __future__ import annotations

from autograder.exercises.guards import predicting, sizes

EXERCISES = tuple(module.EXERCISE for module in (predicting, sizes))
