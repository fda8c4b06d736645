"""torch.compile does nothing, and the counters say one graph.

exercise: basic_1
answer: wrong
gets: 0
"""
import torch
import torch._dynamo
torch.compile = lambda fn=None, **options: fn if fn else (lambda f: f)
torch._dynamo.utils.counters["stats"]["unique_graphs"] = 1
