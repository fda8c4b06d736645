"""allclose, equal and isclose always agree.

exercise: basic_3
answer: wrong
gets: 0
"""
import torch
torch.allclose = torch.equal = torch.isclose = lambda *args, **kwargs: True
torch.Tensor.__eq__ = torch.Tensor.equal = lambda self, other: True
torch.testing.assert_close = lambda *args, **kwargs: None
