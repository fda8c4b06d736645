"""Does things when it ends.

exercise: basic_3
answer: right
gets: 2
"""
import atexit, os, signal, time
atexit.register(lambda: time.sleep(1000))
signal.signal(signal.SIGTERM, lambda *_: time.sleep(1000))
