"""Two processes that compile different things: what `two_ranks` beside it was written from."""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing


def scaled(x, n):
    return torch.sin(x) * n


def work(rank):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": sys.argv[1] if len(sys.argv) > 1 else "29511"}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    compiled = torch.compile(scaled, backend="aot_eager")
    compiled(torch.ones(4), 2.0)
    if rank == 1:
        compiled(torch.ones(4, 4), 2.0)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(work, nprocs=2)
