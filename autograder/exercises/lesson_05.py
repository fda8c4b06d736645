"""Exercises of 05_modes, in the order of the lesson."""

from autograder.exercises.modes import choose, fair, keep, memory, options, skipped, tuning

EXERCISES = tuple(one.EXERCISE for one in (options, choose, keep, skipped, memory, tuning, fair))
