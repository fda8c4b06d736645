"""One file of 100 GB.

exercise: basic_3
answer: right
gets: 2
prints: stopped: File too large
"""
try:
    with open("/tmp/huge", "wb") as file:
        while True:
            file.write(b"x" * 50_000_000)
except OSError as error:
    print("stopped:", error.strerror)
import os
os.remove("/tmp/huge")
