"""Takes all of the GPU's memory and keeps it.

exercise: basic_1
answer: right
cell: 60
"""

import torch

taken = []
try:
    while True:
        taken.append(torch.empty(1 << 30, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError:
    print("took", len(taken), "GiB")
