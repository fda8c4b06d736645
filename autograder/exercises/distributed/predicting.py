"""dist_6: how many graphs each of four placements makes, said before anything is compiled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.distributed.bucket import MIB, Layers, pieces_for, size_of
from autograder.exercises.distributed.on_two import ranks_of
from autograder.judging import called
from compilescope import observe
from compilescope.torch_internals.ddp import cutting_at_buckets

PLACEMENTS = ("DDP inside", "DDP outside", "DDP one graph", "FSDP2 blocks")


def ask(draw: Draw) -> Values:
    """Two models: one that a bucket cuts differently from its number of layers, one whose input needs a gradient."""
    while True:
        tasks: list[Values] = []
        for number in range(2):
            width, layers, cap = draw.size(52, 66) * 10, draw.size(4, 6), draw.size(2, 4)
            tasks.append({"width": width, "layers": layers, "cap": cap, "grad": number == 1})
        cuts = [graphs_of("DDP inside", task) for task in tasks]
        if cuts[0] != cuts[1] and all([rule(task) for task in tasks] != cuts for rule in _WRONG_RULES):
            return {"tasks": tasks}


def _fit(task: Values) -> float:
    """Layers until a bucket holds its cap, not rounded up."""
    fit: float = task["cap"] * MIB / size_of(task["width"])
    return fit


def _other_bucket_first(task: Values) -> int:
    """Buckets, if the second one closed at 1 MiB and the first one at the cap."""
    layers: int = task["layers"] - math.ceil(_fit(task))
    return 1 + (layers > 0) + math.ceil(max(0, layers - 1) / math.ceil(_fit(task)))


_WRONG_RULES: tuple[Callable[[Values], int], ...] = (
    lambda task: math.ceil(task["layers"] / math.ceil(_fit(task))),  # all buckets alike
    lambda task: 1 + math.ceil(task["layers"] / math.ceil(_fit(task))),  # the first one beside all layers
    lambda task: 1 + math.ceil((task["layers"] - 1) / _fit(task)),  # layers cut in pieces
    _other_bucket_first,
)
"""Inputs are drawn until none of them is right by chance."""


def graphs_of(placement: str, task: Values) -> int:
    """The rule: buckets cut DDP's graph wherever compile stands; a block is compiled once for each kind of input."""
    if placement == "DDP one graph":
        return 1
    if placement == "FSDP2 blocks":
        return 1 if task["grad"] else 2
    return pieces_for([size_of(task["width"])] * task["layers"], task["cap"])


def probe(answer: Answer, asked: Values) -> Values:
    """What the answer says of each, and what rank 0 of a group that is not there compiles."""
    said: list[Any] = []
    for task in asked["tasks"]:
        sizes = [size_of(task["width"])] * task["layers"]
        given = called("predict_graphs", answer.predict_graphs, sizes, task["cap"], task["grad"])
        if not isinstance(given, dict):
            raise NotYet(
                "predict_graphs", f"returned a {type(given).__name__}", "a dict is wanted", "Look at the docstring."
            )
        said.append({name: given.get(name) for name in PLACEMENTS})
    return {"said": said, **ranks_of("predict_graphs", _made, asked["tasks"], fake=True)}


def _made(tasks: list[Values]) -> list[Values]:
    """On a rank: graphs that the backend compiled, of the first model in each placement.

    Of the other model only in those that depend on it: more would take too long.
    """
    asked = [PLACEMENTS, *(("DDP inside", "FSDP2 blocks") for _ in tasks[1:])]
    return [{name: _pieces(name, task) for name in names} for names, task in zip(asked, tasks, strict=True)]


def _pieces(placement: str, task: Values) -> int:
    torch.compiler.reset()
    x = torch.ones(2, task["width"], requires_grad=task["grad"])
    with cutting_at_buckets(placement != "DDP one graph"):
        run = observe(_placed(placement, task), x)
    return sum(one.parts for one in run.compiles)


