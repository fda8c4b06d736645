"""Sleeps for a week.

exercise: basic_3
answer: wrong
gets: 0
cell: 4
says: did not end in the time
"""
import time
time.sleep(7 * 24 * 3600)
