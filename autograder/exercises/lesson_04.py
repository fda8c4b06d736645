"""Lesson 4, guards and recompiles: its exercises in order."""

from __future__ import annotations

from autograder.exercises.guards import blocks, cache, cures, predicting, rate, serving, sizes, specializing

EXERCISES = tuple(module.EXERCISE for module in (predicting, sizes, specializing, cures, rate, blocks, serving, cache))
