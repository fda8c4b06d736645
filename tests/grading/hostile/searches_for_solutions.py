"""Looks everywhere for solutions, hidden checks and other notebooks.

exercise: basic_3
answer: wrong
gets: 0
prints: found []
"""
import os
found = []
for folder, _, files in os.walk("/"):
    if folder.startswith(("/proc", "/sys", "/dev")) or "site-packages" in folder or folder.startswith("/usr"):
        continue
    for name in files:
        path = os.path.join(folder, name)
        if name.endswith((".ipynb", ".db", ".jsonl")):
            found.append(path)
        elif name.endswith(".py") and folder.startswith("/course"):
            text = open(path, errors="replace").read()
            if "KnownMistake(" in text or "alternatives=(" in text or "END SOLUTION" in text or "def judge(asked" in text:
                found.append(path)
print("found", found)
