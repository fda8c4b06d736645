"""A result that is equal to everything.

exercise: basic_1
answer: own
gets: 0
says: returned a Yes
"""
class Yes:
    def __eq__(self, other):
        return True
    __lt__ = __le__ = __gt__ = __ge__ = __ne__ = __eq__
    shape = property(lambda self: self)
    def __getattr__(self, name):
        return self
    def __call__(self, *args, **kwargs):
        return self
def compile_report(metrics):
    return lambda prices: Yes()
