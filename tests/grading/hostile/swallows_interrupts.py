"""Catches everything and goes on.

exercise: basic_3
answer: wrong
gets: 0
cell: 4
says: did not end in the time
"""
import time
while True:
    try:
        time.sleep(1)
    except BaseException:
        pass
