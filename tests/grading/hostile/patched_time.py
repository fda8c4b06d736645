"""No time passes.

exercise: basic_3
answer: wrong
gets: 0
"""
import time
time.time = time.monotonic = time.perf_counter = time.process_time = lambda: 0.0
time.sleep = lambda seconds: None
