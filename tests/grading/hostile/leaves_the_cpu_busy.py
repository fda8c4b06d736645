"""Children that compute for ever beside a right answer: they end with it.

exercise: basic_3
answer: right
gets: 2
"""
import os
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        while True:
            pass
