"""What the checks of lesson 7 share: models with repeated blocks, rebuilt from sizes and a seed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as PyTorch's own documentation writes it
from torch import nn

from autograder.exercise import Draw, Values
from compilescope.facts import Graph, Run


class Attention(nn.Module):
    """Self-attention with one head and a residual, [length, width] → [length, width].

    It has no elementwise operation, so that Inductor needs no C++ compiler for it.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Parameter(torch.randn(width, width) / width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Tokens in, tokens out."""
        q, k, v = (layer(x)[None, None] for layer in (self.q, self.k, self.v))
        return torch.addmm(x, F.scaled_dot_product_attention(q, k, v)[0, 0], self.out)


class Feed(nn.Module):
    """A residual of two layers, [length, width] → [length, width]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Tokens in, tokens out."""
        out: torch.Tensor = x + self.down(self.up(x).relu())
        return out


KINDS: dict[str, type[nn.Module]] = {"attention": Attention, "feed": Feed}


class Net(nn.Module):
    """A stem, blocks in `self.blocks`, and a head: [length, width] → [length, 1]."""

    def __init__(self, width: int, kinds: list[str]) -> None:
        super().__init__()
        self.stem, self.head = nn.Linear(width, width), nn.Linear(width, 1)
        self.blocks = nn.ModuleList(KINDS[kind](width) for kind in kinds)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Tokens in, a number a token out."""
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        out: torch.Tensor = self.head(x)
        return out


def drawn(draw: Draw, kinds: list[str], inputs: int = 2, widths: Sequence[int] = range(3, 10)) -> Values:
    """A model by its width, the kinds of its blocks and a seed, and inputs of one length on the draw's device."""
    width, length = draw.choice(widths), draw.size(10, 20)
    x = [draw.tensor(length, width) for _ in range(inputs)]
    return {"width": width, "kinds": kinds, "seed": draw.size(0, 10**6), "x": x}


def net_of(asked: Values, device: torch.device | str = "cpu") -> Net:
    """The same weights for the answer, where its inputs are, and for the judge, whose references are the CPU's."""
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):  # a GPU draws other numbers from a seed
        torch.manual_seed(asked["seed"])
        return Net(asked["width"], asked["kinds"]).to(device)


def nested(graph: Graph) -> list[str]:
    """Of each call of a nested region, in order, the name of the body that it calls."""
    fetched = {node.name: node.target for node in graph.nodes if node.op == "get_attr"}
    calls = [node for node in graph.calls() if node.target.endswith("invoke_subgraph")]
    return [next((fetched[one] for one in node.inputs if one in fetched), "") for node in calls]


def captured(run: Run) -> int:
    """Operations that Dynamo wrote down: those of all graphs, and of each body once."""
    return sum(_size(graph) for graph in run.graphs)


def _size(graph: Graph) -> int:
    return len(graph.calls()) + sum(_size(one) for one in graph.inner)


def shuffled(draw: Draw, options: list[Any]) -> list[Any]:
    """The same in a drawn order."""
    return sorted(options, key=lambda _: draw.number(0, 1))


def both_kinds(draw: Draw, least: int, most: int) -> list[str]:
    """Kinds of so many blocks in a drawn order, some of either kind; neighbors may be alike."""
    number = draw.size(least, most)
    return shuffled(draw, list(itertools.islice(itertools.cycle(KINDS), number)))
