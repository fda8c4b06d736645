"""dist_3: FSDP2, compiled and sharded block by block."""

from __future__ import annotations

from typing import Any

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.distributed.on_two import (
    drawn,
    met,
    model_of,
    no_breaks,
    operations,
    ranks_of,
    same_training,
    trained,
)
from autograder.judging import called

LABEL = "shard(model)"


def ask(draw: Draw) -> Values:
    """A model of three or four blocks, so that first, later and last differ."""
    return drawn(draw, least=3)


def probe(answer: Answer, asked: Values) -> Values:
    """Three steps on two ranks."""
    if not callable(answer.shard):
        called(LABEL, answer.shard)
    return ranks_of(LABEL, trained, answer.shard, asked)


def judge(asked: Values, found: Values) -> str:
    """Each block is gathered, and runs a graph, of its own; no break; keys and weights of the plain model."""
    for run, step in zip(found["runs"], found["steps"], strict=True):
        no_breaks(LABEL, run, "Look at what is compiled: the hooks of FSDP belong outside.")
        _one_each(asked["blocks"], run, step)
    keys, plain = found["results"][0]["keys"], list(model_of(asked).state_dict())
    if keys != plain:
        odd = next((key for key in keys if key not in plain), keys[0] if keys else "nothing")
        raise NotYet(LABEL, f"has the key {odd}", "the plain model's keys are wanted", "Look at compile() in place.")
    same_training(LABEL, asked, found["results"])
    graphs = len(found["runs"][0].graphs)
    return f"{asked['blocks']} blocks share {graphs} graphs; each is gathered for itself: {met(found)}"


def _one_each(blocks: int, run: Any, step: list[Values]) -> None:
    kinds = [one["kind"] if one["kind"] != "collective" else one["name"] for one in step]
    forward = kinds[: kinds.index("backward")] if "backward" in kinds else kinds
    ran = forward.count("forward")
    if ran != blocks or operations(run, "linear") > 2 * len(run.graphs):
        one_graph = f"ran {ran} compiled graphs in a forward pass"
        raise NotYet(
            LABEL, one_graph, f"one for each of {blocks} blocks is wanted", "Look at which modules you compile."
        )
    gathered = forward.count("all_gather")
    if gathered < blocks:
        together = f"gathered weights {gathered} times in a forward pass"
        raise NotYet(LABEL, together, f"{blocks} blocks want one each", "Look at which modules you shard.")


_START = "import torch\nfrom torch.distributed.fsdp import fully_shard\n"
_COMPILE = "block.compile(backend='aot_eager', fullgraph=True)"

EXERCISE = Exercise(
    name="dist_3",
    lesson="06_distributed",
    points=3,
    asks_for=("shard",),
    check=Check(ask, probe, judge),
    hints=(
        "Look at the strips of section 6.2: where does a block's all_gather stand, and how many are there?",
        "Each block: compile it in place, then fully_shard it. The rest of the weights belongs to the whole model.",
        'for block in model.blocks: block.compile(backend="aot_eager", fullgraph=True); fully_shard(block). '
        "At the end fully_shard(model), and return it.",
    ),
    known_mistakes=(
        KnownMistake(  # one shard for all
            _START + f"def shard(model):\n    for block in model.blocks:\n        {_COMPILE}\n"
            "    fully_shard(model)\n    return model\n",
            "gathered weights 1 times",
        ),
        KnownMistake(  # compiled outside
            _START + "def shard(model):\n    for block in model.blocks:\n        fully_shard(block)\n"
            "    fully_shard(model)\n    model.compile(backend='aot_eager')\n    return model\n",
            "graph break",
        ),
        KnownMistake(  # the whole model, and nothing sharded inside it
            _START
            + "def shard(model):\n    model.compile(backend='aot_eager')\n    fully_shard(model)\n    return model\n",
            "ran 1 compiled graphs",
        ),
        KnownMistake(  # not compiled
            _START + "def shard(model):\n    for block in model.blocks:\n        fully_shard(block)\n"
            "    fully_shard(model)\n    return model\n",
            "compiled nothing",
        ),
        KnownMistake(  # wrapped blocks
            _START + "def shard(model):\n    for i, block in enumerate(model.blocks):\n"
            "        model.blocks[i] = torch.compile(fully_shard(block), backend='aot_eager')\n"
            "    fully_shard(model)\n    return model\n",
            "_orig_mod",
        ),
        KnownMistake(  # the head is nobody's
            _START + f"def shard(model):\n    for block in model.blocks:\n        {_COMPILE}\n"
            "        fully_shard(block)\n    return model\n",
            "float64 result",
        ),
        KnownMistake(  # the whole first
            _START + f"def shard(model):\n    fully_shard(model)\n    for block in model.blocks:\n        {_COMPILE}\n"
            "        fully_shard(block)\n    return model\n",
            "raised",
        ),
        KnownMistake(  # not sharded at all
            f"def shard(model):\n    for block in model.blocks:\n        {_COMPILE}\n    return model\n", "gathered"
        ),
        KnownMistake(
            _START
            + f"def shard(model):\n    for block in model.blocks:\n        {_COMPILE.replace('aot_eager', 'eager')}\n"
            "        fully_shard(block)\n    fully_shard(model)\n    return model\n",
            "compiled nothing of it",
        ),
    ),
    alternatives=(
        _START + "def shard(model):\n    for block in model.blocks:\n        fully_shard(block)\n"
        f"        {_COMPILE}\n    return fully_shard(model)\n",
        _START + f"def shard(model):\n    for block in reversed(model.blocks):\n        {_COMPILE}\n"
        "        fully_shard(block, reshard_after_forward=False)\n    fully_shard(model)\n",
        _START + "def shard(model):\n    for block in model.blocks:\n"
        "        block.forward = torch.compile(block.forward, backend='aot_eager', fullgraph=True)\n"
        "        fully_shard(block)\n    fully_shard(model)\n    return model\n",
    ),
)
