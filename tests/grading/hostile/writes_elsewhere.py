"""Writes wherever solutions, checks, other submissions and the course itself could be.

exercise: basic_3
answer: right
gets: 2
prints: wrote []
"""
import os, sys
wrote = []
folders = {os.path.dirname(module.__file__) for module in list(sys.modules.values()) if getattr(module, "__file__", None)}
for folder in sorted({*folders - {""}, "/", "/course", "/course/autograder", "/usr/lib", "/etc", "/var", "/root", "/home", sys.prefix}):
    try:
        open(os.path.join(folder, "mine.py"), "w").close()
        wrote.append(folder)
    except OSError:
        pass
print("wrote", wrote)
