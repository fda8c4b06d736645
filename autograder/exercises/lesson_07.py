"""Exercises of 07_regional, in the order of the lesson."""

from autograder.exercises.regional import decide, envelope, kinds, poison, shared, warm

EXERCISES = tuple(one.EXERCISE for one in (kinds, envelope, shared, poison, warm, decide))
