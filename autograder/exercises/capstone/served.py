"""capstone_3: a stream of shapes nobody has seen, and a cache of masks that compiles for each of them."""

from __future__ import annotations

import torch
from torch import nn

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.capstone.planted import (
    START,
    answered_of,
    corners_drawn,
    exact_scores,
    plainly,
    same_keys,
    size_drawn,
    stream_drawn,
)
from autograder.judging import beside, called, eager_operations, none_outside, really_compiled, same_numbers
from compilescope import observe
from compilescope.clauses import WARM_UP, refused

LABEL = "Served"


def ask(draw: Draw) -> Values:
    """A block that clips nothing, a stream of seven shapes, and the longest and the shortest rows."""
    return {**size_drawn(draw, depth=1), "stream": stream_drawn(draw), "corners": corners_drawn(draw)}


def probe(answer: Answer, asked: Values) -> Values:
    """The answer's model, compiled as a whole; a Run of each call."""
    if not callable(answer.Served):
        called(LABEL, answer.Served)
    stream = asked["stream"]
    model = answered_of(asked, answer.Served, stream[0].device)
    if not isinstance(model, nn.Module):
        raise NotYet(LABEL, f"gives a {type(model).__name__}", "a module is wanted", "Keep class Served(GPT).")
    torch.compiler.reset()
    model.compile(backend="aot_eager")
    with beside(stream[0]), torch.no_grad():
        runs = [observe(model, ids) for ids in stream]
        outside = list(eager_operations(model, stream[1]))
        corners = plainly(model, asked["corners"])
    return {
        "runs": runs,
        "results": [run.result for run in runs],
        "corners": corners,
        "outside": outside,
        "keys": list(model.state_dict()),
    }


def judge(asked: Values, found: Values) -> str:
    """Numbers as in float64; the first two calls compile, no other; everything is in the graph; plain keys."""
    for ids, got in zip([*asked["stream"], *asked["corners"]], [*found["results"], *found["corners"]], strict=True):
        shape = " × ".join(map(str, ids.shape))
        same_numbers(f"Served on {shape} letters", got, exact_scores(asked, ids), torch.float32)
    same_keys(LABEL, found["keys"], asked)
    runs = found["runs"]
    if not runs[0].graphs:
        raise NotYet(LABEL, "captured no graph", "the whole forward is wanted", "Look for what keeps Dynamo out.")
    really_compiled(runs[0], LABEL)
    for number, run in enumerate(runs[WARM_UP:], WARM_UP + 1):
        gave_up = any(call.outcome == "gave up" for call in run.calls)
        if run.graphs or gave_up:
            again = f"{'gave up' if gave_up else 'compiled again'} in call {number}"
            wanted = f"only the first {WARM_UP} may compile"
            raise NotYet(LABEL, again, wanted, f"The guard: {refused(run)}.")
    if runs[0].breaks or any(len(run.graphs) > 1 for run in runs):
        raise NotYet(LABEL, "made more than one graph of a call", "one is wanted", "Look for a graph break.")
    none_outside(LABEL, found["outside"])
    compiles = sum(len(run.graphs) for run in runs)
    return f"{compiles} compiles for {len(runs)} shapes"


_HEAD = """
class Served(GPT):
    def __init__(self, letters, **sizes):
        super().__init__(letters, **sizes)
        INIT

    def forward(self, ids):
        self.calls += 1
        length = ids.shape[1]
        mask = MASK
        x = self.letters(ids) + self.places.weight[:length]
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))
"""
_CALLS = "self.calls = torch.tensor(0)"
_TRIL = "torch.ones(length, length, dtype=torch.bool).tril()"


def _served(mask: str, init: str = _CALLS) -> str:
    return START + _HEAD.replace("INIT", init).replace("MASK", mask)


_CACHED = "self.masks.setdefault(length, torch.ones(length, length, dtype=torch.bool).tril())"

EXERCISE = Exercise(
    name="capstone_3",
    lesson="08_capstone",
    points=3,
    asks_for=("Served",),
    check=Check(ask, probe, judge),
    hints=(
        "Send three shapes, and read why the third one compiled: would_recompile, or strips of the runs.",
        "What the forward looks up by a size, or counts in an int, is compiled in. Compute it from tensors.",
        "__init__: self.calls = torch.tensor(0). forward: torch.ones(length, length, dtype=torch.bool)"
        ".tril() as the mask, the rest as it was.",
    ),
    known_mistakes=(
        KnownMistake(START + "class Served(GPT):\n    pass\n", "in call 3"),  # nothing cured
        KnownMistake(_served(_TRIL, "pass"), "calls"),  # the counter is left
        KnownMistake(_served(_CACHED), "in call 3"),  # the cache is left
        KnownMistake(  # the cache as a list
            _served("self.masks[length]", _CALLS + "\n        self.masks = [torch.ones(n, n, dtype=torch.bool).tril() "
                    "for n in range(65)]"),
            "in call 3",
        ),
        KnownMistake(_served("None"), "float64 result"),  # everybody sees the future
        KnownMistake(_served(_TRIL.replace("tril", "triu")), "float64 result"),
        KnownMistake(  # the mask goes into the checkpoint
            _served("self.mask[:length, :length]", _CALLS + "\n        self.register_buffer('mask', "
                    "torch.ones(64, 64, dtype=torch.bool).tril())"),
            "has the key mask",
        ),
        KnownMistake(  # kept out
            _served(_TRIL).replace("    def forward", "    @torch.compiler.disable\n    def forward"),
            "captured no graph",
        ),
        KnownMistake(  # a size that is compiled in
            _served(_TRIL + "\n        x = [0] * length"), "compiled again"
        ),
        KnownMistake(
            _served(_TRIL, _CALLS + "\n        torch.compiler.set_stance('force_eager')"), "captured no graph"
        ),
    ),
    alternatives=(
        _served(_TRIL),
        _served(  # one mask, cut to size
            "self.mask[:length, :length]",
            _CALLS + "\n        self.register_buffer('mask', torch.ones(64, 64, dtype=torch.bool).tril(), "
            "persistent=False)",
        ),
        _served("(at := torch.arange(length, device=ids.device))[:, None] >= at"),
    ),
)  # fmt: skip
