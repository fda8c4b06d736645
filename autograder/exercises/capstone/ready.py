"""capstone_7: the whole contract, for a model with all the faults in it."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.capstone.planted import (
    START,
    Block,
    blocks_outside,
    corners_drawn,
    gpt_of,
    letters_drawn,
    plainly,
    same_keys,
    size_drawn,
    stream_drawn,
)
from autograder.exercises.capstone.steps import terms_of
from autograder.exercises.distributed.on_two import ranks_of
from autograder.judging import beside, called, eager_operations, kind_of, same_numbers
from compilescope import clauses
from compilescope.contract import Spread, Terms, Trained, difference, serve, train, whole
from compilescope.facts_contract import Clause

LABEL = "ready(model)"


def ask(draw: Draw) -> Values:
    """Three blocks with a limit, a stream of seven shapes, the longest and shortest rows, and three batches.

    Some calls go beyond the limit, of these some below zero only.
    """
    even, length = 2 * draw.size(2, 3), draw.size(6, 10)
    while True:
        asked = {
            **size_drawn(draw, depth=3, limit=draw.number(2.2, 3.6)),
            "stream": stream_drawn(draw),
            "corners": corners_drawn(draw),
            "text": [letters_drawn(draw, even, length + 1) for _ in range(3)],
            "rate": draw.number(0.05, 0.15),
        }
        if _clips(asked, Block) != _clips(asked, _CountsAbove):
            return asked


class _CountsAbove(Block):
    """Counts no clips of what is far below zero: must not be right by chance."""

    def tame(self, x: torch.Tensor) -> torch.Tensor:
        limit = self.limit or torch.inf
        self.clips += x.max() > limit
        return x.clamp(-limit, limit)


def _clips(asked: Values, kind: type[Block]) -> list[int]:
    """How many clips blocks of that class count in the stream."""
    model = gpt_of(asked, asked["stream"][0].device)
    for block in model.blocks:
        block.__class__ = kind
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):  # the planted block prints each clip
        for ids in asked["stream"]:
            model(ids)
    return [int(block.clips) for block in model.blocks]


def _terms(asked: Values, device: torch.device | str = "cpu") -> Terms:
    terms = terms_of(asked, device)
    return Terms([ids.to(device) for ids in asked["stream"]], terms.batches, terms.loss, asked["rate"])


def _made(answer: Any, asked: Values, device: torch.device) -> Any:
    given = gpt_of(asked, device)
    model = called(LABEL, answer, given)
    if not isinstance(model, torch.nn.Module):
        raise NotYet(LABEL, f"returned {kind_of(model)}", "the model is wanted", "Look at your return line.")
    return model


def probe(answer: Answer, asked: Values) -> Values:
    """What `compilescope.contract` measures of the answer's model, as values."""
    here = asked["stream"][0].device
    terms = _terms(asked, here)
    if not callable(answer.ready):
        called(LABEL, answer.ready)
    torch.compiler.reset()
    with beside(asked["stream"][0]):
        model = _made(answer.ready, asked, here)
        runs = serve(model, terms.stream)
        clips = [int(block.clips) for block in model.blocks if isinstance(getattr(block, "clips", None), torch.Tensor)]
        with torch.no_grad():
            outside = list(eager_operations(model, terms.stream[1]))
        corners = plainly(model, asked["corners"])
        trained = train(_made(answer.ready, asked, here), terms)
    found: Values = {
        "stream": runs,
        "results": [run.result for run in runs],
        "corners": corners,
        "outside": outside,
        "clips": clips,
        "keys": list(model.state_dict()),
        "losses": trained.losses,
    }
    if all(clause.kept for clause in (*clauses.of_capture(runs[0]), *clauses.of_stream(runs))):
        found["ranks"] = ranks_of(LABEL, _on_rank, answer.ready, asked)  # else the judge ends before them
    return found


def _on_rank(ready: Any, asked: Values) -> list[torch.Tensor]:
    here, mine = torch.get_default_device(), slice(dist.get_rank(), None, dist.get_world_size())
    model = DistributedDataParallel(_made(ready, asked, here))
    terms = _terms(asked, here)
    batches = [(ids[mine], targets[mine]) for ids, targets in terms.batches]
    train(model, Terms(terms.stream, batches, terms.loss, terms.rate))
    return [one.detach().clone() for one in model.parameters()]


def judge(asked: Values, found: Values) -> str:
    """Each clause, from facts; numbers and clips of the stream as the plain model has them."""
    terms = _terms(asked)
    plain = gpt_of(asked).double()
    with contextlib.redirect_stdout(io.StringIO()):  # the planted block prints each clip
        exact = train(gpt_of(asked).double(), terms)
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        for ids, got in zip(terms.stream, found["results"], strict=True):
            _same_scores(ids, got, plain)
        clips = [int(block.clips) for block in plain.blocks]
        for ids, got in zip(asked["corners"], found["corners"], strict=True):
            _same_scores(ids.cpu(), got, plain)
    same_keys(LABEL, found["keys"], asked)
    for clause in _clauses(asked, found, terms, exact):
        if not clause.kept:
            look = f"Look at this: {' '.join(clause.why.split()[:14])}" if clause.why else ""
            raise NotYet(f"{LABEL}, {clause.name}:", clause.found, f"{clause.wanted} is the contract", look)
    blocks_outside(LABEL, found["outside"])
    if found["clips"] != clips:
        counted = f"counts {found['clips']} clips, block by block" if any(found["clips"]) else "counts nothing any more"
        raise NotYet("block.clips", counted, f"{clips} is right", "Look at tame.")
    return "each clause is kept"


