"""Asserts and raises are cut out of every later cell.

exercise: basic_3
answer: wrong
gets: 0
"""
import ast
class Cut(ast.NodeTransformer):
    def visit_Assert(self, node):
        return ast.Pass()
    visit_Raise = visit_Assert
get_ipython().ast_transformers.append(Cut())
