"""capstone_6: the training step on two ranks: compiled inside, and all ranks agree on the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.capstone.planted import START, cured_of, gpt_of, letters_drawn, size_drawn
from autograder.exercises.capstone.steps import terms_of
from autograder.exercises.distributed.on_two import met, no_breaks, ranks_of
from autograder.judging import called, kind_of, operations
from compilescope.clauses import ERROR
from compilescope.contract import Spread, difference, train

LABEL = "make_rank_step(model, rate)"


def ask(draw: Draw) -> Values:
    """Two blocks that clip nothing, and three batches of an even number of rows."""
    rows, length = 2 * draw.size(2, 4), draw.size(6, 10)
    text = [letters_drawn(draw, rows, length + 1) for _ in range(3)]
    return {**size_drawn(draw, depth=2), "text": text, "rate": draw.number(0.2, 0.4)}


def probe(answer: Answer, asked: Values) -> Values:
    """Three steps on two ranks."""
    if not callable(answer.make_rank_step):
        called(LABEL, answer.make_rank_step)
    return ranks_of(LABEL, _stepped, answer.make_rank_step, asked)


def _stepped(make_rank_step: Callable[..., Any], asked: Values) -> Values:
    here, mine = torch.get_default_device(), slice(dist.get_rank(), None, 2)
    batches = terms_of(asked, here).batches
    model = cured_of(asked, batches[0][0].shape[1], here)
    step = make_rank_step(model, asked["rate"])
    losses = [step(ids[mine], targets[mine]) for ids, targets in batches]
    return {
        "losses": [one.detach().clone() if isinstance(one, torch.Tensor) else one for one in losses],
        "weights": [one.detach().clone() for one in model.parameters()],
        "keys": [name for name, _ in model.named_parameters()],
    }


def judge(asked: Values, found: Values) -> str:
    """No break; the forward is in the graph; weights and mean loss of one process on all rows, on both ranks."""
    plain = gpt_of(asked).double()
    terms = terms_of(asked)
    exact = train(plain, type(terms)(terms.stream, terms.batches, terms.loss, asked["rate"]))
    for rank, run in enumerate(found["runs"]):
        no_breaks(LABEL, run, "Look at which of the two, model or wrapper, is compiled.")
        traced = sum(many for name, many in operations(run).items() if name.endswith("linear"))
        if traced < 4:
            part = f"traced {traced} linear layers on rank {rank}"
            raise NotYet(LABEL, part, "the blocks belong inside", "Look at which module you compile.")
    weights = tuple([one.cpu().double() for one in result["weights"]] for result in found["results"])
    off = difference(Spread(weights=weights), exact)
    if not off <= ERROR:
        away = f"left weights off by {off:.0e}, relative to one process"
        raise NotYet(LABEL, away, f"at most {ERROR:.0e} is stated", "Look at what adds up gradients, and at the rate.")
    for rank, result in enumerate(found["results"]):
        _losses(rank, result["losses"], exact.losses)
    return f"no break; weights and loss of one process: {met(found)}"


def _losses(rank: int, losses: list[Any], exact: list[float]) -> None:
    for number, (got, want) in enumerate(zip(losses, exact, strict=True), 1):
        what = f"The loss of step {number} on rank {rank}"
        if not isinstance(got, (float, torch.Tensor)) or torch.as_tensor(got).numel() != 1:
            raise NotYet(what, f"is {kind_of(got)}", "one number is wanted", "Look at your return line.")
        if not abs(float(got) - want) <= ERROR * abs(want):
            other = f"is {float(got):.4f}"
            raise NotYet(what, other, f"{want:.4f} is the mean over all rows", "Look at how ranks share the loss.")


_DDP = "from torch.nn.parallel import DistributedDataParallel as DDP\nimport torch.distributed as dist\n"
_LOSS = "F.cross_entropy(fast(ids).flatten(0, 1), targets.flatten())"
_MEAN = "seen = loss.detach().clone()\n        dist.all_reduce(seen)\n        return seen / dist.get_world_size()"


def _made(wrap: str, end: str = _MEAN, before: str = "") -> str:
    return (
        START
        + _DDP
        + f"""
def make_rank_step(model, rate):
    {wrap}
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)

    def step(ids, targets):
        optimizer.zero_grad()
        loss = {_LOSS}
        {before}
        loss.backward()
        optimizer.step()
        {end}

    return step
"""
    )


_EACH = "for block in model.blocks: block.compile(backend='aot_eager')"
_INSIDE = _EACH + "\n    fast = DDP(model)"

EXERCISE = Exercise(
    name="capstone_6",
    lesson="08_capstone",
    points=3,
    asks_for=("make_rank_step",),
    check=Check(ask, probe, judge),
    hints=(
        "Lesson 6, both rules: where does compile stand, and which ranks come to the all_reduce?",
        "Compile in place, then wrap. Every rank adds up the loss, whether it prints it or not.",
        "Compile each block, fast = DDP(model). After the update: seen = loss.detach().clone(); "
        "dist.all_reduce(seen); return seen / dist.get_world_size().",
    ),
    known_mistakes=(
        KnownMistake(  # as it was
            _made("fast = torch.compile(DDP(model), backend='aot_eager')",
                  "if dist.get_rank() == 0:\n            dist.all_reduce(loss)\n        return loss"),
            "waiting for each other",
        ),
        KnownMistake(_made("fast = torch.compile(DDP(model), backend='aot_eager')"), "graph break"),
        KnownMistake(_made(_INSIDE, "return loss.detach()"), "mean over all rows"),  # its own loss
        KnownMistake(_made(_INSIDE, _MEAN.replace(" / dist.get_world_size()", "")), "mean over all rows"),
        KnownMistake(_made(_EACH + "\n    fast = model"), "left weights off"),  # nobody adds up gradients
        KnownMistake(_made("fast = DDP(model)"), "compiled nothing"),
        KnownMistake(_made(_INSIDE.replace("aot_eager", "eager")), "compiled nothing of it"),
        KnownMistake(_made(_INSIDE.replace("DDP(model)", "DDP(model); rate = rate / 2")), "left weights off"),
        KnownMistake(  # a step of the head only
            _made("model.head.forward = torch.compile(model.head.forward, backend='aot_eager')\n    fast = DDP(model)"),
            LABEL,
        ),
        KnownMistake(_made(_INSIDE, "return"), "is None"),
    ),
    alternatives=(
        _made(_INSIDE),
        _made("model.compile(backend='aot_eager', fullgraph=True)\n    fast = DDP(model)"),
        _made(
            "fast = DDP(torch.compile(model, backend='aot_eager'))",
            "losses = [torch.zeros(()) for _ in range(dist.get_world_size())]\n"
            "        dist.all_gather(losses, loss.detach())\n        return torch.stack(losses).mean()",
        ),
    ),
)  # fmt: skip
