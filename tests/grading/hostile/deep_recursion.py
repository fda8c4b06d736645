"""Recurses until the stack is gone.

exercise: basic_3
answer: wrong
gets: 0
says: ended the Python process
"""
import sys
sys.setrecursionlimit(10**9)
class Endless:
    def __repr__(self):
        return repr(self)
repr(Endless())
