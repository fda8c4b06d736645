"""What the explorer costs: seconds from facts to HTML and to a picture, and bytes, for graphs of 30 to 5000 nodes.

Run: ``python benchmarks/explorer.py``. The graphs are made up like a transformer's post-grad graph; fused kernels of
four ops; times are the best of three, on one core.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from compilescope.explorer import explore
from compilescope.explorer.links import link
from compilescope.explorer.picture import draw
from compilescope.facts import Code, Compile, Graph, Kernel, Node, Origin, Run, Source

_BLOCK = (
    ("mean", (0,)), ("sub", (0, 1)), ("pow", (2,)), ("rsqrt", (3,)), ("mul", (2, 4)),
    ("mm", (5, "w")), ("view", (6,)), ("mm", (5, "w")), ("view", (8,)), ("mm", (5, "w")), ("view", (10,)),
    ("bmm", (7, 9)), ("amax", (12,)), ("sub", (12, 13)), ("exp", (14,)), ("sum", (15,)), ("div", (15, 16)),
    ("bmm", (17, 11)), ("view", (18,)), ("mm", (19, "w")), ("add", (0, 20)),
    ("mean", (21,)), ("sub", (21, 22)), ("rsqrt", (22,)), ("mul", (23, 24)), ("mm", (25, "w")), ("erf", (26,)),
    ("mul", (26, 27)), ("mm", (28, "w")), ("add", (21, 29)),
)  # fmt: skip
"""Op and its inputs: 0 is the block's input, n the block's n-th op, w a weight."""


def transformer(blocks: int) -> Run:
    """A run whose graph has `blocks` equal blocks of 30 ops and 6 weights."""
    nodes = [Node("x", "placeholder", "x", (), "float32", (8, 128, 512))]
    last = "x"
    for b in range(blocks):
        names = [last]
        for i, (op, inputs) in enumerate(_BLOCK):
            name = f"{op}_{b}_{i}"
            if "w" in inputs:
                nodes.append(Node(f"w_{b}_{i}", "placeholder", f"w_{b}_{i}", (), "float32", (512, 512)))
            found = tuple(f"w_{b}_{i}" if j == "w" else names[int(j)] for j in inputs)
            source = Source("model.py", 3 + i, "forward")
            shape = (8, 128, 512)
            nodes.append(
                Node(name, "call", f"aten.{op}.default", found, "float32", shape, source=source, module=f"layers.{b}")
            )
            names.append(name)
        last = names[-1]
    nodes.append(Node("output", "output", "output", (last,)))
    calls = [n.name for n in nodes if n.op == "call" and not n.target.startswith(("aten.mm", "aten.bmm", "aten.view"))]
    kernels = tuple(
        Kernel(f"triton_poi_fused_{i}", "triton", nodes=tuple(calls[i : i + 4]), call_lines=(i + 1,))
        for i in range(0, len(calls), 4)
    )
    code = Code("0/0", "inference", "\n".join(f"triton_poi_fused_{i}.run(buf{i})" for i in range(len(calls))), kernels)
    compiled = Compile("0/0", "forward", "model.py", 1, "inductor", (Graph("post_grad", "0/0", tuple(nodes)),), (code,))
    text = "\n".join(f"    x{i} = op(x)" for i in range(40))
    return Run(Origin("live", "CPU", "2.13.0"), (), (compiled,), sources={"model.py": text})


def best(task: Callable[[], object], times: int = 3) -> float:
    """Seconds of the fastest of `times` runs."""
    spent = []
    for _ in range(times):
        start = time.perf_counter()
        task()
        spent.append(time.perf_counter() - start)
    return min(spent)


def main() -> None:
    """Print the table."""
    explore(transformer(1))
    print(f"{'graph':<28}{'nodes':>7}{'layout s':>10}{'html s':>9}{'html kB':>9}")
    for blocks, fold in ((1, True), (8, False), (24, True), (24, False), (55, False), (135, True)):
        run = transformer(blocks)
        compiled = run.compiles[0]
        links = link(compiled)
        layout = best(lambda c=compiled, k=links, f=fold: draw(c.graphs[0], c, k, fold=f))
        whole = best(lambda r=run, f=fold: explore(r, fold=f))
        size = len(explore(run, fold=fold).html.encode())
        name = f"{blocks} blocks, {'folded' if fold and blocks > 2 else 'whole'}"
        print(
            f"{name:<28}{len(compiled.graphs[0].nodes):>7}{layout:>10.3f}{whole:>9.3f}{size / 1000:>9.1f}", flush=True
        )
    plain = replace(transformer(55), compiles=(replace(transformer(55).compiles[0], code=()),))
    print(f"55 blocks, whole, no kernels: layout {best(lambda: explore(plain, fold=False), 1):.3f} s")


if __name__ == "__main__":
    main()
