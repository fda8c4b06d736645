"""Children that compute for ever, so that others have less of the machine.

exercise: basic_3
answer: right
gets: 0
cpu: 8
says: computed longer than a submission may
"""
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        while True:
            pass
time.sleep(1000)
