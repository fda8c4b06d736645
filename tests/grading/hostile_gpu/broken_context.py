"""Leaves its CUDA context broken by an assertion on the device.

exercise: basic_1
answer: right
gets: 0
"""

import torch

try:
    torch.zeros(4, device="cuda")[torch.tensor([10_000], device="cuda")].sum().item()
except RuntimeError as error:
    print("broken:", type(error).__name__)
