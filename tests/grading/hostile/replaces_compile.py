"""A right answer under another torch.compile.

exercise: basic_3
answer: right
gets: 0
look: replaced torch.compile in their process
"""
import torch
kept = torch.compile
torch.compile = lambda *args, **options: kept(*args, **options)
