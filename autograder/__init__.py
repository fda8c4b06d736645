"""Judge: what a learner calls in a lesson. Everything else is `python -m autograder`."""

from autograder.learner import check, hint, predict
from autograder.machine import doctor
from autograder.standing import progress

__all__ = ["check", "doctor", "hint", "predict", "progress"]
