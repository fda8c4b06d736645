"""The course's own functions are replaced.

exercise: basic_3
answer: wrong
gets: 0
"""
import autograder, autograder.exercise, autograder.judge, autograder.judging
autograder.check = lambda name, namespace=None: print("✓")
autograder.judge.refuse_unsolved = lambda *args: None
autograder.judging.same_numbers = autograder.judging.graphs_made = lambda *args, **kwargs: None
class Never(BaseException):
    def __new__(cls, *args):
        return BaseException.__new__(cls)
autograder.exercise.NotYet = Never
