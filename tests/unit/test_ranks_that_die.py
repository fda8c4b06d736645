"""Ranks that end without a word: who it was, and of what."""

import os
import signal
import threading
import time

import pytest
import torch.distributed as dist

from compilescope import on_ranks
from compilescope.ranks import RankError


@pytest.mark.parametrize(("code", "said"), [(0, "exit code 0"), (7, "exit code 7"), (-signal.SIGKILL, "SIGKILL")])
def test_the_rank_of_a_fake_group_is_named_too(code, said):
    def work():
        os._exit(code) if code >= 0 else os.kill(os.getpid(), -code)

    with pytest.raises(RankError, match=f"Rank 0 died.*{said}") as caught:
        on_ranks(work, fake=True)
    assert caught.value.kind == ("" if code >= 0 else said)


def test_a_rank_that_dies_when_it_is_done_is_named_while_another_works():
    def work():
        if dist.get_rank() == 0:
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGSEGV)).start()
        else:
            time.sleep(5)

    with pytest.raises(RankError, match=r"Rank 0 died.*SIGSEGV") as caught:
        on_ranks(work)
    assert caught.value.kind == "SIGSEGV"
