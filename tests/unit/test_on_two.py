"""The ranks of a check: what happens once only is no answer's fault."""

import os
import signal

import pytest

from autograder.exercise import NotYet
from autograder.exercises.distributed.on_two import ranks_of


def ending(folder, times, how):
    """A function for ranks that ends its process the first `times` times, and then gives how often it was called."""

    def work():
        called = len(list(folder.iterdir())) + 1
        (folder / str(called)).touch()
        if called <= times:
            os._exit(7) if how == "exit" else os.kill(os.getpid(), signal.SIGSEGV)
        return called

    return work


def test_a_crash_that_does_not_happen_again_is_no_verdict(tmp_path):
    assert ranks_of("it", ending(tmp_path, 1, "crash"), fake=True)["results"] == [2]


def test_a_rank_that_crashes_each_time_is_told(tmp_path):
    with pytest.raises(NotYet, match="ended a rank"):
        ranks_of("it", ending(tmp_path, 2, "crash"), fake=True)


def test_a_rank_that_leaves_is_told_at_once(tmp_path):
    with pytest.raises(NotYet, match="ended a rank"):
        ranks_of("it", ending(tmp_path, 1, "exit"), fake=True)
