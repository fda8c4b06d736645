"""dist_2: the bucket size that cuts a model into a wanted number of graphs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.distributed.on_two import ranks_of
from autograder.judging import called
from compilescope import observe

MIB = 2**20
FIRST = MIB
"""Bytes at which DDP's first bucket closes; torch.distributed._DEFAULT_FIRST_BUCKET_BYTES (2.11 to 2.15)."""


class Layer(nn.Module):
    """A linear layer and a relu, in a class of its own: built-in modules compile nothing in place up to torch 2.13."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows in, rows out."""
        return torch.relu(self.linear(x))


class Layers(nn.Module):
    """Layers of one width: [rows, width] → [rows, width]."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows in, rows out."""
        for layer in self.layers:
            x = layer(x)
        return x


def size_of(width: int) -> int:
    """Bytes of one layer: weight and bias, float32."""
    return 4 * (width * width + width)


def pieces_for(sizes: list[int], cap_mb: float) -> int:
    """Into how many graphs DDP's buckets cut these layers (bytes each, in the order of the forward pass).

    Counted from the last layer on: the first bucket closes when it holds 1 MiB, every other one at the cap.
    """
    pieces, held = 1, 0
    for size in reversed(sizes):
        if held >= (FIRST if pieces == 1 else cap_mb * MIB):
            pieces, held = pieces + 1, 0
        held += size
    return pieces


def _search(sizes: list[int], wanted: int, first: bool, overflowing: bool) -> float:
    """What a loop over sizes finds that forgets the first bucket, or closes a bucket before it would overflow."""
    for cap in range(1, 100):
        pieces, held = 1, 0
        for size in reversed(sizes):
            full = FIRST if first and pieces == 1 else cap * MIB
            if (held + size > full) if overflowing else (held >= full):
                pieces, held = pieces + 1, 0
            held += size
        if pieces == wanted:
            return cap
    return 25


def _divided(sizes: list[int], wanted: int) -> float:
    """What a division finds that forgets that the first bucket has a layer already."""
    layers = len(sizes)
    fits = [together for together in range(1, layers + 1) if 1 + math.ceil(layers / together) == wanted]
    return max(1.0, sizes[0] / MIB * fits[0] - 0.1) if fits else 25


_GUESSES: tuple[Callable[[list[int], int], float], ...] = (
    lambda sizes, wanted: max(1.0, sum(sizes) / wanted / MIB),
    lambda sizes, wanted: 25,
    lambda sizes, wanted: wanted,
    lambda sizes, wanted: _search(sizes, wanted, first=False, overflowing=False),
    lambda sizes, wanted: _search(sizes, wanted, first=True, overflowing=True),
    _divided,
)
"""Wrong rules; inputs are drawn until none of them is right by chance."""


def ask(draw: Draw) -> Values:
    """Two models by width and number of layers, each with a number of graphs that some whole bucket size gives."""
    while True:
        tasks: list[Values] = []
        for _ in range(2):
            width, layers = draw.size(52, 70) * 10, draw.size(5, 7)
            wanted = pieces_for([size_of(width)] * layers, draw.size(2, 6))
            tasks.append({"width": width, "layers": layers, "wanted": wanted})
        if all(any(not _lucky(guess, task) for task in tasks) for guess in _GUESSES):
            return {"tasks": tasks}


def _lucky(guess: Callable[[list[int], int], float], task: Values) -> bool:
    sizes = [size_of(task["width"])] * task["layers"]
    return bool(pieces_for(sizes, guess(sizes, task["wanted"])) == task["wanted"])


def probe(answer: Answer, asked: Values) -> Values:
    """The sizes answered, and what torch makes of them on rank 0 of a group that is not there."""
    caps: list[Any] = []
    for task in asked["tasks"]:
        sizes = [size_of(task["width"])] * task["layers"]
        label = f"bucket_mb({len(sizes)} layers, {task['wanted']})"
        cap = called(label, answer.bucket_mb, sizes, task["wanted"])
        if isinstance(cap, bool) or not isinstance(cap, (int, float)):
            raise NotYet(
                label, f"returned a {type(cap).__name__}", "a number of MiB is wanted", "Look at your return line."
            )
        if not 1 <= cap <= 1000:
            raise NotYet(
                label, f"returned {cap:g} MiB", "DDP with compile takes 1 MiB or more", "Look at the unit: MiB."
            )
        caps.append(cap)
    return {"caps": caps, **ranks_of("bucket_mb", _compiled, asked["tasks"], caps, fake=True)}


