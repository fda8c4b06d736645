"""Starts threads without end.

exercise: basic_3
answer: wrong
gets: 0
cell: 6
"""
import threading, time
while True:
    try:
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    except RuntimeError:
        time.sleep(0.01)
