"""What the checks of lesson 6 share: a model, an answer that runs on two ranks, and what is compared of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - as PyTorch's own documentation writes it

from autograder.exercise import Draw, NotYet, Values
from autograder.exercises.residual import Tower, tower
from autograder.judging import exact, really_compiled, same_numbers
from compilescope import on_ranks
from compilescope.facts import Run
from compilescope.facts_ranks import Ranks
from compilescope.ranks import NotSendableError, RankError

PATIENCE = 4.0
"""Seconds without computing after which the ranks of a check count as waiting for each other."""
SOON = 30.0
"""Seconds within which a crash is worth a second try: both must fit into the time of a cell."""
LIMIT = 100.0
"""Seconds for ranks that go on computing: some take 5, and twenty times as long on a machine that is very busy."""


def drawn(draw: Draw, least: int = 2) -> Values:
    """A model by size and seed, and three batches for two ranks."""
    width, rows = draw.size(5, 11), 2 * draw.size(3, 8)
    return {
        "width": width,
        "blocks": draw.size(least, 4),
        "seed": draw.size(0, 10**6),
        "lr": draw.number(0.02, 0.05),
        "x": [draw.tensor(rows, width) for _ in range(3)],
        "y": [draw.tensor(rows) for _ in range(3)],
    }


def model_of(asked: Values) -> Tower:
    """The same weights on every rank and in the judge."""
    return tower(asked["width"], asked["blocks"], asked["seed"])


def trained(wrap: Callable[[Any], Any], asked: Values) -> Values:
    """On a rank: three steps on this rank's rows; weights by the plain model's names, keys by the wrapper's."""
    here = torch.get_default_device()
    model = model_of(asked).to(here)
    wrapped = wrap(model)
    wrapped = model if wrapped is None else wrapped
    # foreach is on for a GPU only, and refuses what a CPU takes, so that verdicts would differ
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=asked["lr"], foreach=False)
    mine = slice(dist.get_rank(), None, dist.get_world_size())
    for x, y in zip(asked["x"], asked["y"], strict=True):
        optimizer.zero_grad()
        F.mse_loss(wrapped(x[mine].to(here)), y[mine].to(here)).backward()
        optimizer.step()
    weights = {name: whole(value) for name, value in model.named_parameters()}
    return {"weights": weights, "keys": list(wrapped.state_dict())}


def whole(value: torch.Tensor) -> torch.Tensor:
    """A plain tensor, gathered where it lies in shards."""
    full: torch.Tensor = value.full_tensor() if hasattr(value, "full_tensor") else value  # type: ignore[operator]
    return full.detach().clone()


def same_training(label: str, asked: Values, results: list[Values]) -> None:
    """NotYet unless both ranks have the weights of one process that trained on all rows, in float64."""
    twin = model_of(asked).double()
    optimizer = torch.optim.SGD(twin.parameters(), lr=asked["lr"])
    for x, y in zip(asked["x"], asked["y"], strict=True):
        optimizer.zero_grad()
        F.mse_loss(twin(exact(x)), exact(y)).backward()
        optimizer.step()
    by_name = [{plain_name(name): value for name, value in one["weights"].items()} for one in results]
    for name, want in twin.named_parameters():
        first, second = (weights.get(name) for weights in by_name)
        if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor) and not torch.equal(first, second):
            differ = f"left {name} different on rank 0 and rank 1"
            raise NotYet(label, differ, "both ranks must end with the same weights", "Look at what adds up gradients.")
        same_numbers(f"After 3 steps {name}", first, want.detach(), torch.float32)


def plain_name(name: str) -> str:
    """A parameter's name without what torch.compile puts in."""
    return name.replace("_orig_mod.", "")


def ranks_of(label: str, fn: Callable[..., Any], *args: Any, **options: Any) -> Values:
    """What `on_ranks` gives, as values: runs, results, where ranks met, and of each what happened in its last step.

    NotYet with the rank and the line if a rank raised, died or waits for ever.
    """
    try:
        ranks = _on_ranks(fn, *args, **options)
    except RankError as error:
        raise _told(label, error) from None
    except NotSendableError as error:
        remedy = f"Look at this: {_short(str(error).partition(': ')[2], 16)}"
        raise NotYet(
            label, "uses something that cannot leave the notebook", "ranks are other processes", remedy
        ) from None
    steps = [
        [{"kind": one.kind, "name": one.name, "part": one.part, "inside": one.inside} for one in rank.last_step()]
        for rank in ranks
    ]
    return {"runs": list(ranks.runs), "results": list(ranks.results), "steps": steps, "backend": ranks.backend}


def _on_ranks(fn: Callable[..., Any], *args: Any, **options: Any) -> Ranks:
    """`on_ranks`, once more where a rank soon crashed or vanished: what does not happen again is no answer's fault."""
    began = time.monotonic()
    try:
        return on_ranks(fn, *args, patience=PATIENCE, limit=LIMIT, **options)
    except RankError as error:
        crashed = error.reason == "gone" or (error.reason == "died" and error.kind)
        if not crashed or time.monotonic() - began > SOON:
            raise
    return on_ranks(fn, *args, patience=PATIENCE, limit=LIMIT, **options)


def met(found: Values) -> str:
    """Where the ranks of `ranks_of` were: ``2 ranks on the CPU, over Gloo``."""
    return "2 ranks with a GPU each, over NCCL" if found["backend"] == "nccl" else "2 ranks on the CPU, over Gloo"


def _told(label: str, error: RankError) -> NotYet:
    if error.reason == "late":
        return NotYet(label, f"was not done after {LIMIT:.0f} s", "each rank must come to its end", _at(error))
    if error.reason == "stuck":
        return NotYet(
            label, "left the ranks waiting for each other", "each rank must call the same collectives", _at(error)
        )
    if error.reason == "raised":
        said = _short(error.message, 10)
        look = f"Look at {error.steps[-1][3] or error.steps[-1][2]}." if error.steps else ""
        return NotYet(label, f"raised {error.kind} on rank {error.rank}: {said}", "a result is wanted", look)
    return NotYet(label, "ended a rank", "each rank must come to its end", "Look for exit().")


def _short(text: str, most: int) -> str:
    words = text.split()
    return " ".join(words[:most]) + (" …" if len(words) > most else "")


def _at(error: RankError) -> str:
    for line in error.details:
        if ": " in line:
            return f"Look at {line.rpartition(': ')[2]}."
    return "Look for a collective that not every rank comes to."


def no_breaks(label: str, run: Run, look: str) -> None:
    """NotYet if nothing was compiled, only captured, or if there is a graph break."""
    if not run.graphs:
        raise NotYet(label, "compiled nothing", "a compiled forward is wanted", "Look for what you compile, and where.")
    really_compiled(run, label)
    stops = [one for one in run.breaks if not one.in_callee]
    if stops:
        many = "a graph break" if len(stops) == 1 else f"{len(stops)} graph breaks"
        raise NotYet(label, f"made {many} ({stops[0].gb or stops[0].reason})", "this exercise wants none", look)


def operations(run: Run, name: str) -> int:
    """How many operations of the Dynamo graphs carry `name` in their target."""
    return sum(name in node.target for _, node in run.walk_nodes("dynamo") if node.op == "call")
