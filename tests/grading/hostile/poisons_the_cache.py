"""Writes into compile caches, its own and the shared one.

exercise: basic_3
answer: right
gets: 2
never prints: wrote /cache
"""
import os
for folder in ("/cache", "/tmp/cache"):
    try:
        os.makedirs(f"{folder}/inductor/aa", exist_ok=True)
        open(f"{folder}/inductor/aa/poison.py", "w").write("raise SystemExit")
        print("wrote", folder)
    except OSError:
        pass
