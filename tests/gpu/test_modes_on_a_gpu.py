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


def results(step, keep=lambda result: result, calls=6):
    """What is read at the end of each call's result, kept as `keep` gives it back."""
    kept = [keep(step(x)) for x in batches(calls)]
    return [told(lambda one=one: one.sum().item() / one.numel()) for one in kept]


def fed_back(step, warm):
    """The result of the call after so many others is the next input."""
    x = batches(2)[1]
    for _ in range(warm + 1):
        result = step(x)
    return [step(result).sum().item()]


def another_size(step, more):
    """A replay is kept, and another size is called so often."""
    kept = [step(x) for x in batches(4)][-1]
    for _ in range(more):
        step(torch.ones(96, device="cuda"))
    return [kept.sum().item()]


def marked(step, rounds, each):
    """What is read of the results of the last round, three calls each; marked before each call or each round."""
    for _ in range(rounds):
        kept = []
        for i, x in enumerate(batches(3)):
            if each or i == 0:
                torch.compiler.cudagraph_mark_step_begin()
            kept.append(step(x))
    return [told(lambda one=one: one.sum().item()) for one in kept]


WAYS = {
    "kept": results,
    "detached": lambda step: results(step, torch.Tensor.detach),
    "a slice": lambda step: results(step, lambda one: one[:2]),
    "a view": lambda step: results(step, lambda one: one.view(8, 8)),
    "cloned": lambda step: results(step, torch.clone),
    "moved": lambda step: results(step, torch.Tensor.cpu),
    "used at once": lambda step: [sum(step(x).sum().item() for x in batches(6))],
    "a warm-up fed back": lambda step: fed_back(step, 0),
    "a recording fed back": lambda step: fed_back(step, 1),
    "a replay fed back": lambda step: fed_back(step, 2),
    **{f"each call marked, {n} rounds": lambda step, n=n: marked(step, n, True) for n in (1, 2)},
    **{f"each round marked, {n} rounds": lambda step, n=n: marked(step, n, False) for n in (1, 2, 3)},
    "a replay, then another size warms up": lambda step: another_size(step, 1),
    "a replay, then another size records": lambda step: another_size(step, 2),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_stand_in_says_what_a_real_graph_says(way):
    real, stand_in = (told(lambda step=step: WAYS[way](step)) for step in (replayed(swish), StaticGraph(swish)))
    assert real == near(stand_in)


def near(said):
    """Equal but for rounding, where numbers were read."""
    return (
        [pytest.approx(one, rel=1e-5) if isinstance(one, float) else one for one in said]
        if isinstance(said, list)
        else said
    )


def test_of_replays_that_were_kept_a_real_graph_shows_the_newest_numbers_without_an_error():
    newest = swish(batches(6)[-1])[0].item()
    assert results(replayed(swish)) == ["overwritten", "overwritten", *[pytest.approx(newest, rel=1e-5)] * 4]


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
