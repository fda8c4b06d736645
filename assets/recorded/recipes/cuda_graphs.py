"""What torch does with CUDA graphs: recorded, replayed, skipped and why, outputs overwritten, memory kept.

MIB in sizes: 2**18 fp32 numbers are one MiB.
"""

import torch

MIB = 2**18
MODES = ("reduce-overhead",)


def ones(device, *shape):
    return torch.ones(*shape, device=device)


def several(device, fn, *sizes, repeat=3, **more):
    """Calls with each size, `repeat` times each."""
    calls = [(ones(device, size),) for size in sizes for _ in range(repeat)]
    return {"model": fn, "calls": calls, "first_calls": len(calls), **more}


def plain(x):
    return (x * 2).relu() + 1


def replayed(device):
    return several(device, plain, MIB, repeat=6)


def mutates_input(device):
    def count_up(x):
        x.add_(1)
        return x * 2

    return several(device, count_up, MIB, reference=False)


def cpu_tensor(device):
    def scaled(x):
        return x * torch.arange(4.0).sum() + x.sum().cpu()

    return several(device, scaled, MIB, reference=False)


def cpu_argument(device):
    bias = torch.ones(64)
    calls = [(ones(device, 64), bias)] * 3
    return {"model": lambda x, b: x * 2 + b.to(x.device), "calls": calls}


def data_dependent(device):
    def positive(x):
        return torch.nonzero(x > 0).sum()

    return several(device, positive, 1024, reference=False)


def item(device):
    def shifted(x):
        return x * 2 + x.sum().item()

    return several(device, shifted, 1024, reference=False)


def forced_dynamic(device):
    return several(device, plain, 1000, 2000, 3000, 4000, dynamic=True, repeat=2)


def twelve_sizes(device):
    return several(device, plain, *(1000 * n for n in range(1, 13)), repeat=2)


def compared(read, own):
    """Raises ValueError with both if numbers were read that are not a result's own, without torch's saying so."""
    if read != own:
        raise ValueError(f"no error, and {read} instead of {own}")


def keep(change, warm=0, before=lambda: None):
    """After `warm` calls three steps, each result kept as `change` gives it back; then all are read and compared."""

    def use(compiled, args):
        for _ in range(warm):
            compiled(*args)
        batches, kept = [args[0] * n for n in (1, 2, 3)], []
        for batch in batches:
            before()
            kept.append(change(compiled(batch)))
        compared(
            [one.double().mean().item() for one in kept], [change(plain(b)).double().mean().item() for b in batches]
        )

    return use


def kept(use):
    return lambda device: {"model": plain, "calls": [(ones(device, MIB),)], "use": use}


def fed_back(device):
    def use(compiled, args):
        x = args[0]
        for _ in range(4):
            x = compiled(x)
        return x.sum().item()

    return {"model": lambda x: x * 0.5 + 1, "calls": [(ones(device, MIB),)], "use": use}


def memory(*mibs):
    """Sizes in MiB, three calls each, without dynamic shapes: one graph for each."""
    return lambda device: several(device, plain, *(n * (MIB if device == "cuda" else 1) for n in mibs), dynamic=False)


def two_outputs(device):
    return several(device, lambda x: (x + 1, x * 2), 16 * MIB if device == "cuda" else 16, reference=False)


def with_intermediate(device):
    """A product keeps a value that no fusion removes."""
    n = 2048 if device == "cuda" else 32
    calls = [(ones(device, n, n),)] * 3
    return {"model": lambda x: ((x @ x).relu() @ x).sum(), "calls": calls}


def case(make, words, group):
    return {"make": make, "words": words, "group": group}


WORKLOADS = {
    "replayed": case(replayed, "the same input again and again", "graphs"),
    "twelve sizes": case(twelve_sizes, "twelve sizes, two calls each", "graphs"),
    "dynamic": case(forced_dynamic, "four sizes under dynamic=True", "graphs"),
    "mutates its input": case(mutates_input, "x.add_(1) on an argument", "skips"),
    "computes on the CPU": case(cpu_tensor, "one operation on the CPU", "skips"),
    "takes a CPU tensor": case(cpu_argument, "an argument that lies on the CPU", "skips"),
    "data decides a size": case(data_dependent, "nonzero()", "skips"),
    "reads a number": case(item, "sum().item() inside", "skips"),
    "kept": case(kept(keep(lambda out: out)), "three results kept as they are", "kept"),
    "kept, replays": case(kept(keep(lambda out: out, warm=2)), "three replays kept as they are", "kept"),
    "kept, cloned": case(kept(keep(torch.clone)), "three results cloned", "kept"),
    "kept, moved to the CPU": case(kept(keep(lambda out: out.cpu())), "three results moved to the CPU", "kept"),
    "kept, reduced": case(kept(keep(lambda out: out.sum())), "of three results the sum", "kept"),
    "kept, steps marked": case(
        kept(keep(lambda out: out, before=torch.compiler.cudagraph_mark_step_begin)),
        "cudagraph_mark_step_begin() before each",
        "kept",
    ),
    "fed back": case(fed_back, "each result is the next input", "kept"),
    **{f"{n} MiB": case(memory(n), f"an input and a result of {n} MiB", "memory") for n in (1, 8, 64)},
    "8 then 64 MiB": case(memory(8, 64), "two sizes, the larger later", "memory"),
    "64 then 8 MiB": case(memory(64, 8), "two sizes, the larger first", "memory"),
    "16, 32, 48, 64 MiB": case(memory(16, 32, 48, 64), "four sizes, rising", "memory"),
    "two results": case(two_outputs, "an input of 16 MiB, two results", "memory"),
    "a product between": case(with_intermediate, "2048 x 2048, two products", "memory"),
}
