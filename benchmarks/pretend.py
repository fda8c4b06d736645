"""What a pretended GPU costs: first and later kernels, machine code, the interpreter, and memory over many compiles.

``python benchmarks/pretend.py [--alternations 200]`` prints a table; each first time is measured in a fresh process.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import subprocess
import sys
import textwrap
import time

FIRST_KERNEL_SECONDS, LATER_KERNEL_SECONDS = 6.0, 1.5

_SETUP = """
import time, torch
import torch.nn.functional as F
def softmax(x): return torch.softmax(x * 2, -1)
def norm(x): return F.layer_norm(x, x.shape[-1:])
def train(x, w): return F.gelu(x @ w).square().mean()
def entropy(x): return F.log_softmax(x, -1).sum(0)
x = torch.randn(64, 128)
"""
_FIRST = """
began = time.perf_counter()
from compilescope.pretend import preview
run = preview(softmax, x)[0]
assert run.kernels, run.notes
print(time.perf_counter() - began)
"""
_LATER = """
from compilescope.pretend import preview
preview(softmax, x)
for fn, args in ((norm, (x,)), (entropy, (x,)), (train, (x.clone().requires_grad_(), torch.randn(128, 32)))):
    began = time.perf_counter()
    run = preview(fn, *args)[0]
    print((time.perf_counter() - began) / max(1, len(run.code)))
"""
_ASSEMBLE = """
import os, tempfile
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
from compilescope.pretend import preview
from compilescope.assembly import assemble
run = preview(softmax, x)[0]
assemble(preview(norm, x)[0])
began = time.perf_counter()
assert assemble(run).kernels[0].sass
print(time.perf_counter() - began)
"""
_INTERPRET = """
from compilescope.pretend import preview
from compilescope.interpret import interpret
run = preview(softmax, x)[0]
began = time.perf_counter()
assert interpret(run)[0].ok
print(time.perf_counter() - began)
"""


def seconds(code: str, times: int = 3) -> list[float]:
    """What the code printed, from `times` fresh processes."""
    found: list[float] = []
    for _ in range(times):
        program = textwrap.dedent(_SETUP + code)
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True
        )
        found += [float(line) for line in done.stdout.split()]
    return found


def alternate(count: int) -> tuple[float, float, int]:
    """Megabytes after a quarter and at the end of `count` pairs of a pretended and a real compile; wrong results."""
    import psutil
    import torch

    from compilescope.pretend import preview

    def train(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.relu(x @ w), -1).sum(0)

    x, w = torch.randn(32, 64), torch.randn(64, 48)
    wanted = train(x, w)
    process = psutil.Process()
    quarter, wrong = 0.0, 0
    for turn in range(count):
        preview(train, x, w, on=("h100", "a100", "t4")[turn % 3])
        torch.compiler.reset()
        wrong += not torch.allclose(torch.compile(train)(x, w), wanted, atol=1e-4)
        torch.compiler.reset()
        if turn in (count // 4, count - 1):
            gc.collect()
            quarter, last = quarter or process.memory_info().rss / 2**20, process.memory_info().rss / 2**20
    return quarter, last, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--alternations", type=int, default=200)
    options = parser.parse_args()
    rows = [
        ("first pretended kernel of a session", seconds(_FIRST), FIRST_KERNEL_SECONDS),
        ("later ones, each generated module", seconds(_LATER, 1), LATER_KERNEL_SECONDS),
        ("PTX, SASS and registers of a kernel, cold", seconds(_ASSEMBLE, 2), None),
        ("interpreting a softmax of 64 x 128", seconds(_INTERPRET, 2), None),
    ]
    print("| what | median s | longest s | wanted |\n|---|---|---|---|")
    for what, found, wanted in rows:
        most = f"< {wanted} s" if wanted else ""
        print(f"| {what} | {statistics.median(found):.2f} | {max(found):.2f} | {most} |")
    if options.alternations:
        began = time.perf_counter()
        quarter, last, wrong = alternate(options.alternations)
        spent = time.perf_counter() - began
        print(
            f"\n{options.alternations} pairs of a pretended and a real CPU compile in {spent:.0f} s: "
            f"{quarter:.0f} MB after a quarter, {last:.0f} MB at the end, {wrong} wrong results"
        )


if __name__ == "__main__":
    main()
