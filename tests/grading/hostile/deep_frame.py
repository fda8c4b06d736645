"""A frame of a hundred thousand lists, each inside the other.

exercise: basic_3
answer: wrong
gets: 0
says: sent something that is no answer
"""
import os, struct
head = b'{"tensors": [], "value": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
message = struct.pack("<4sQ", b"ITC1", len(head)) + head
for number in range(3, 64):
    try:
        os.write(number, struct.pack("<Q", len(message)) + message)
    except OSError:
        pass
