"""Which facts this torch gives, as JSON for `tests/matrix.py`: fact to "yes" or "**no**", and the reasons."""

import json

import torch
from torch import nn

from compilescope import Run, observe


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 16)

    def forward(self, x, n):
        y = torch.relu(self.up(x)) * n
        print(end="")
        return torch.softmax(y, -1)


def in_a_loop(x):
    for _ in range(2):
        print(end="")
    return x


def main() -> None:
    layer = Layer()
    compiled = torch.compile(layer)
    with observe() as run:
        for rows, n in ((4, 2), (6, 2), (6, 3)):
            compiled(torch.ones(rows, 8), n).sum().backward()
        torch.compile(in_a_loop, backend="eager")(torch.ones(2))
    first = run.compiles[0]
    nodes = [node for one in run.compiles for graph in one.graphs for node in graph.nodes]
    kernels = [kernel for kernel in run.kernels if kernel.language != "extern"]
    given = {
        "calls with outcome": [call.outcome for call in run.calls][:1] == ["first compile"],
        "calls: why it recompiled, value then and now": any(
            r.expected and r.actual for c in run.calls for r in c.refusals
        ),
        "frames not compiled, with the reason": any(one.kind == "break in loop" for one in run.not_compiled),
        "graph breaks with number and line": bool(run.breaks) and all(one.gb and one.source for one in run.breaks),
        "graph breaks: graphs on both sides": any(one.before and one.after for one in run.breaks),
        **{
            f"graph: {stage}": first.graph(stage) is not None
            for stage in ("dynamo", "joint", "forward", "backward", "post_grad", "post_grad_backward")
        },
        "nodes: shape, stride, dtype, device": any(n.shape and n.stride and n.dtype and n.device for n in nodes),
        "nodes: source line": any(node.source for node in nodes),
        "nodes: path of the module": any(node.module == "up" for node in nodes),
        "nodes: Dynamo nodes they come from": any(node.origins for node in nodes),
        "guards with source line": any(guard.source for guard in first.guards),
        "symbols": any(one.symbols for one in run.compiles),
        "kernels with source": bool(kernels) and all(kernel.source for kernel in kernels),
        "kernels: nodes, forward": any(k.nodes for c in first.code if c.which == "forward" for k in c.kernels),
        "kernels: nodes, backward": any(k.nodes for c in first.code if c.which == "backward" for k in c.kernels),
        "kernels: bytes read and written": all(kernel.bytes_read for kernel in first.code[0].kernels),
        "why two neighbors were not fused": any(one.not_fused for one in run.compiles),
        "tensors saved for backward": bool(first.saved),
        "provenance of post-grad nodes": bool(first.provenance),
        "caches": bool(first.caches),
        "seconds by phase": bool(run.phases),
        "bytecode before and after": bool(first.bytecode_before and first.bytecode_after),
        "backend": first.backend == "inductor",
        "JSON both ways": Run.from_json(run.to_json()) == run,
    }
    print(json.dumps({"given": {k: "yes" if v else "**no**" for k, v in given.items()}, "missing": run.missing}))


if __name__ == "__main__":
    main()
