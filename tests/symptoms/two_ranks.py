"""Two processes on gloo: ``python two_ranks.py FOLDER`` writes FOLDER/scenario.rank.json, the Run of each."""

import os
import sys
import tempfile
from pathlib import Path

import torch
import torch._dynamo as dynamo
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from compilescope import observe

WIDTH = 600
BACKEND = "aot_eager"


class Net(nn.Module):
    """Layers of 1.4 MB each: more than a bucket of 1 MB, the smallest that DDP takes."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)
        self.third = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.third(torch.relu(self.second(torch.relu(self.first(x)))))


class Checkpointed(Net):
    def forward(self, x):
        return self.third(checkpoint(lambda y: torch.relu(self.second(y)), self.first(x), use_reentrant=False))


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Net() for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def distributed(model):
    return DistributedDataParallel(model, bucket_cap_mb=1)


def step(model):
    model(torch.ones(2, WIDTH)).sum().backward()


def compiled_inside(rank):
    step(distributed(torch.compile(Net(), backend=BACKEND)))


def compiled_outside(rank):
    step(torch.compile(distributed(Net()), backend=BACKEND))


def without_splitting(rank):
    with dynamo.config.patch(optimize_ddp=False):
        compiled_outside(rank)


def checkpointed(rank):
    step(torch.compile(distributed(Checkpointed()), backend=BACKEND))


def checkpointed_without_splitting(rank):
    with dynamo.config.patch(optimize_ddp=False):
        checkpointed(rank)


def sharded_blocks(rank):
    model = Blocks()
    for block in model.blocks:
        block.compile(backend=BACKEND, fullgraph=True)
        fully_shard(block)
    fully_shard(model)
    step(model)


def different_sizes(rank):
    fn = torch.compile(lambda x: torch.sin(x) * 2, backend=BACKEND, dynamic=False)
    fn(torch.ones(4))
    fn(torch.ones(4 + rank))


SCENARIOS = (
    compiled_inside, compiled_outside, without_splitting, checkpointed, checkpointed_without_splitting,
    sharded_blocks, different_sizes,
)  # fmt: skip


def work(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    for scenario in SCENARIOS:
        torch.compiler.reset()
        torch.manual_seed(0)
        error = ""
        with observe() as run:
            try:
                scenario(rank)
            except Exception as raised:
                error = type(raised).__name__
        Path(folder, f"{scenario.__name__}.{rank}.json").write_text(run.to_json())
        Path(folder, f"{scenario.__name__}.{rank}.error").write_text(error)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.multiprocessing.spawn(work, (sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(),), nprocs=2)
