"""Ignores every signal it can, then loops.

exercise: basic_3
answer: wrong
gets: 0
cell: 4
says: did not end in the time
"""
import signal
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    pass
