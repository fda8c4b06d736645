"""Fork the process that ranks come from, in a process that has no thread yet: nothing is imported again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import NoReturn


class Forked:
    """Of `subprocess.Popen` what `ranks` needs, for a fork of this process that runs `rank_process.main`.

    `settings` are added to its environment.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        their_input, orders = os.pipe()
        answers, their_output = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            _serve(their_input, their_output, settings)
        os.close(their_input)
        os.close(their_output)
        self.stdin, self.stdout = os.fdopen(orders, "w"), os.fdopen(answers)

    def poll(self) -> int | None:
        """Its exit code if it has ended."""
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
            except ChildProcessError:  # a learner's own os.wait() heard of its end
                self.returncode = 1
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code; subprocess.TimeoutExpired after `timeout` seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if until and time.monotonic() > until:
                raise subprocess.TimeoutExpired("rank_process", timeout or 0.0)
            time.sleep(0.005)
        return self.returncode or 0

    def kill(self) -> None:
        """End it, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def _serve(orders: int, answers: int, settings: Mapping[str, str]) -> NoReturn:
    code = 1
    try:
        from compilescope import rank_process  # which a program must not have imported that runs it by its name

        os.setsid()
        os.dup2(orders, 0)
        os.dup2(answers, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        os.environ |= settings
        sys.stdin = os.fdopen(0, closefd=False)
        rank_process.main()
    except SystemExit:
        code = 0
    finally:
        os._exit(code)
