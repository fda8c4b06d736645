"""Lesson 5 on a real GPU: the stand-in for CUDA graphs has the rules of the real ones, and modes are tried live."""

import pytest
import torch

from compilescope import cuda_graphs, observe, replayed, try_modes
from compilescope.torch_internals.static_graph import StaticGraph

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _fresh(gpu):
    torch.compiler.reset()
    with torch.no_grad():
        yield
    torch.compiler.reset()


def swish(x):
    return x * torch.sigmoid(x)


def batches(number):
    return [torch.full((64,), float(i), device="cuda") for i in range(number)]


def told(read):
    try:
        return read()
    except RuntimeError as error:
        return "overwritten" if "overwritten" in str(error) else f"another error: {error}"


WAYS = {
    "kept": lambda step: [step(x) for x in batches(4)][1].sum().item(),
    "the last": lambda step: [step(x) for x in batches(4)][-1].sum().item(),
    "detached": lambda step: [step(x).detach() for x in batches(4)][1].sum().item(),
    "a view": lambda step: [step(x)[:2] for x in batches(4)][2].sum().item(),
    "cloned": lambda step: [step(x).clone() for x in batches(4)][1].sum().item(),
    "moved": lambda step: [step(x).cpu() for x in batches(4)][1].sum().item(),
    "used at once": lambda step: sum(step(x).sum().item() for x in batches(4)),
    "fed back": lambda step: step(step(batches(2)[1])).sum().item(),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_stand_in_says_what_a_real_graph_says(way):
    real, stand_in = (told(lambda step=step: WAYS[way](step)) for step in (replayed(swish), StaticGraph(swish)))
    assert real == (pytest.approx(stand_in, rel=1e-5) if isinstance(stand_in, float) else stand_in)


def test_calls_warm_up_record_and_replay_as_the_stand_in_says():
    step, x = replayed(swish), batches(2)[1]
    stand_in = StaticGraph(swish)
    runs = [observe(step, x) for _ in range(4)]
    for _ in range(4):
        stand_in(x)
    did = [
        "warmed up" if one.warmed_up else "recorded" if one.recorded else "replayed"
        for one in (run.cuda_graphs for run in runs)
    ]
    assert did == stand_in.did
    assert cuda_graphs(runs).title == "1 graph recorded, 2 replays"


def test_modes_are_tried_live_and_reduce_overhead_launches_less():
    table = try_modes(torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(8))).cuda(), batches(1)[0],
                      modes_wanted=("eager", "reduce-overhead"))  # fmt: skip
    eager, graphs = table.trials
    assert (eager.error, graphs.error) == ("", "")
    assert graphs.launches < eager.launches
    assert graphs.pool_bytes > 0
    assert table.origin.kind == "live"
