"""The same compile drawn by the explorer and by its peers.

Run: ``python benchmarks/explorer_peers.py -o benchmarks/explorer.md``.
Needs ``pip install torchview graphviz pydot tlparse`` and the program ``dot`` (Debian: graphviz). A peer that is not
there, or that fails on a program, gets a row that says so. The program is the transformer of ``benchmarks/observe.py``,
compiled with Inductor; each tool starts from what it needs: the explorer from the Run, fx.graph_drawer from Dynamo's
graph module, torchview from the eager module on the meta device, tlparse from a folder that TORCH_TRACE wrote.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from explorer import write_section
from observe import Transformer, X
from torch.fx.passes.graph_drawer import FxGraphDrawer

from compilescope import observe
from compilescope.explorer import explore

DEPTHS = (1, 8, 24)
Drawn = tuple[float, int, int]
"""Seconds, bytes, files."""


def timed(task: Callable[[], bytes]) -> Drawn:
    """The faster of two runs: the first one also loads libraries."""
    spent, made = [], b""
    for _ in range(2):
        began = time.perf_counter()
        made = task()
        spent.append(time.perf_counter() - began)
    return min(spent), len(made), 1


def explorer(model: torch.nn.Module) -> Drawn:
    """One page: source, graph and code linked."""
    torch.compiler.reset()
    with torch.no_grad():
        run = observe(torch.compile(model), X)
    return timed(lambda: explore(run).html.encode())


def graph_drawer(model: torch.nn.Module) -> Drawn:
    """An SVG of Dynamo's graph, laid out by dot."""
    graphs = []

    def keep(gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., object]:
        graphs.append(gm)
        return gm.forward

    torch.compiler.reset()
    with torch.no_grad():
        torch.compile(model, backend=keep)(X)
    return timed(lambda: FxGraphDrawer(graphs[0], "model").get_dot_graph().create_svg())


def torchview(model: torch.nn.Module) -> Drawn:
    """An SVG of the eager modules, laid out by dot."""
    from torchview import draw_graph

    return timed(lambda: draw_graph(model, input_data=X, device="cpu", depth=9).visual_graph.pipe("svg"))


PROGRAM = """
import sys, torch
sys.path.insert(0, {folder!r})
from explorer import write_section
from observe import Transformer, X
with torch.no_grad():
    torch.compile(Transformer({blocks}))(X)
"""


def tlparse(model: torch.nn.Module) -> Drawn:
    """A folder of pages from a trace; the trace itself is not timed."""
    with tempfile.TemporaryDirectory() as folder:
        traces, out = Path(folder, "trace"), Path(folder, "out")
        program = PROGRAM.format(folder=str(Path(__file__).parent), blocks=len(model.blocks))
        subprocess.run([sys.executable, "-c", program], env={**os.environ, "TORCH_TRACE": str(traces)}, check=True)
        trace = next(traces.glob("*.log"))
        began = time.perf_counter()
        subprocess.run(["tlparse", str(trace), "-o", str(out), "--no-browser"], check=True, capture_output=True)
        spent = time.perf_counter() - began
        files = [path for path in out.rglob("*") if path.is_file()]
        return spent, sum(path.stat().st_size for path in files), len(files)


TOOLS = {"explorer": explorer, "fx.graph_drawer": graph_drawer, "torchview": torchview, "tlparse": tlparse}


def main() -> None:
    """Print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--out", type=Path)
    args = parser.parse_args()
    lines = [
        f"Made by `python benchmarks/explorer_peers.py` on {datetime.date.today()}: {os.cpu_count()} cores "
        f"({platform.machine()}), torch {torch.__version__}. Only ratios within this table say anything.",
        "",
        "| blocks | tool | seconds | kB | files |",
        "|---|---|---|---|---|",
    ]
    for blocks in DEPTHS:
        for name, tool in TOOLS.items():
            try:
                seconds, size, files = tool(Transformer(blocks))
                lines.append(f"| {blocks} | {name} | {seconds:.2f} | {size / 1000:,.0f} | {files} |")
            except Exception as error:  # a peer that fails is a result
                lines.append(f"| {blocks} | {name} | {type(error).__name__}: {str(error).splitlines()[0][:80]} | | |")
            print(lines[-1], flush=True)
    print("\n".join(lines))
    if args.out:
        write_section(args.out, "Beside its peers", lines)


if __name__ == "__main__":
    main()