def _placed(placement: str, task: Values) -> Any:
    model = Layers(task["width"], task["layers"])
    if placement == "FSDP2 blocks":
        return _sharded(model)
    wrapped = DistributedDataParallel(model, bucket_cap_mb=task["cap"])
    if placement == "DDP outside":
        return torch.compile(wrapped, backend="aot_eager")
    model.compile(backend="aot_eager")
    return wrapped


def _sharded(model: Layers) -> Any:
    for layer in model.layers:
        layer.compile(backend="aot_eager")
        fully_shard(layer)
    return fully_shard(model)


def judge(asked: Values, found: Values) -> str:
    """Every number as it was compiled."""
    for task, said, made in zip(asked["tasks"], found["said"], found["results"][0], strict=True):
        for name in made:
            if said[name] != made[name] or isinstance(said[name], bool):
                grad = "an input that needs a gradient" if task["grad"] else "a plain input"
                raise NotYet(
                    f"{name}, {task['layers']} layers, {task['cap']} MiB, {grad}:",
                    f"you say {said[name]}",
                    f"it compiles {made[name]}",
                    "Look at what cuts a graph, and what makes a block compile again.",
                )
    return f"{sum(map(len, found['results'][0]))} predictions hold"


_RULE = """
def buckets(sizes, cap_mb):
    pieces, held = 1, 0
    for size in reversed(sizes):
        if held >= (2**20 if pieces == 1 else cap_mb * 2**20):
            pieces, held = pieces + 1, 0
        held += size
    return pieces

def predict_graphs(sizes, cap_mb, input_needs_grad):
    cut = buckets(sizes, cap_mb)
    return {"DDP inside": cut, "DDP outside": OUTSIDE, "DDP one graph": ONE, "FSDP2 blocks": BLOCKS}
"""
_RIGHT = {"OUTSIDE": "cut", "ONE": "1", "BLOCKS": "1 if input_needs_grad else 2"}


def _with(**other: str) -> str:
    code = _RULE
    for name, value in (_RIGHT | other).items():
        code = code.replace(name, value)
    return code


EXERCISE = Exercise(
    name="dist_6",
    lesson="06_distributed",
    points=3,
    asks_for=("predict_graphs",),
    check=Check(ask, probe, judge),
    hints=(
        "Sections 6.1 and 6.2 show all four; your own answer to dist_2 counts buckets.",
        "Buckets cut inside and outside alike. A block is compiled once for an input that needs no gradient and once "
        "for one that does.",
        'Return {"DDP inside": cut, "DDP outside": cut, "DDP one graph": 1, "FSDP2 blocks": 1 or 2}; '
        "cut counts the buckets.",
    ),
    known_mistakes=(
        KnownMistake(_with(OUTSIDE="cut + 3"), "DDP outside"),
        KnownMistake(_with(ONE="cut"), "DDP one graph"),
        KnownMistake(_with(BLOCKS="len(sizes)"), "FSDP2 blocks"),
        KnownMistake(_with(BLOCKS="2"), "FSDP2 blocks"),
        KnownMistake(_with(BLOCKS="1"), "FSDP2 blocks"),
        KnownMistake(_with().replace("2**20 if pieces == 1 else cap_mb", "cap_mb"), "DDP inside"),
        KnownMistake(_with().replace("cut = buckets(sizes, cap_mb)", "cut = 3"), "DDP inside"),
        KnownMistake(
            "def predict_graphs(sizes, cap_mb, input_needs_grad):\n    return [3, 3, 1, 2]\n", "a dict is wanted"
        ),
    ),
    alternatives=(
        _with(),
        """
import math

def predict_graphs(sizes, cap_mb, input_needs_grad):
    together = math.ceil(cap_mb * 2**20 / sizes[0])
    cut = 1 + math.ceil((len(sizes) - 1) / together)
    return {"DDP inside": cut, "DDP outside": cut, "DDP one graph": 1, "FSDP2 blocks": 2 - input_needs_grad}
""",
    ),
)
