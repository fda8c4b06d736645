"""Lesson 6, distributed placement: its exercises in order."""

from __future__ import annotations

from autograder.exercises.distributed import bucket, clip, load, place, predicting, shard

EXERCISES = tuple(module.EXERCISE for module in (place, bucket, shard, load, clip, predicting))
