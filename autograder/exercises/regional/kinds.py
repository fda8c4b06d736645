"""regional_1: blocks of two kinds, each kind compiled once, whatever the depth."""

from __future__ import annotations

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.guards.served import always_compiled, compiles_at_most
from autograder.exercises.regional import blocks
from autograder.judging import called, exact, graphs_hold, same_numbers
from compilescope import observe

LABEL = "The model after in_regions(model)"


def ask(draw: Draw) -> Values:
    """A model of ten to fourteen blocks of two kinds, and two inputs."""
    return blocks.drawn(draw, blocks.both_kinds(draw, 10, 14))


def probe(answer: Answer, asked: Values) -> Values:
    """Hands the model over, then calls it twice without gradients."""
    model = blocks.net_of(asked, asked["x"][0].device)
    called("in_regions(model)", answer.in_regions, model)
    with observe() as run, torch.no_grad():
        results = [model(x) for x in asked["x"]]
    return {"run": run, "results": results, "keys": list(model.state_dict())}


def judge(asked: Values, found: Values) -> str:
    """Numbers, keys, every block compiled at each call, two compiles that hold the blocks' work."""
    twin = blocks.net_of(asked)
    for x, got in zip(asked["x"], found["results"], strict=True):
        with torch.no_grad():
            same_numbers(LABEL, got, blocks.net_of(asked).double()(exact(x)), torch.float32)
    strange = [key for key in found["keys"] if key not in twin.state_dict()]
    if strange:
        has = f"has the key {strange[0]}"
        raise NotYet(LABEL, has, "the keys of state_dict() must stay", "Compile in place: block.compile().")
    calls = len(asked["kinds"]) * len(asked["x"])
    always_compiled(found["run"], LABEL, calls)
    compiles_at_most(found["run"], LABEL, 2, calls)
    with observe() as own, torch.no_grad():
        for kind in dict.fromkeys(asked["kinds"]):
            torch.compile(blocks.KINDS[kind](asked["width"]), backend="aot_eager")(asked["x"][0].cpu())
    graphs_hold(LABEL, found["run"], own)
    return f"{len(asked['kinds'])} blocks, 2 compiles"


_ALL = "def in_regions(model):\n    for block in model.blocks:\n        {}\n"
_START = "import torch\nfrom torch import nn\n"

EXERCISE = Exercise(
    name="regional_1",
    lesson="07_regional",
    points=2,
    asks_for=("in_regions",),
    check=Check(ask, probe, judge),
    hints=(
        "Which modules of the model repeat? Those are the regions; a stem that is called once is none.",
        "Blocks of one class share their compiled code. So each block is compiled, and each class costs one compile.",
        'for block in model.blocks: block.compile(backend="aot_eager")',
    ),
    known_mistakes=(
        KnownMistake('def in_regions(model):\n    model.compile(backend="aot_eager")\n', "ran compiled code in 2 of"),
        KnownMistake(  # other objects in the list, other keys
            _START
            + "def in_regions(model):\n    for i, block in enumerate(model.blocks):\n"
            + '        model.blocks[i] = torch.compile(block, backend="aot_eager")\n',
            "must stay",
        ),
        KnownMistake(_ALL.format('block.compile(backend="eager")'), "compiled nothing of it"),
        KnownMistake(  # the first block's kind only
            "def in_regions(model):\n    kind = type(model.blocks[0])\n    for block in model.blocks:\n"
            '        if isinstance(block, kind):\n            block.compile(backend="aot_eager")\n',
            "all of them are wanted",
        ),
        KnownMistake(  # nobody calls the list
            'def in_regions(model):\n    model.blocks.compile(backend="aot_eager")\n', "ran compiled code in 0 of"
        ),
        KnownMistake(  # the result is thrown away
            _START + _ALL.format('torch.compile(block, backend="aot_eager")'), "ran compiled code in 0 of"
        ),
        KnownMistake(  # one block of each kind, and a compile for the stem and the head
            _START
            + "def in_regions(model):\n    for one in [model.stem, model.head, *model.blocks]:\n"
            + '        one.forward = torch.compile(one.forward, backend="aot_eager")\n',
            "at most 2 are wanted",
        ),
        KnownMistake(  # looks compiled: a graph that does nothing of the work
            _START
            + """
def in_regions(model):
    tick = torch.compile(lambda x: x + 0, backend="aot_eager")
    def ticking(forward):
        return lambda x: tick(forward(x))
    for block in model.blocks:
        block.forward = ticking(block.forward)
""",
            "in none of its graphs",
        ),
        KnownMistake("def in_regions(model):\n    pass\n", "ran compiled code in 0 of"),
    ),
    alternatives=(
        _ALL.format('block.compile(backend="aot_eager", fullgraph=True)'),
        _START
        + "def in_regions(model):\n    for block in model.blocks:\n"
        + '        block.forward = torch.compile(block.forward, backend="aot_eager")\n',
        "def in_regions(model):\n    from collections import Counter\n"
        "    often = Counter(type(one) for one in model.children())\n"
        "    for block in model.modules():\n"
        "        if type(block).__module__.startswith('autograder') and block is not model:\n"
        '            block.compile(backend="aot_eager")\n',
    ),
)
