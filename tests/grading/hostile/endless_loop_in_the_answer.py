"""Loops for ever when it is called.

exercise: basic_3
answer: own
gets: 0
cell: 6
says: did not end in the time
"""
def load_checkpoint(model, state):
    while True:
        pass
