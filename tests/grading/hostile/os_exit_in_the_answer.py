"""Ends the process when it is called.

exercise: basic_3
answer: own
gets: 0
says: ended the Python process
"""
import os
def load_checkpoint(model, state):
    os._exit(0)
