"""Where to compile under DDP and FSDP2: graphs, first call, milliseconds a step on two GPUs over NCCL.

``python benchmarks/placements.py -o assets/recorded/ranks/placements.json`` writes the recording that lesson 6 shows.
``--small`` runs the same on CPU ranks with a small model and writes nothing: does it still run?
"""

import argparse
import contextlib
import hashlib
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import torch
import torch._dynamo as dynamo
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from compilescope import on_ranks

LARGE = {
    "width": 2048,
    "blocks": 8,
    "batch": 4,
    "tokens": 1024,
    "dtype": "bfloat16",
    "steps": 40,
    "backend": "inductor",
}
SMALL = {"width": 64, "blocks": 3, "batch": 2, "tokens": 16, "dtype": "float32", "steps": 3, "backend": "aot_eager"}
PLACEMENTS = (
    "DDP, not compiled",
    "DDP, compiled inside",
    "DDP, compiled outside",
    "DDP, inside, optimize_ddp=False",
    "DDP, each block",
    "FSDP2, not compiled",
    "FSDP2, each block",
    "FSDP2, whole model",
)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Stack(nn.Module):
    def __init__(self, width, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def placed(name, size):
    """The model, wrapped and compiled as the placement says."""
    model = Stack(size["width"], size["blocks"]).to(getattr(torch, size["dtype"]))
    if "each block" in name:
        for block in model.blocks:
            block.compile(backend=size["backend"])
    if "inside" in name:
        model.compile(backend=size["backend"])
    if name.startswith("DDP"):
        model = DistributedDataParallel(model)
    else:
        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
    if "outside" in name or "whole" in name:
        model.compile(backend=size["backend"])
    return model


def settings(name):
    return dynamo.config.patch(optimize_ddp=False) if "optimize_ddp=False" in name else contextlib.nullcontext()


def batch(size):
    return torch.randn(size["batch"], size["tokens"], size["width"], dtype=getattr(torch, size["dtype"]))


def wait():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def timed(name, size):
    """Seconds of the first step, and milliseconds of each later one: forward and backward."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()
    with settings(name):
        model, x = placed(name, size), batch(size)
        spent = []
        for _ in range(size["steps"] + 6):
            wait()
            began = time.perf_counter()
            model(x).float().square().mean().backward()
            wait()
            spent.append(time.perf_counter() - began)
            model.zero_grad(set_to_none=True)
    return [spent[0], *(1000 * one for one in spent[6:])]


def graphs(name, size):
    """Two small steps, for what is compiled; times do not matter."""
    with settings(name):
        model, x = placed(name, size), batch(size)
        for _ in range(2):
            model(x).float().square().mean().backward()


def row_of(name, size):
    facts = on_ranks(graphs, name, size | {"backend": "aot_eager", "batch": 1, "tokens": 16}, limit=150)
    first, *steps = on_ranks(timed, name, size, watch=False, limit=200).results[0]
    quarters = statistics.quantiles(steps, n=4)
    return facts.backend, {
        "placement": name,
        "graphs": len(facts[0].run.graphs),
        "pieces": facts[0].pieces,
        "breaks": sum(not one.in_callee for one in facts[0].run.breaks),
        "first_s": round(first, 2),
        "step_ms": round(statistics.median(steps), 2),
        "quarter_ms": [round(quarters[0], 2), round(quarters[2], 2)],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", type=Path)
    parser.add_argument("--small", action="store_true")
    asked = parser.parse_args()
    size = SMALL if asked.small else LARGE
    device = torch.cuda.get_device_name() if torch.cuda.device_count() > 1 else "CPU"
    stored = {
        "recipe": hashlib.sha256(Path(__file__).read_bytes()).hexdigest(),
        "device": f"2 × {device}",
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
        "size": size,
        "rows": [],
    }
    for name in PLACEMENTS:
        stored["backend"], row = row_of(name, size)
        print(row, flush=True)
        stored["rows"].append(row)
        if asked.o:  # after each row: a run that is cut off keeps what it has
            asked.o.parent.mkdir(parents=True, exist_ok=True)
            asked.o.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
