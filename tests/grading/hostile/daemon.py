"""Leaves a daemon that waits for the grader to finish.

exercise: basic_3
answer: right
gets: 2
"""
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            time.sleep(0.1)
    os._exit(0)
