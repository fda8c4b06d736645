"""The ranks of a check: what happens once only is no answer's fault."""

import os
import signal

import pytest

from autograder.exercise import NotYet
from autograder.exercises.distributed import on_two
from autograder.exercises.distributed.on_two import ranks_of


def ending(folder, times, code=None):
    """A function for ranks that crashes the first `times` times, or leaves with `code`; gives its calls so far."""

    def work():
        called = len(list(folder.iterdir())) + 1
        (folder / str(called)).touch()
        if called <= times:
            os.kill(os.getpid(), signal.SIGSEGV) if code is None else os._exit(code)
        return called

    return work


def test_a_crash_that_does_not_happen_again_is_no_verdict(tmp_path):
    assert ranks_of("it", ending(tmp_path, 1), fake=True)["results"] == [2]


def test_a_rank_that_crashes_each_time_is_told(tmp_path):
    with pytest.raises(NotYet, match="ended a rank"):
        ranks_of("it", ending(tmp_path, 2), fake=True)


def test_a_crash_that_took_its_time_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(on_two, "SOON", 0.0)
    with pytest.raises(NotYet, match="ended a rank"):
        ranks_of("it", ending(tmp_path, 1), fake=True)


@pytest.mark.parametrize("code", [0, 7])
def test_a_rank_that_leaves_is_told_at_once(tmp_path, code):
    with pytest.raises(NotYet, match="ended a rank"):
        ranks_of("it", ending(tmp_path, 1, code), fake=True)
