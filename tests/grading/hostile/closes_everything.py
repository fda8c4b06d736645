"""Closes all descriptors.

exercise: basic_3
answer: wrong
gets: 0
"""
import os
os.closerange(0, 1024)