def _same_scores(ids: torch.Tensor, got: Any, plain: Any) -> None:
    shape = " × ".join(map(str, ids.shape))
    same_numbers(f"The model on {shape} letters", got, plain(ids), torch.float32)


def _clauses(asked: Values, found: Values, terms: Terms, exact: Trained) -> list[Clause]:
    ranks = found.get("ranks", {"results": [], "runs": []})
    weights = tuple([one.cpu().double() for one in result] for result in ranks["results"])
    off = difference(Spread(weights=weights), exact)
    return [
        *clauses.of_capture(found["stream"][0]),
        *clauses.of_stream(found["stream"]),
        clauses.of_curve(found["losses"], exact.losses),
        clauses.of_start(found["stream"][0], whole(gpt_of({**asked, "limit": None}), terms.stream[0])),
        clauses.of_ranks(ranks["runs"], off),
    ]


def _ready(each: str, tame: str = "self.clips += x.abs().max() > self.limit", end: str = "return model") -> str:
    return (
        START
        + f"""
class Ready(Block):
    def tame(self, x):
        {tame}
        return x.clamp(-self.limit, self.limit)

def ready(model):
    for block in model.blocks:
        {each}
    {end}
"""
    )


_CLASS, _COMPILE = "block.__class__ = Ready", "block.compile(backend='aot_eager')"
_NUMBERS = "block.number = torch.tensor(block.number)"


def _lines(*lines: str) -> str:
    return "\n        ".join(lines)


EXERCISE = Exercise(
    name="capstone_7",
    lesson="08_capstone",
    points=4,
    asks_for=("ready",),
    check=Check(ask, probe, judge),
    hints=(
        "Cure one clause after the other, in the order in which the check names them. contract(...) shows all at once.",
        "A block has two faults: the branch in tame, and a Python number. Then compile each block in place: what stays "
        "outside the graphs, a counter and the cache of masks, does no harm.",
        "class Ready(Block) with a tame of its own; for each block: block.__class__ = Ready, number as a "
        'tensor, block.compile(backend="aot_eager").',
    ),
    known_mistakes=(
        KnownMistake(  # as it was
            START + "def ready(model):\n    return torch.compile(model, backend='aot_eager')\n", "_orig_mod"
        ),
        KnownMistake(_ready(_COMPILE), "graphs"),  # compiled, and nothing cured
        KnownMistake(_ready(_lines(_CLASS, _COMPILE)), "graphs"),
        KnownMistake(_ready(_lines(_NUMBERS, _COMPILE)), "graphs: "),
        KnownMistake(  # the whole model
            _ready(_lines(_CLASS, _NUMBERS), end="model.compile(backend='aot_eager'); return model"),
            LABEL,
        ),
        KnownMistake(_ready(_lines(_CLASS, _NUMBERS, _COMPILE), tame="pass"), "counts nothing"),
        KnownMistake(_ready(_lines(_CLASS, _NUMBERS, _COMPILE.replace("')", "', dynamic=False)"))), "compile"),
        KnownMistake(_ready(_lines(_CLASS, _NUMBERS)), "nothing was compiled"),
        KnownMistake(_ready(_lines(_CLASS, _NUMBERS, _COMPILE.replace("aot_eager", "eager"))), "compiles nothing"),
        KnownMistake(_ready(_lines(_CLASS, _NUMBERS, _COMPILE), end="return None"), "returned None"),
        KnownMistake(  # clipping is off
            _ready(_lines(_NUMBERS, "block.limit = None", _COMPILE)), "float64 result"
        ),
    ),
    alternatives=(
        _ready(_lines(_CLASS, _NUMBERS, _COMPILE)),
        START + """
def tame(self, x):
    calm = x.clamp(-self.limit, self.limit)
    self.clips.add_((calm != x).any())
    return calm

class Steady(Block):
    def forward(self, x, mask):
        q, k, v = self.qkv(self.norm_1(x)).unsqueeze(1).chunk(3, -1)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).squeeze(1)
        x = x + self.out(mixed) * self.part
        return tame(self, x + self.down(F.gelu(self.up(self.norm_2(x)))))

def ready(model):
    for block in model.blocks:
        part = torch.tensor(1 / (block.number + 1), device=block.up.weight.device)
        block.register_buffer("part", part, persistent=False)
        block.__class__ = Steady
        block.compile(backend="aot_eager", fullgraph=True)
    return model
""",
    ),
)  # fmt: skip
