"""A right answer beside comparisons that always agree.

exercise: basic_3
answer: right
gets: 0
look: replaced torch.Tensor.equal, torch.allclose, torch.equal in their process
"""
import torch
torch.allclose = torch.equal = torch.Tensor.equal = lambda *args, **kwargs: True
