"""relu(x + 1) * 2: the published demonstration of torch.compile, taken apart on a GPU.

First calls are measured in processes of their own, with a cache folder that is empty or filled by the one before:
``python relu_chain.py MODE`` prints the seconds of six calls.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch

SIZES = {"64 x 64": (64, 64), "4096 x 4096": (4096, 4096), "32768 x 8192": (32768, 8192)}
DEMONSTRATED = "4096 x 4096"


def model(x):
    return torch.relu(x + 1) * 2


def inputs(device):
    torch.manual_seed(0)
    return (torch.randn(*SIZES[DEMONSTRATED], device=device),)


def one_operation(x):
    return torch.relu(x)


def ten_operations(x):
    for _ in range(5):
        x = torch.relu(x + 1)
    return x


def product(x, w):
    return x @ w


def named(fn, name):
    def call(*args):
        return fn(*args)

    call.__name__ = name
    return call


def compared(fn, *args, flush=True, dynamic=False, mode=None):
    from compilescope.timing import compare_speed

    torch.compiler.reset()
    compiled = named(torch.compile(fn, dynamic=dynamic, mode=mode), "compiled")
    return compare_speed(named(fn, "eager"), compiled, *args, flush=flush, seconds=0.5)


def measured(device="cuda", sizes=SIZES):
    """Timings, speeds, spans and numbers by name."""
    from compilescope.lanes import record_spans
    from compilescope.timing import measure

    found = {"timings": {}, "speeds": {}, "spans": {}, "numbers": {}}
    for name, size in sizes.items():
        x = torch.randn(*size, device=device)
        out = torch.empty_like(x)
        found["speeds"][name] = compared(model, x)
        found["speeds"][f"{name}, called in a row"] = compared(model, x, flush=False)
        found["timings"][f"copy {name}"] = measure(named(out.copy_, "copy"), x, seconds=0.02)
        found["numbers"][f"bytes {name}"] = x.numel() * x.element_size()
    found["timings"] |= same_input(measure, torch.randn(1024, 1024, device=device))
    x = torch.randn(*sizes[DEMONSTRATED], device=device)
    found["speeds"]["one operation"] = compared(one_operation, x)
    found["speeds"]["ten operations"] = compared(ten_operations, x)
    half = x.to(torch.bfloat16)
    found["speeds"]["matrix product"] = compared(product, half, half)
    small = torch.randn(64, 64, device=device)
    found["speeds"]["64 x 64, CUDA graph"] = compared(model, small, flush=False, mode="reduce-overhead")
    if device == "cuda":
        found["numbers"] |= {"L2 bytes": torch.cuda.get_device_properties(0).L2_cache_size, **returns(sizes)}
        found["spans"] = spans(record_spans, sizes)
        found["numbers"] |= first_calls() | published(sizes)
    return found


def same_input(measure, x):
    """A copy of 4 MB that comes from memory, and twenty of the same 4 MB in a row."""
    out = torch.empty_like(x)

    def twenty(x):
        for _ in range(20):
            out.copy_(x)

    return {
        "copy 4 MB": measure(named(out.copy_, "copy"), x, seconds=0.02),
        "twenty copies of the same 4 MB": measure(named(twenty, "twenty copies"), x, seconds=0.02),
    }


def spans(record, sizes):
    torch.compiler.reset()
    x = torch.randn(*sizes[DEMONSTRATED], device="cuda")
    compiled = torch.compile(model)
    found = {}
    for name, fn in (("eager", model), ("compiled", compiled)):
        for _ in range(5):
            fn(x)
        found[name] = record(lambda fn=fn: fn(x))
    return found


def published(sizes):
    """Median seconds of ten calls, CUDA events around each: what the published demonstration measures."""
    found = {}
    for name in (DEMONSTRATED, "32768 x 8192"):
        x = torch.randn(*sizes[name], device="cuda")
        torch.compiler.reset()
        for which, fn in (("eager", model), ("compiled", torch.compile(model, dynamic=False))):
            for _ in range(5):
                fn(x)
            seconds = []
            for _ in range(10):
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                fn(x)
                end.record()
                torch.cuda.synchronize()
                seconds.append(start.elapsed_time(end) / 1e3)
            found[f"published {which} {name}"] = statistics.median(seconds)
    return found


def returns(sizes):
    """Median seconds until a call of eager or compiled returns, and until its work is done."""
    found = {}
    for name, size in sizes.items():
        x = torch.randn(*size, device="cuda")
        torch.compiler.reset()
        for which, fn in (("eager", model), ("compiled", torch.compile(model, dynamic=False))):
            returned, finished = [], []
            for _ in range(60):
                torch.cuda.synchronize()
                start = time.perf_counter()
                fn(x)
                returned.append(time.perf_counter() - start)
                torch.cuda.synchronize()
                finished.append(time.perf_counter() - start)
            found[f"{which} returned {name}"] = statistics.median(returned[10:])
            found[f"{which} finished {name}"] = statistics.median(finished[10:])
    return found


def first_calls():
    """Seconds of call 1 to 6 in a new process: eager, compiled cold, compiled with a filled cache, CUDA graphs."""
    found = {}
    with tempfile.TemporaryDirectory() as cold, tempfile.TemporaryDirectory() as other:
        for name, mode, folder in (
            ("eager", "eager", cold),
            ("cold", "default", cold),
            ("cached", "default", cold),
            ("CUDA graph", "reduce-overhead", other),
        ):
            environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder}
            command = [sys.executable, __file__, mode]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
            seconds = json.loads(done.stdout.splitlines()[-1])
            found |= {f"{name}, call {number}": value for number, value in enumerate(seconds, 1)}
    return found


def six_calls(mode):
    x = inputs("cuda")[0]
    fn = model if mode == "eager" else torch.compile(model, mode=mode)
    x.neg()
    torch.cuda.synchronize()
    seconds = []
    for _ in range(6):
        start = time.perf_counter()
        fn(x)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return seconds


if __name__ == "__main__":
    print(json.dumps(six_calls(sys.argv[1])))
