"""One line turns every later cell into nothing.

exercise: basic_3
answer: wrong
gets: 0
"""
get_ipython().input_transformers_post.append(lambda lines: ["pass\n"])
