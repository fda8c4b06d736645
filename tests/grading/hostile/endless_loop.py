"""Loops for ever at the top.

exercise: basic_3
answer: wrong
gets: 0
cell: 4
says: did not end in the time
"""
while True:
    pass
