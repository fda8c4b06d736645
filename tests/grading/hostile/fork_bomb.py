"""Forks without end.

exercise: basic_3
answer: wrong
gets: 0
cell: 8
"""
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
