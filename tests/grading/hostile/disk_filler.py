"""Writes until nothing more fits.

exercise: basic_3
answer: wrong
gets: 0
prints: full: No space left
never prints: could write
"""
import os
written = 0
try:
    for number in range(10_000):
        with open(f"/tmp/full-{number}", "wb") as file:
            written += file.write(os.urandom(1_000_000) * 64)
except OSError as error:
    print("full:", error.strerror)
for folder in ("/", "/usr", "/course", "/cache", "/dev"):
    try:
        open(f"{folder}/mine", "w").write("x" * 10)
        print("could write", folder)
    except OSError:
        pass
