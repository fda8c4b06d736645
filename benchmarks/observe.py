"""What observing costs: ``python benchmarks/observe.py [-o benchmarks/observe.md] [--tlparse PROGRAM]``.

Plain and observed compiles alternate in one process, and only their ratios are judged: the median of the pairs.
The other tools run the same program, each compile in a process of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch._inductor.config as inductor
from torch import nn
from torch._inductor.utils import fresh_cache

from compilescope import Run, every_rank, observe, save_html

LIMITS = {"cold": 1.10, "warm": 1.25, "call": 1.02, "megabytes": 50.0}
LOGS = "+dynamo,guards,recompiles,graph_breaks,graph_code,aot_graphs,output_code"
TOOLS = ("plain", "observe", "TORCH_LOGS", "depyf", "TORCH_TRACE")


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, blocks: int = 12, width: int = 64) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(blocks))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


X = torch.randn(2, 16, 64)


def work() -> float:
    """Seconds of CPU that this process and the compilers it has started and awaited have used.

    Another program on the same cores stretches wall time by any factor; CPU time it leaves nearly alone.
    """
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def first_call(model: nn.Module, around: contextlib.AbstractContextManager) -> tuple[float, object]:
    """CPU seconds of the first call of the compiled model, and what `around` gave."""
    torch.compiler.reset()
    compiled = torch.compile(model)
    gc.collect()
    began = work()
    with torch.no_grad(), around as given:
        compiled(X)
    return work() - began, given


def pairs(model: nn.Module, count: int, cold: bool) -> tuple[list[float], list[float], list[float]]:
    """CPU seconds plain and observed, in turn; and those of reading the facts afterwards."""
    plain, observed, reading = [], [], []
    for number in range(count):
        order = (False, True) if number % 2 == 0 else (True, False)
        for watched in order:
            with fresh_cache() if cold else contextlib.nullcontext():
                around = observe(caches="bypass" if cold else "use") if watched else contextlib.nullcontext()
                seconds, run = first_call(model, around)
            (observed if watched else plain).append(seconds)
            if watched:
                began = work()
                assert run.graphs
                reading.append(work() - began)
    return plain, observed, reading


def ratio(observed: list[float], plain: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(observed, plain, strict=True))


def call_ratio(rounds: int = 60, calls: int = 400) -> tuple[float, float]:
    """Time of a call after an observed compile over one after a plain compile, and microseconds of the latter."""

    def one(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * 2

    def other(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * 2

    x = torch.ones(8)
    torch.compiler.reset()
    plain, observed = torch.compile(one, backend="eager"), torch.compile(other, backend="eager")
    plain(x)
    observe(observed, x)
    found = []
    base = []
    for number in range(rounds):
        seconds = {}
        for fn in (plain, observed) if number % 2 == 0 else (observed, plain):
            began = time.perf_counter()
            for _ in range(calls):
                fn(x)
            seconds[fn] = time.perf_counter() - began
        found.append(seconds[observed] / seconds[plain])
        base.append(seconds[plain] / calls * 1e6)
    return statistics.median(found), statistics.median(base)


def megabytes(value: object) -> float:
    """Size of a value with everything it holds, each object once, in MB."""
    seen: dict[int, object] = {}
    stack = [value]
    while stack:
        one = stack.pop()
        if id(one) in seen or isinstance(one, type):
            continue
        seen[id(one)] = one
        if isinstance(one, dict):
            stack.extend([*one.keys(), *one.values()])
        elif isinstance(one, (tuple, list, set, frozenset)):
            stack.extend(one)
        elif hasattr(one, "__dict__"):
            stack.append(vars(one))
    return sum(sys.getsizeof(one) for one in seen.values()) / 1e6


def large(nodes: int, backend: str) -> tuple[Run, float, float]:
    """The run of a graph of that many nodes, the seconds of its first call, and those of reading its facts."""

    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(nodes // 2):
            x = torch.sin(x) * 0.5
        return x

    torch.compiler.reset()
    began = time.perf_counter()
    run = observe(torch.compile(chain, backend=backend, fullgraph=True), torch.ones(4))
    called = time.perf_counter()
    assert len(run.graphs[0].calls()) == nodes
    return run, called - began, time.perf_counter() - called


def as_tool(tool: str, folder: Path, blocks: int) -> None:
    """One cold compile beside one tool, in this process; prints its seconds as JSON."""
    inductor.compile_threads = 1
    torch.set_num_threads(1)
    torch.compile(lambda x: x.sin() + 1)(torch.ones(9))
    around: contextlib.AbstractContextManager = contextlib.nullcontext()
    if tool == "depyf":
        import depyf

        around = depyf.prepare_debug(str(folder))
    if tool == "observe":
        around = observe()
    error = ""
    began = work()
    seconds = 0.0
    try:
        with inductor.patch(force_disable_caches=True):
            seconds, run = first_call(Transformer(blocks), around)
        if tool == "observe":
            save_html(run, folder / "run.html")
    except Exception as raised:
        error = type(raised).__name__
    print(json.dumps({"seconds": seconds or work() - began, "error": error}))


def beside(tool: str, blocks: int, tlparse: str | None) -> dict:
    """Seconds and output of one tool in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "out")
        folder.mkdir()
        settings = {"TORCH_LOGS": LOGS} if tool == "TORCH_LOGS" else {}
        if tool == "TORCH_TRACE":
            settings = {"TORCH_TRACE": str(folder), "INDUCTOR_PROVENANCE": "1"}
        command = [sys.executable, __file__, "--tool", tool, "--folder", str(folder), "--blocks", str(blocks)]
        done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=True)
        result = json.loads(done.stdout.strip().splitlines()[-1])
        if tool == "TORCH_LOGS":
            (folder / "stderr").write_text(done.stderr)
        result |= size_of(folder)
        if tool == "TORCH_TRACE":
            began = time.perf_counter()
            save_html(every_rank(folder)[0], Path(name, "page.html"))
            result["page"] = (
                time.perf_counter() - began,
                {"files": 1, "bytes": Path(name, "page.html").stat().st_size},
            )
            if tlparse:
                pages = Path(name, "tlparse")
                trace = next(folder.glob("*.log"))
                began = time.perf_counter()
                subprocess.run([tlparse, str(trace), "-o", str(pages), "--no-browser"], check=True, capture_output=True)
                result["tlparse"] = (time.perf_counter() - began, size_of(pages))
    return result


