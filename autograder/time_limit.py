"""An end for an answer that has none: a limit on the seconds of one check in a notebook."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

MOST_COMPUTING = 60.0
"""Seconds that a check may compute in its own thread; it takes 10 at most. Compilers are processes of their own and do
not count, nor does a machine that is busy with something else."""
MOST_WAITING = 300.0
"""Seconds on the clock, for an answer that waits and computes nothing."""
LOOKS = 20.0, 5.0
"""Seconds until the first look at the clocks, so that an ordinary check meets none, and between two of them."""


class EndlessAnswerError(BaseException):
    """Raised in the answer, wherever it is; no `Exception`, so that ``except Exception`` in it does not go on."""


@contextlib.contextmanager
def time_limit(
    computing: float = MOST_COMPUTING, waiting: float = MOST_WAITING, looks: tuple[float, float] = LOOKS
) -> Iterator[None]:
    """Raise EndlessAnswerError in the block once it computed or waited for that many seconds.

    Outside the main thread, on Windows, and where somebody else uses the timer there is no limit: a kernel can be
    interrupted by hand.
    """
    elsewhere = threading.current_thread() is not threading.main_thread()
    if elsewhere or not hasattr(signal, "setitimer") or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        yield
        return
    first, again = looks
    computed, began = time.thread_time(), time.monotonic()

    def look(number: int, frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, again)  # also after the error: an answer may catch that
        if time.thread_time() - computed > computing or time.monotonic() - began > waiting:
            raise EndlessAnswerError

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, first)
    try:
        yield
    finally:
        for _ in range(2):  # a second look may raise here, on a machine that is busy; a third one is `again` away
            with contextlib.suppress(EndlessAnswerError):
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
