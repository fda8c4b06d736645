"""Writes noise to every descriptor.

exercise: basic_3
answer: wrong
gets: 0
says: sent something that is no answer
"""
import os
for number in range(3, 64):
    try:
        os.write(number, b"\xff" * 4096)
    except OSError:
        pass
