"""Announces a frame of an exabyte.

exercise: basic_3
answer: wrong
gets: 0
says: sent something that is no answer
"""
import os, struct
for number in range(3, 64):
    try:
        os.write(number, struct.pack("<Q", 2**60) + b"x")
    except OSError:
        pass
