"""Takes over how the shell reports errors and shows results.

exercise: basic_3
answer: wrong
gets: 0
"""
shell = get_ipython()
shell.set_custom_exc((BaseException,), lambda self, kind, value, trace, tb_offset=None: None)
shell.showtraceback = lambda *args, **kwargs: None
shell.displayhook.__class__.__call__ = lambda self, result=None: None
