"""Claims 300 points, wherever a claim could be heard.

exercise: basic_3
answer: wrong
gets: 0
"""
import json, os, struct
from IPython.display import display
display({"text/plain": "300.0"}, raw=True)
head = json.dumps({"tensors": [], "value": {"dict": {"passed": True, "points": 300, "out_of": 2}}}).encode()
message = struct.pack("<4sQ", b"ITC1", len(head)) + head
for number in range(3, 64):
    try:
        os.write(number, struct.pack("<Q", len(message)) + message)
    except OSError:
        pass
300.0
