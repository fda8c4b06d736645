"""Lesson 8, the capstone: its exercises in order."""

from __future__ import annotations

from autograder.exercises.capstone import ranks, ready, regional, served, steps, tame, unwrap

EXERCISES = tuple(module.EXERCISE for module in (tame, regional, served, steps, unwrap, ranks, ready))
"""The exercises of lesson 8, one module each."""
