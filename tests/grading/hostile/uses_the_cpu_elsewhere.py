"""Children that compute for ever, so that others have less of the machine; they end with it.

exercise: basic_3
answer: right
gets: 2
"""
import os
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        while True:
            pass
