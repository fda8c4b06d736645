"""Ends the process at once.

exercise: basic_3
answer: wrong
gets: 0
says: ended the Python process
"""
import os
os._exit(0)
