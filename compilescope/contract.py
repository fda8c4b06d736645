"""Is a compiled model ready for production? `contract` measures it, clause by clause: facts, no seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from compilescope import clauses
from compilescope.facts import Run
from compilescope.facts_contract import Clause, Contract
from compilescope.observe import live_origin, observe
from compilescope.ranks import NotSendableError, RankError, on_ranks
from compilescope.timing import measure

Make = Callable[[], nn.Module]
Batch = tuple[torch.Tensor, torch.Tensor]
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Terms:
    """What a contract is measured on; see `contract` for each."""

    stream: Sequence[torch.Tensor]
    batches: Sequence[Batch]
    loss: Loss
    rate: float = 0.1


@dataclass(frozen=True)
class Trained:
    """The loss before each step, and the weights after the last, in float64."""

    losses: list[float]
    weights: list[torch.Tensor]


@dataclass(frozen=True)
class Spread:
    """What two ranks did: a Run each, the weights on each, or why one failed."""

    runs: tuple[Run, ...] = ()
    weights: tuple[list[torch.Tensor], ...] = ()
    failed: str = ""


def contract(
    make: Make,
    plain: Make,
    stream: Sequence[torch.Tensor],
    batches: Sequence[Batch],
    *,
    loss: Loss,
    rate: float = 0.1,
    spread: Make | Spread | None = None,
) -> Contract:
    """What a compiled model keeps of the contract: graphs, breaks, recompiles, keys, losses, first call, two ranks.

    Everything compiled so far is forgotten, before each part and at the end.

    Args:
        make: gives a new compiled model at each call, always with the same weights.
        plain: the same weights, not compiled.
        stream: inputs as they come in production, in order; the first two calls may compile.
        batches: (input, target) of a few training steps; each splits into two equal halves by rows.
        loss: of the model's output and the target, a mean over rows.
        rate: learning rate of plain SGD.
        spread: gives the model under its wrapper, on each of two ranks, or what `two_ranks` found of that; without it
            DDP around `make()`.
    """
    terms = Terms(stream, batches, loss, rate)
    runs = serve(make(), stream)
    exact, losses = train(plain().double(), terms), train(make(), terms).losses
    if not isinstance(spread, Spread):
        spread = two_ranks(spread or (lambda: DistributedDataParallel(make())), batches, loss=loss, rate=rate)
    found = [
        *clauses.of_capture(runs[0]),
        *clauses.of_stream(runs),
        clauses.of_keys(list(make().state_dict()), list(plain().state_dict())),
        clauses.of_curve(losses, exact.losses),
        clauses.of_start(runs[0], whole(plain(), stream[0])),
        clauses.of_ranks(spread.runs, difference(spread, exact), spread.failed),
        _speed(make, plain, stream[0]),
    ]
    torch.compiler.reset()
    return Contract(
        live_origin(),
        tuple(found),
        tuple(" × ".join(map(str, x.shape)) for x in stream),
        tuple(clauses.frames(run) for run in runs),
        clauses.WARM_UP,
        tuple(losses),
        tuple(exact.losses),
    )


def serve(model: Callable[..., Any], stream: Sequence[torch.Tensor]) -> list[Run]:
    """A Run of each call of the stream, without gradients and with nothing compiled before."""
    torch.compiler.reset()
    with torch.no_grad():
        return [observe(model, x) for x in stream]


def train(model: nn.Module, terms: Terms) -> Trained:
    """A few steps of plain SGD."""
    torch.compiler.reset()
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=terms.rate), []
    for x, y in terms.batches:
        losses.append(_step(model, optimizer, x, y, terms.loss))
    return Trained(losses, [one.detach().double() for one in model.parameters()])


def _step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Any, y: Any, loss: Loss) -> float:
    optimizer.zero_grad()
    dtype = next(model.parameters()).dtype  # the reference computes in float64
    x, y = (one.to(dtype) if one.is_floating_point() else one for one in (x, y))
    value = loss(model(x), y)
    value.backward()
    optimizer.step()
    return float(value.detach())


def whole(plain: nn.Module, x: torch.Tensor) -> Run:
    """What Dynamo traces of a model that is compiled as a whole."""
    torch.compiler.reset()
    with torch.no_grad():
        return observe(torch.compile(plain, backend="eager"), x)


def two_ranks(spread: Make, batches: Sequence[Batch], *, loss: Loss, rate: float = 0.1) -> Spread:
    """The training steps of a contract on two ranks, each with every second row: what each did, and its weights.

    `contract` does it by itself; it takes this as its `spread` if you want to wait for the ranks beforehand. Arguments
    as there.
    """
    try:
        ranks = on_ranks(_on_rank, spread, batches, loss, rate, patience=4.0)
    except (RankError, NotSendableError) as error:
        return Spread(failed=str(error).splitlines()[0])
    return Spread(ranks.runs, tuple([one.cpu().double() for one in weights] for weights in ranks.results))


def _on_rank(spread: Make, batches: Sequence[Batch], loss: Loss, rate: float) -> list[Any]:
    here, mine = torch.get_default_device(), slice(dist.get_rank(), None, dist.get_world_size())
    model = spread()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for x, y in batches:
        _step(model, optimizer, x[mine].to(here), y[mine].to(here), loss)
    return [one.detach().clone() for one in model.parameters()]


def difference(ranks: Spread, exact: Trained) -> float:
    """Largest difference of any weight on any rank, relative to the largest weight."""
    size = max(float(one.abs().max()) for one in exact.weights)
    if any(len(weights) != len(exact.weights) for weights in ranks.weights):
        return float("inf")
    return max(
        (
            float((got - want).abs().max()) / size if got.shape == want.shape else float("inf")
            for weights in ranks.weights
            for got, want in zip(weights, exact.weights, strict=True)
        ),
        default=float("inf"),
    )


def _speed(make: Make, plain: Make, x: torch.Tensor) -> Clause:
    name, wanted = "tokens per second", f"at least {clauses.SPEED:.0%} of reduce-overhead"
    if not torch.cuda.is_available():
        return Clause(name, wanted, "needs a GPU: not measured", None, bonus=True)
    torch.compiler.reset()
    x = x.cuda()
    with torch.no_grad():
        mine = measure(make().cuda(), x, flush=False)
        torch.compiler.reset()
        best = measure(torch.compile(plain().cuda(), mode="reduce-overhead"), x, flush=False)
    share = best.median / mine.median
    found = f"{x.numel() / mine.median:,.0f}, {share:.0%}"
    return Clause(name, wanted, found, share >= clauses.SPEED, bonus=True)
