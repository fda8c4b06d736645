"""Placements on two ranks: parameters as one process has them, graphs and breaks the same over NCCL and over Gloo."""

from __future__ import annotations

import gc
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import placements

from compilescope import observe, on_ranks, ranks
from compilescope.ranks import RankError

SIZE = placements.SMALL | {"rate": 0.5, "steps": 3}
CLOSE = 1e-3
"""How far parameters in float32 may be off, relative to what training changed; gradients not shared are off by 0.1."""


def batches(size: dict[str, Any]) -> list[torch.Tensor]:
    """The same on each rank and in one process: [2 x batch, tokens, width] for each step."""
    made = torch.Generator().manual_seed(7)
    shape = 2 * size["batch"], size["tokens"], size["width"]
    with torch.device("cpu"):
        return [torch.randn(*shape, generator=made) for _ in range(size["steps"])]


def descend(model: Any, parts: list[torch.Tensor], rate: float) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for x in parts:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


def weights(model: Any) -> dict[str, torch.Tensor]:
    inner = model.module if isinstance(model, DistributedDataParallel) else model
    full = {name: one.full_tensor() if hasattr(one, "full_tensor") else one for name, one in inner.named_parameters()}
    return {name.replace("_orig_mod.", ""): one.detach().clone() for name, one in full.items()}


def trained(name: str, size: dict[str, Any]) -> dict[str, Any]:
    """On a rank: parameters before and after some steps on every second row."""
    here, mine = torch.get_default_device(), slice(dist.get_rank(), None, dist.get_world_size())
    model = placements.placed(name, size)
    start = weights(model)
    descend(model, [x[mine].to(here) for x in batches(size)], size["rate"])
    return {"start": start, "end": weights(model)}


def all_trained(names: tuple[str, ...], size: dict[str, Any]) -> list[dict[str, Any]]:
    """On a rank: each placement with what was compiled for it."""
    torch._dynamo.config.recompile_limit = 64
    found = []
    for name in names:
        gc.collect()
        torch.compiler.reset()
        with placements.settings(name):
            run = observe(trained, name, size)
        facts = {
            "graphs": len(run.graphs),
            "pieces": sum(one.parts for one in run.compiles),
            "breaks": sum(not one.in_callee for one in run.breaks),
        }
        found.append({"placement": name, "facts": facts, **run.result})
    return found


def distance(row: dict[str, Any], size: dict[str, Any]) -> float:
    """How far parameters are from those of one process that took all rows, in float64, relative to what changed."""
    model = placements.Stack(size["width"], size["blocks"])
    model.load_state_dict(row["start"])
    descend(model.double(), [x.double() for x in batches(size)], size["rate"])
    ends = {name: one.detach() for name, one in model.named_parameters()}
    return max(
        float((row["end"][name].double() - want).norm() / (want - row["start"][name].double()).norm())
        for name, want in ends.items()
    )


def on_both(names: tuple[str, ...], size: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """The group's backend, and rank 0's rows; both ranks must have ended with the same parameters."""
    found = on_ranks(all_trained, names, size, watch=False, limit=300)
    first, second = found.results
    for one, other in zip(first, second, strict=True):
        assert all(torch.equal(one["end"][name], other["end"][name]) for name in one["end"]), one["placement"]
    return found.backend, first


def rows_of(backend: str, found: list[dict[str, Any]], size: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"placement": one["placement"], "backend": backend, **one["facts"], "off": distance(one, size)} for one in found
    ]


def test_two_ranks_on_the_cpu_end_with_the_parameters_of_one_process(monkeypatch):
    monkeypatch.setattr(ranks, "_backend", lambda world: "gloo")
    rows = rows_of(*on_both(("DDP, compiled inside", "FSDP2, each block"), SIZE), SIZE)
    assert [(one["graphs"], one["pieces"], one["breaks"]) for one in rows] == [(1, 1, 0), (2, 2, 0)]
    assert all(one["off"] < CLOSE for one in rows), rows


@pytest.mark.gpu
def test_two_gpus_end_with_the_parameters_of_one_process_and_make_the_graphs_that_cpus_make(
    two_gpus, report, monkeypatch
):
    size = SIZE | {"width": 256}  # weights of several buckets
    backend, found = on_both(placements.PLACEMENTS, size | {"backend": "inductor"})
    over_nccl = rows_of(backend, found, size)
    report.extend(over_nccl)
    monkeypatch.setattr(ranks, "_backend", lambda world: "gloo")
    over_gloo = rows_of(*on_both(placements.PLACEMENTS, size), size)
    report.extend(over_gloo)
    report.write()
    assert backend == "nccl"
    facts = [[(one["placement"], one["graphs"], one["pieces"], one["breaks"]) for one in rows]
             for rows in (over_nccl, over_gloo)]  # fmt: skip
    assert facts[0] == facts[1]
    assert all(one["off"] < CLOSE for one in (*over_nccl, *over_gloo)), over_nccl


@pytest.mark.gpu
@pytest.mark.parametrize("met_before", [True, False])
def test_ranks_that_wait_for_each_other_over_nccl_are_ended_soon(two_gpus, met_before):
    def work():
        x = torch.ones(3)
        if met_before:
            dist.all_reduce(x)
        if dist.get_rank() == 0:
            dist.all_reduce(x)
        return x.sum().item()

    with pytest.raises(RankError) as caught:
        on_ranks(work, patience=2, limit=60)
    assert caught.value.reason == "stuck"


@pytest.mark.gpu
def test_a_rank_that_waits_over_nccl_for_one_that_computes_is_left_to_wait(two_gpus):
    def work(seconds):
        until = time.monotonic() + seconds * dist.get_rank()
        while time.monotonic() < until:
            sorted(str(number) for number in range(1000))
        x = torch.ones(3)
        dist.all_reduce(x)
        return x.sum().item()

    assert on_ranks(work, 12.0, patience=2).results == (6.0, 6.0)