def size_of(folder: Path) -> dict:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {"files": len(files), "bytes": sum(path.stat().st_size for path in files)}


def verdict(value: float, limit: float) -> str:
    return "holds" if value <= limit else "MISSED"


def costs() -> list[str]:
    inductor.compile_threads = 1  # g++ as a child that is awaited, so that its work is counted
    torch.set_num_threads(1)  # threads that wait for each other burn CPU time
    model = Transformer()
    first_call(model, contextlib.nullcontext())
    cold = pairs(model, 7, cold=True)
    pairs(model, 1, cold=False)
    warm = pairs(model, 11, cold=False)
    call, base = call_ratio()
    run, _, _ = large(5_000, "aot_eager")
    size = megabytes(run)
    big, big_seconds, big_reading = large(20_000, "eager")
    lines = [
        "| what | measured | limit | |",
        "|---|---|---|---|",
    ]
    for name, (plain, observed, reading) in (("cold", cold), ("warm", warm)):
        value = ratio(observed, plain)
        words = f"{statistics.median(plain):.2f} s → {statistics.median(observed):.2f} s"
        lines.append(
            f"| {name} compile of 12 blocks, median of {len(plain)} pairs | ×{value:.2f} ({words}) "
            f"| ×{LIMITS[name]:.2f} | {verdict(value, LIMITS[name])} |"
        )
        lines.append(f"| … reading its facts, once, at the first look | {statistics.median(reading):.2f} s | | |")
    lines += [
        f"| a call after an observed compile | ×{call:.3f} of {base:.1f} µs | ×{LIMITS['call']:.2f} "
        f"| {verdict(call, LIMITS['call'])} |",
        f"| `Run` of a graph of 5,000 nodes, {len(run.compiles[0].graphs)} stages | {size:.1f} MB "
        f"| {LIMITS['megabytes']:.0f} MB | {verdict(size, LIMITS['megabytes'])} |",
        f"| `Run` of a graph of {len(big.graphs[0].calls()):,} nodes | {megabytes(big):.1f} MB; "
        f"compile {big_seconds:.0f} s, reading {big_reading:.1f} s | | |",
    ]
    return lines


def tools(blocks: int, rounds: int, tlparse: str | None) -> list[str]:
    results: dict[str, list[dict]] = {tool: [] for tool in TOOLS}
    for _ in range(rounds):
        for tool in TOOLS:
            results[tool].append(beside(tool, blocks, tlparse))
    lines = ["| tool | cold compile, CPU × plain | what it leaves | to read |", "|---|---|---|---|"]
    for tool, found in results.items():
        value = ratio([one["seconds"] for one in found], [one["seconds"] for one in results["plain"]])
        last = found[-1]
        leaves = f"{last['files']} files, {last['bytes'] / 1e6:.2f} MB" if last["files"] else "nothing"
        to_read = {
            "observe": "one linked page, and the facts as data",
            "TORCH_LOGS": f"text on stderr: `{LOGS}`",
            "depyf": "a folder of sources",
            "TORCH_TRACE": "nothing yet: see below",
        }.get(tool, "")
        cost = f"raised {last['error']}" if last["error"] else f"×{value:.2f}"
        lines.append(f"| {tool} | {cost} | {leaves} | {to_read} |")
    trace = results["TORCH_TRACE"][-1]
    for name, text in (
        ("page", "`python -m compilescope trace`: one linked page"),
        ("tlparse", "tlparse: an index of pages"),
    ):
        if name in trace:
            seconds, size = trace[name]
            lines.append(
                f"| … then | {seconds:.1f} s more | {size['files']} files, {size['bytes'] / 1e6:.2f} MB | {text} |"
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--tlparse", help="path of the program tlparse, for the comparison")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--tool", choices=TOOLS)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--blocks", type=int, default=4)
    options = parser.parse_args()
    if options.tool:
        as_tool(options.tool, options.folder, options.blocks)
        return
    text = [
        "# What observing costs",
        "",
        f"Written by `python benchmarks/observe.py -o benchmarks/observe.md`: torch {torch.__version__}, "
        f"Python {platform.python_version()}, {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}.",
        "Ratios of CPU seconds in one run, compilers included; the seconds themselves depend on the machine.",
        "A warm compile is observed with `caches='use'`: by default `observe` leaves torch's graph caches aside.",
        "",
        *costs(),
        "",
        f"## Beside other tools: {options.blocks} blocks, cold, median of {options.rounds} rounds",
        "",
        *tools(options.blocks, options.rounds, options.tlparse),
    ]
    result = "\n".join(text) + "\n"
    print(result)
    if options.output:
        options.output.write_text(result)
    if "MISSED" in result:
        sys.exit(1)


if __name__ == "__main__":
    main()
