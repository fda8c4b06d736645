"""Ends its process while the grader runs a right answer of its own beside it.

exercise: basic_3
answer: right
gets: 0
cell: 20
look: replaced autograder.sandbox.pristine.Kept.state in their process
"""
import os
import threading
import time

from autograder.sandbox.pristine import Kept

def state(self, told=Kept.state):
    threading.Thread(target=lambda: (time.sleep(0.1), os._exit(0)), daemon=True).start()
    return told(self)

Kept.state = state
