"""What a pretended GPU costs: first and later kernels, machine code, the interpreter, and memory over many compiles.

``python benchmarks/pretend.py [-o benchmarks/pretend.md]`` prints a table; each first time is measured in a fresh
process, beside the time of a fixed piece of work, so that a busy machine is seen in the table.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass, field
from pathlib import Path

FIRST_KERNEL_SECONDS, LATER_KERNEL_SECONDS, GROWN_MEGABYTES = 6.0, 1.5, 40

_SETUP = """
import os, resource, tempfile, time
import torch
import torch.nn.functional as F
def softmax(x): return torch.softmax(x * 2, -1)
def norm(x): return F.layer_norm(x, x.shape[-1:])
def train(x, w): return F.gelu(x @ w).square().mean()
def entropy(x): return F.log_softmax(x, -1).sum(0)
x = torch.randn(64, 128)
def cpu():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
def told(began, used, parts=1):
    print((time.perf_counter() - began) / parts, (cpu() - used) / parts)
"""
_FIRST = """
began, used = time.perf_counter(), cpu()
from compilescope.pretend import preview
run = preview(softmax, x)[0]
assert run.kernels, run.notes
told(began, used)
"""
_REAL = """
os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()
began, used = time.perf_counter(), cpu()
torch.compile(softmax)(x)
told(began, used)
"""
_LATER = """
from compilescope.pretend import preview
preview(softmax, x)
for fn, args in ((norm, (x,)), (entropy, (x,)), (train, (x.clone().requires_grad_(), torch.randn(128, 32)))):
    began, used = time.perf_counter(), cpu()
    run = preview(fn, *args)[0]
    told(began, used, max(1, len(run.code)))
"""
_ASSEMBLE = """
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
from compilescope.pretend import preview
from compilescope.assembly import assemble
run = preview(softmax, x)[0]
assemble(preview(norm, x)[0])
began, used = time.perf_counter(), cpu()
assert assemble(run).kernels[0].sass
told(began, used)
"""
_INTERPRET = """
from compilescope.pretend import preview
from compilescope.interpret import interpret
run = preview(softmax, x)[0]
began, used = time.perf_counter(), cpu()
assert interpret(run)[0].ok
told(began, used)
"""


@dataclass
class Measured:
    """Wall and CPU seconds of one row, from fresh processes."""

    what: str
    code: str
    limit: float | None = None
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def again(self) -> None:
        """One more fresh process."""
        program = textwrap.dedent(_SETUP + self.code)
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True
        )
        for line in done.stdout.splitlines():
            wall, cpu = line.split()
            self.wall.append(float(wall))
            self.cpu.append(float(cpu))

    def row(self) -> str:
        limit = "" if self.limit is None else f"{self.limit} s"
        holds = "" if self.limit is None else "holds" if max(self.cpu) < self.limit else "**does not hold**"
        wall, cpu = (
            f"{statistics.median(one):.2f} ({min(one):.2f} to {max(one):.2f})" for one in (self.wall, self.cpu)
        )
        return f"| {self.what} | {wall} | {cpu} | {limit} | {holds} |"


def yardstick() -> float:
    """Seconds of a fixed piece of work in one thread."""
    began = time.perf_counter()
    sum(number * number % 7 for number in range(2_000_000))
    return time.perf_counter() - began


def alternate(count: int) -> tuple[list[float], int]:
    """Megabytes after each quarter of `count` pairs of a pretended and a real compile; wrong results."""
    import psutil
    import torch

    from compilescope.pretend import preview

    def train(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.relu(x @ w), -1).sum(0)

    x, w = torch.randn(32, 64), torch.randn(64, 48)
    wanted = train(x, w)
    process = psutil.Process()
    resident: list[float] = []
    wrong = 0
    for turn in range(1, count + 1):
        preview(train, x, w, on=("h100", "a100", "t4")[turn % 3])
        torch.compiler.reset()
        wrong += not torch.allclose(torch.compile(train)(x, w), wanted, atol=1e-4)
        torch.compiler.reset()
        if turn % max(1, count // 4) == 0:
            gc.collect()
            resident.append(process.memory_info().rss / 2**20)
    return resident, wrong


def alternations(count: int) -> list[str]:
    began = time.perf_counter()
    resident, wrong = alternate(count)
    spent = time.perf_counter() - began
    grown = resident[-1] - resident[0]
    verdict = "holds" if grown < GROWN_MEGABYTES and not wrong else "**does not hold**"
    return [
        "",
        f"{count} pairs of a pretended and a real CPU compile in one process, {spent:.0f} s: resident memory after each"
        f" quarter {', '.join(f'{one:.0f}' for one in resident)} MB, {wrong} wrong results. Limit after the first "
        f"quarter: {GROWN_MEGABYTES} MB more, none wrong: {verdict}.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--alternations", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    import torch

    first = Measured("first pretended kernel of a session", _FIRST, FIRST_KERNEL_SECONDS)
    real = Measured("beside it: first CPU kernel of a session, cold caches", _REAL)
    later = Measured("later ones, each generated module", _LATER, LATER_KERNEL_SECONDS)
    machine = Measured("PTX, SASS and registers of one kernel, cold", _ASSEMBLE)
    numbers = Measured("interpreting a softmax of 64 x 128", _INTERPRET)
    load, fixed = os.getloadavg()[0], []
    for number in range(options.rounds):  # in turn, so that a busy minute meets all of them
        fixed.append(yardstick())
        for one in (first, real, later) if number >= 2 else (first, real, later, machine, numbers):
            one.again()
    ratios = [one / other for one, other in zip(first.wall, real.wall, strict=True)]
    lines = [
        "# What a pretended GPU costs",
        "",
        "Written by `python benchmarks/pretend.py -o benchmarks/pretend.md`: "
        f"torch {torch.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores, "
        f"{datetime.datetime.now(tz=datetime.UTC).date()}.",
        f"Load of the machine before: {load:.1f}. A fixed piece of work took {min(fixed):.2f} to {max(fixed):.2f} s "
        "between the rounds: so much of a spread is the machine's. Medians, smallest and largest; a limit is judged by",
        "the largest CPU seconds, to which other work on the machine adds little.",
        "",
        "| what | seconds | CPU seconds | limit | |",
        "|---|---|---|---|---|",
        *(one.row() for one in (first, later, real, machine, numbers)),
        "",
        f"First pretended kernel beside the first CPU kernel: x{statistics.median(ratios):.2f} "
        f"({min(ratios):.2f} to {max(ratios):.2f}), {options.rounds} pairs.",
    ]
    if options.alternations:
        lines += alternations(options.alternations)
    text = "\n".join(lines) + "\n"
    print(text)
    if options.output:
        options.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    # Real compiles of the alternations must be compiles, not answers of a cache on disk.
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        main()
