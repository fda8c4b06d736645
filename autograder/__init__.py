"""Judge: what a learner calls in a lesson. Everything else is `python -m autograder`."""

from autograder.doctor import doctor
from autograder.learner import check, hint, predict

__all__ = ["check", "doctor", "hint", "predict"]
