"""NaN where numbers are wanted.

exercise: basic_1
answer: own
gets: 0
says: is off by nan
"""
import torch
def compile_report(metrics):
    return torch.compile(lambda prices: prices.sum() * float("nan") * torch.ones(len(metrics), len(prices)), backend="aot_eager")
