"""dist_1: the right place for compile under DistributedDataParallel."""

from __future__ import annotations

from typing import Any

from autograder.exercise import Answer, Check, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.distributed.on_two import drawn, met, no_breaks, operations, ranks_of, same_training, trained
from autograder.judging import called, graphs_made

LABEL = "place(model)"


def probe(answer: Answer, asked: Values) -> Values:
    """Three steps on two ranks."""
    if not callable(answer.place):
        called(LABEL, answer.place)
    return ranks_of(LABEL, trained, answer.place, asked)


def judge(asked: Values, found: Values) -> str:
    """One graph with the whole forward and no break on each rank; weights as one process would have them."""
    runs: list[Any] = found["runs"]
    for run in runs:
        no_breaks(LABEL, run, "Look at which of the two, model or wrapper, is compiled.")
        graphs_made(run, LABEL, 1)
        inside, wanted = operations(run, "linear"), 2 * asked["blocks"] + 1
        if inside != wanted:
            part = f"compiled {inside} of {wanted} linear layers"
            raise NotYet(LABEL, part, "the whole forward is wanted", "Look at which module you compile.")
    same_training(LABEL, asked, found["results"])
    return f"1 graph, no break, the same weights: {met(found)}"


_START = "import torch\nfrom torch.nn.parallel import DistributedDataParallel\n"

EXERCISE = Exercise(
    name="dist_1",
    lesson="06_distributed",
    points=2,
    asks_for=("place",),
    check=Check(drawn, probe, judge),
    hints=(
        "Compare the two strips of section 6.1: which one has breaks?",
        "The wrapper's own forward is not for Dynamo. The model that it holds is.",
        'model.compile(backend="aot_eager"), then return DistributedDataParallel(model).',
    ),
    known_mistakes=(
        KnownMistake(  # the wrapper is compiled
            _START
            + "def place(model):\n    return torch.compile(DistributedDataParallel(model), backend='aot_eager')\n",
            "graph break",
        ),
        KnownMistake(  # nobody adds up gradients
            "def place(model):\n    model.compile(backend='aot_eager')\n    return model\n", "different on rank 0"
        ),
        KnownMistake(_START + "def place(model):\n    return DistributedDataParallel(model)\n", "compiled nothing"),
        KnownMistake(  # the compiled one is dropped
            _START + "def place(model):\n    torch.compile(model, backend='aot_eager')\n"
            "    return DistributedDataParallel(model)\n",
            "compiled nothing",
        ),
        KnownMistake(
            _START
            + "def place(model):\n    model.compile(backend='eager')\n    return DistributedDataParallel(model)\n",
            "compiled nothing of it",
        ),
        KnownMistake(  # one layer for show
            _START + "def place(model):\n    model.head.compile(backend='aot_eager')\n"
            "    model.blocks[0].up.forward = torch.compile(model.blocks[0].up.forward, backend='aot_eager')\n"
            "    return DistributedDataParallel(model)\n",
            "linear layers",
        ),
        KnownMistake(  # each block for itself
            _START + "def place(model):\n    for block in model.blocks:\n        block.compile(backend='aot_eager')\n"
            "    return DistributedDataParallel(model)\n",
            "wants 1",
        ),
        KnownMistake(
            _START + "def place(model):\n    model.compile(backend='aot_eager')\n"
            "    torch.compiler.set_stance('force_eager')\n    return DistributedDataParallel(model)\n",
            "compiled nothing",
        ),
        KnownMistake(  # gradients are exchanged, and thrown away
            _START
            + "def place(model):\n    model.compile(backend='aot_eager')\n    w = DistributedDataParallel(model)\n"
            "    w.require_backward_grad_sync = False\n    return w\n",
            "different on rank 0",
        ),
    ),
    alternatives=(
        _START + "def place(model):\n    return DistributedDataParallel(torch.compile(model, backend='aot_eager'))\n",
        _START + "def place(model):\n    wrapped = DistributedDataParallel(model, bucket_cap_mb=1)\n"
        "    wrapped.module.compile(backend='aot_eager', fullgraph=True)\n    return wrapped\n",
        _START
        + "def place(model):\n    model.forward = torch.compile(model.forward, backend='aot_eager', dynamic=False)\n"
        "    return DistributedDataParallel(model)\n",
    ),
)
