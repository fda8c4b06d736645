"""Leaves threads that never end.

exercise: basic_3
answer: right
gets: 2
"""
import threading, time
for _ in range(5):
    threading.Thread(target=time.sleep, args=(100_000,)).start()
