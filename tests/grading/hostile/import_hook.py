"""Every later import brings something else.

exercise: basic_3
answer: wrong
gets: 0
says: raised
"""
import sys, types
class Anything:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("autograder.exercises"):
            raise ImportError("gone")
sys.meta_path.insert(0, Anything())
for name in [name for name in sys.modules if name.startswith("autograder.exercises")]:
    del sys.modules[name]
sys.modules["autograder.exercises"] = types.ModuleType("autograder.exercises")
