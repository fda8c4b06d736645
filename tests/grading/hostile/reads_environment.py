"""Prints every variable of the environment and of its parent processes.

exercise: basic_3
answer: wrong
gets: 0
prints: no secret
never prints: 1 secrets
"""
import glob, os
print(sorted(os.environ))
for path in glob.glob("/proc/*/environ"):
    try:
        print(open(path).read().count("COURSE_SECRET"), "secrets")
    except OSError:
        print("closed")
print("secret" if "COURSE_SECRET" in os.environ else "no secret")
