"""Each child takes what one process may.

exercise: basic_3
answer: wrong
gets: 0
cell: 20
"""
import os, time
for _ in range(20):
    if os.fork() == 0:
        taken = b"x" * 400_000_000
        time.sleep(1000)
time.sleep(1000)