def _compiled(tasks: list[Values], caps: list[float]) -> list[Any]:
    """On a rank: the runs of a forward pass of each model."""
    runs = []
    for task, cap in zip(tasks, caps, strict=True):
        torch.compiler.reset()
        model = Layers(task["width"], task["layers"])
        model.compile(backend="aot_eager")
        wrapped = DistributedDataParallel(model, bucket_cap_mb=cap)  # type: ignore[arg-type]
        runs.append(observe(wrapped, torch.ones(2, task["width"])))
    return runs


def judge(asked: Values, found: Values) -> str:
    """As many graphs as wanted, for both models."""
    for task, cap, run in zip(asked["tasks"], found["caps"], found["results"][0], strict=True):
        pieces = sum(one.parts for one in run.compiles)
        if pieces != task["wanted"]:
            each = size_of(task["width"]) / MIB
            raise NotYet(
                f"{cap:g} MiB",
                f"cuts {task['layers']} layers of {each:.2f} MiB into {pieces} graphs",
                f"{task['wanted']} are wanted",
                "Look at when a bucket closes, and at the first one.",
            )
    done = zip(asked["tasks"], found["caps"], strict=True)
    return " and ".join(f"{task['wanted']} graphs with {cap:g} MiB" for task, cap in done)


_TRY = """
def bucket_mb(sizes, wanted):
    for cap in range(1, 100):
        pieces, held = 1, 0
        for size in reversed(sizes):
            if held >= FIRST_OR_CAP:
                pieces, held = pieces + 1, 0
            held += size
        if pieces == wanted:
            return cap
    return 25
"""

EXERCISE = Exercise(
    name="dist_2",
    lesson="06_distributed",
    points=2,
    asks_for=("bucket_mb",),
    check=Check(ask, probe, judge),
    hints=(
        "Run pieces_of with several sizes, and count how many layers go into each bucket.",
        "Go through the layers from the last one. The first bucket closes at 1 MiB, the others at bucket_cap_mb.",
        "For cap in 1, 2, 3 …: count buckets (pieces, held = 1, 0; before adding a layer, see whether the bucket is "
        "full); return the first cap that gives `wanted`.",
    ),
    known_mistakes=(
        KnownMistake("def bucket_mb(sizes, wanted):\n    return max(1.0, sum(sizes) / wanted / 2**20)\n", "are wanted"),
        KnownMistake("def bucket_mb(sizes, wanted):\n    return sum(sizes) // wanted\n", "Look at the unit"),
        KnownMistake("def bucket_mb(sizes, wanted):\n    return 25\n", "are wanted"),
        KnownMistake("def bucket_mb(sizes, wanted):\n    return wanted\n", "are wanted"),
        KnownMistake("def bucket_mb(sizes, wanted):\n    return 0.5\n", "1 MiB or more"),
        KnownMistake(  # the first bucket as large as all others
            _TRY.replace("FIRST_OR_CAP", "cap * 2**20"), "the first one"
        ),
        KnownMistake(  # a full bucket is one that would overflow
            _TRY.replace("held >= FIRST_OR_CAP", "held + size > (2**20 if pieces == 1 else cap * 2**20)"), "are wanted"
        ),
        KnownMistake("def bucket_mb(sizes, wanted):\n    print(len(sizes) / wanted)\n", "a number of MiB is wanted"),
    ),
    alternatives=(
        _TRY.replace("FIRST_OR_CAP", "(2**20 if pieces == 1 else cap * 2**20)"),
        """
import math

def bucket_mb(sizes, wanted):
    each, rest = sizes[0] / 2**20, len(sizes) - 1
    for together in range(1, rest + 1):
        if 1 + math.ceil(rest / together) == wanted:
            return max(1, each * together - 0.1)
""",
        """
def bucket_mb(sizes, wanted):
    def pieces(cap):
        buckets = [0]
        for size in sizes[::-1]:
            if buckets[-1] >= (1 if len(buckets) == 1 else cap) * 2**20:
                buckets.append(0)
            buckets[-1] += size
        return len(buckets)

    return next(cap / 4 for cap in range(4, 400) if pieces(cap / 4) == wanted)
""",
    ),
)
