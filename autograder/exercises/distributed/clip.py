"""dist_5: a branch that each rank takes for itself, made one that all take together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.distributed.on_two import met, no_breaks, operations, ranks_of
from autograder.judging import called, exact, graphs_made, same_numbers
from compilescope import observe

LABEL = "clip(grad, limit)"


def ask(draw: Draw) -> Values:
    """Gradients of two ranks, three times: one rank over the limit, both, none."""
    size, limit = draw.size(20, 60), draw.number(2.0, 4.0)
    lengths = [[0.4, 1.9], [1.5, 1.2], [0.5, 0.6]]  # of the limit; in the third no rank, nor both together
    cases = []
    for pair in lengths:
        vectors = [draw.tensor(size) for _ in pair]
        cases.append([v * (limit * length / float(v.norm())) for v, length in zip(vectors, pair, strict=True)])
    return {"cases": cases, "limit": limit}


def probe(answer: Answer, asked: Values) -> Values:
    """The answer on two ranks, compiled there."""
    if not callable(answer.clip):
        called(LABEL, answer.clip)
    return ranks_of(LABEL, _clipped, answer.clip, asked)


def _clipped(clip: Callable[..., Any], asked: Values) -> Values:
    here, compiled = torch.get_default_device(), torch.compile(clip, backend="aot_eager")
    mine = [case[dist.get_rank()].to(here) for case in asked["cases"]]
    first = observe(compiled, mine[0].clone(), asked["limit"])
    return {
        "first": first,
        "clipped": [first.result, *(compiled(one.clone(), asked["limit"]) for one in mine[1:])],
    }


def judge(asked: Values, found: Values) -> str:
    """One graph with the collective in it on both ranks; numbers as for the gradients of all ranks together."""
    for rank, result in enumerate(found["results"]):
        run = result["first"]
        no_breaks(LABEL, run, "Look for what depends on the values of one rank.")
        graphs_made(run, LABEL, 1)
        if not operations(run, "_c10d_functional.all_"):
            raise NotYet(LABEL, "asks no other rank", "the norm is that of all ranks", "Look for the all_reduce.")
        for number, (case, got) in enumerate(zip(asked["cases"], result["clipped"], strict=True), 1):
            norm = torch.stack([exact(one).square().sum() for one in case]).sum().sqrt()
            want = exact(case[rank]) * min(1.0, asked["limit"] / float(norm))
            same_numbers(f"clip on rank {rank}, gradient {number},", got, want, torch.float32)
    return f"1 graph, the same on both ranks, with the all_reduce in it: {met(found)}"


_START = "import torch\nimport torch.distributed as dist\n"
_SUM = "    total = grad.square().sum()\n    dist.all_reduce(total)\n"

EXERCISE = Exercise(
    name="dist_5",
    lesson="06_distributed",
    points=2,
    asks_for=("clip",),
    check=Check(ask, probe, judge),
    hints=(
        "Which ranks come to the all_reduce, and who decides that?",
        "Every rank calls every collective. Only a value may differ: torch.where, clamp, min.",
        "total = grad.square().sum(); dist.all_reduce(total); scale = (limit / total.sqrt()).clamp(max=1).",
    ),
    known_mistakes=(
        KnownMistake(  # as it was
            _START + "def clip(grad, limit):\n    if grad.norm() > limit:\n        total = grad.square().sum()\n"
            "        dist.all_reduce(total)\n        grad = grad * (limit / total.sqrt())\n    return grad\n",
            "waiting for each other",
        ),
        KnownMistake(  # each rank for itself
            "def clip(grad, limit):\n    return grad * (limit / grad.norm()).clamp(max=1)\n", "asks no other rank"
        ),
        KnownMistake(  # asked together, and still an if on a value
            _START + "def clip(grad, limit):\n" + _SUM + "    if total.sqrt() > limit:\n"
            "        grad = grad * (limit / total.sqrt())\n    return grad\n",
            "break",
        ),
        KnownMistake(  # the norm of the sum
            _START + "def clip(grad, limit):\n    total = grad.norm()\n    dist.all_reduce(total)\n"
            "    return grad * (limit / total).clamp(max=1)\n",
            "float64 result",
        ),
        KnownMistake(  # always scaled
            _START + "def clip(grad, limit):\n" + _SUM + "    return grad * (limit / total.sqrt())\n", "float64 result"
        ),
        KnownMistake(  # only rank 0 asks
            _START + "def clip(grad, limit):\n    total = grad.square().sum()\n    if dist.get_rank() == 0:\n"
            "        dist.all_reduce(total)\n    return grad * (limit / total.sqrt()).clamp(max=1)\n",
            "waiting for each other",
        ),
        KnownMistake(  # kept out of the graph
            _START + "@torch.compiler.disable\ndef together(total):\n    dist.all_reduce(total)\n    return total\n\n"
            "def clip(grad, limit):\n    total = together(grad.square().sum())\n"
            "    return grad * (limit / total.sqrt()).clamp(max=1)\n",
            "break",
        ),
        KnownMistake(  # the larger rank's norm
            _START
            + "def clip(grad, limit):\n    total = grad.square().sum()\n"
            + "    dist.all_reduce(total, op=dist.ReduceOp.MAX)\n"
            + "    return grad * (limit / total.sqrt()).clamp(max=1)\n",
            "float64 result",
        ),
    ),
    alternatives=(
        _START + "def clip(grad, limit):\n" + _SUM + "    return grad * torch.clamp(limit / total.sqrt(), max=1.0)\n",
        _START + "def clip(grad, limit):\n    total = grad.square().sum()\n"
        "    dist.all_reduce(total, op=dist.ReduceOp.SUM)\n    norm = total ** 0.5\n"
        "    return torch.where(norm > limit, grad * (limit / norm), grad)\n",
        _START + "def clip(grad, limit):\n    norms = [torch.zeros(1) for _ in range(dist.get_world_size())]\n"
        "    dist.all_gather(norms, grad.norm().reshape(1))\n    norm = torch.cat(norms).norm()\n"
        "    return grad / torch.maximum(norm / limit, torch.ones(()))\n",
    ),
)
