"""Where to compile under DDP and FSDP2: graphs, first call, milliseconds a step on two GPUs over NCCL.

``python benchmarks/placements.py -o assets/recorded/ranks/placements.json`` writes the recording that lesson 6 shows.
``--small`` runs the same on CPU ranks with a small model and writes nothing: does it still run?
"""

import argparse
import contextlib
import gc
import hashlib
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import torch
import torch._dynamo as dynamo
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from compilescope import observe, on_ranks

LARGE = {
    "width": 2048,
    "blocks": 8,
    "batch": 4,
    "tokens": 1024,
    "dtype": "bfloat16",
    "steps": 30,
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
    model, x = placed(name, size), batch(size)
    spent = []
    for _ in range(size["steps"] + 6):
        wait()
        began = time.perf_counter()
        model(x).float().square().mean().backward()
        wait()
        spent.append(time.perf_counter() - began)
        model.zero_grad(set_to_none=True)
    return spent[0], [1000 * one for one in spent[6:]]


def graphs(name, size):
    """Two small steps, for what is compiled; times do not matter."""
    model, x = placed(name, size), batch(size)
    for _ in range(2):
        model(x).float().square().mean().backward()


def row_of(name, size):
    with settings(name):
        torch.compiler.reset()
        run = observe(graphs, name, size | {"backend": "aot_eager", "batch": 1, "tokens": 16})
        torch.compiler.reset()
        first, steps = timed(name, size)
    quarters = statistics.quantiles(steps, n=4)
    return {
        "placement": name,
        "graphs": len(run.graphs),
        "pieces": sum(one.parts for one in run.compiles),
        "breaks": sum(not one.in_callee for one in run.breaks),
        "first_s": round(first, 2),
        "step_ms": round(statistics.median(steps), 2),
        "quarter_ms": [round(quarters[0], 2), round(quarters[2], 2)],
    }


def all_rows(size, stored, path):
    """On each rank: every placement. Rank 0 writes after each, so that a run that is cut off keeps what it has."""
    torch._dynamo.config.recompile_limit = 64
    for name in PLACEMENTS:
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        stored["rows"].append(row_of(name, size))
        if dist.get_rank() == 0:
            Path(path).write_text(json.dumps(stored, indent=1) + "\n")
    return stored


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", type=Path, default=Path(tempfile.gettempdir()) / "placements.json")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--limit", type=float, default=180)
    asked = parser.parse_args()
    two = torch.cuda.device_count() > 1
    stored = {
        "recipe": hashlib.sha256(Path(__file__).read_bytes()).hexdigest(),
        "device": f"2 × {torch.cuda.get_device_name() if two else 'CPU'}",
        "backend": "nccl" if two else "gloo",
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
        "size": SMALL if asked.small else LARGE,
        "rows": [],
    }
    asked.o.parent.mkdir(parents=True, exist_ok=True)
    path = str(asked.o.resolve())
    for row in on_ranks(all_rows, stored["size"], stored, path, watch=False, limit=asked.limit).results[0]["rows"]:
        print(row)


if __name__ == "__main__":
    main()
