"""One compile of each kind, in the process that jobs are forked from: what a first one finds out, every job then knows.

A first compile fills tables of torch's and of ours, which takes longer than most compiles after it. Nothing that is
compiled here has to do with any exercise, and no thread is left, so that a fork is safe.
"""

from __future__ import annotations

from typing import Any


def compile_each_kind() -> None:
    """Observe a module, its training step, a graph break, `torch.cond`, a loop over more sizes, and a refusal."""
    import torch

    from compilescope import observe

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.scale = torch.nn.Linear(2, 2), 2.0

        def forward(self, x: torch.Tensor, more: bool = True) -> dict[str, Any]:
            y = self.linear(x).relu() * self.scale
            y = y + 1 if more else y
            return {"y": y, "rest": [y.softmax(-1)]}

    def branch(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        return y * 2 if y.sum() > 0 else y - 1

    def chosen(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    def loop(x: torch.Tensor, more: list[torch.Tensor]) -> torch.Tensor:
        for number, y in enumerate(more):
            x = x + y.float() * number
        return torch.cat([x, x]).view(2, -1).sum(0)

    with torch.random.fork_rng(devices=[]):  # whoever draws later draws what a fresh process would
        block = torch.compile(Block(), backend="aot_eager")
    observe(block, torch.ones(2, 2))
    observe(lambda: block(torch.ones(2, 2, requires_grad=True))["y"].sum().backward())
    for fn in (branch, chosen):
        observe(torch.compile(fn, backend="aot_eager"), torch.ones(3))
    looped = torch.compile(loop, backend="aot_eager")
    for size in (3, 4, 5):
        observe(looped, torch.ones(size), [torch.ones(size)] * 2)
    observe(torch.compile(branch, backend="aot_eager", fullgraph=True), torch.ones(3))
