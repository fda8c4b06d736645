"""capstone_5: wrappers out, the same weights, compiled in place."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.capstone.planted import (
    START,
    blocks_outside,
    cured_of,
    exact_scores,
    letters_drawn,
    same_keys,
    size_drawn,
)
from autograder.judging import called, eager_operations, kind_of, really_compiled, same_numbers
from compilescope import observe

LABEL = "in_place(model)"


def ask(draw: Draw) -> Values:
    """Two blocks that clip nothing, a batch, and where the wrappers are: always around one of the blocks."""
    places = [["model", "block 0"], ["model", "block 1", "head"], ["block 0", "block 1"], ["model", "block 1", "norm"]]
    ids = letters_drawn(draw, draw.size(2, 5), draw.size(6, 12))
    return {**size_drawn(draw, depth=2), "ids": ids, "wrapped": [draw.choice(places[:2]), draw.choice(places[2:])]}


def wrapped_of(asked: Values, places: list[str]) -> Any:
    """The model with `torch.compile` around the named parts."""
    model = cured_of(asked, asked["ids"].shape[1], asked["ids"].device)
    for place in places:
        if place.startswith("block"):
            number = int(place[-1])
            model.blocks[number] = torch.compile(model.blocks[number], backend="aot_eager")
        elif place != "model":
            setattr(model, place, torch.compile(getattr(model, place), backend="aot_eager"))
    return torch.compile(model, backend="aot_eager") if "model" in places else model


def probe(answer: Answer, asked: Values) -> Values:
    """What comes of each of the wrapped models."""
    return {"models": [_probed(answer, asked, places) for places in asked["wrapped"]]}


def _probed(answer: Answer, asked: Values, places: list[str]) -> Values:
    given = wrapped_of(asked, places)
    weights = list(given.parameters())
    torch.compiler.reset()
    model = called(LABEL, answer.in_place, given)
    if not isinstance(model, nn.Module):
        raise NotYet(LABEL, f"returned {kind_of(model)}", "a module is wanted", "Look at your return line.")
    with torch.no_grad():
        run = observe(model, asked["ids"])
        outside = list(eager_operations(model, asked["ids"]))
    same = {id(one) for one in weights}
    return {
        "run": run,
        "result": run.result,
        "outside": outside,
        "keys": list(model.state_dict()),
        "others": sum(id(one) not in same for one in model.parameters()),
        "types": sorted({type(one).__name__ for one in model.modules()}),
    }


def judge(asked: Values, found: Values) -> str:
    """Plain keys, no wrapper left, the very same parameters, right numbers, and the blocks run compiled."""
    for places, one in zip(asked["wrapped"], found["models"], strict=True):
        same_keys(LABEL, one["keys"], asked)
        if "OptimizedModule" in one["types"]:
            still = f"still holds a wrapper ({', '.join(places)} were wrapped)"
            raise NotYet(LABEL, still, "the module itself is wanted", "Look at each module inside, too.")
        if one["others"]:
            other = f"has {one['others']} other parameter objects"
            raise NotYet(LABEL, other, "an optimizer that holds the old ones must go on", "Move modules, copy nothing.")
        same_numbers(LABEL, one["result"], exact_scores(asked, asked["ids"]), torch.float32)
        if not one["run"].graphs:
            raise NotYet(LABEL, "is not compiled any more", "compiled in place is wanted", "Look for .compile().")
        really_compiled(one["run"], LABEL)
        blocks_outside(LABEL, one["outside"])
    return "plain keys, the same parameters, compiled in place"


_OUT = "getattr(MODULE, '_orig_mod', MODULE)"
_TOP = "    model = " + _OUT.replace("MODULE", "model") + "\n"
_BLOCKS = (
    "    for i, block in enumerate(model.blocks):\n        model.blocks[i] = " + _OUT.replace("MODULE", "block") + "\n"
)
_REST = (
    "    for name in ('norm', 'head'):\n        part = getattr(model, name)\n"
    "        setattr(model, name, " + _OUT.replace("MODULE", "part") + ")\n"
)
_COMPILE = "    for block in model.blocks:\n        block.compile(backend='aot_eager')\n"
_DEF, _END = START + "def in_place(model):\n", "    return model\n"

EXERCISE = Exercise(
    name="capstone_5",
    lesson="08_capstone",
    points=2,
    asks_for=("in_place",),
    check=Check(ask, probe, judge),
    hints=(
        "Print the keys of model.state_dict(): each _orig_mod in a key is a wrapper, at that place.",
        "A wrapper holds the module as _orig_mod. Put that where the wrapper was: outermost first, then each child of "
        "each module.",
        "For each module and each (name, child) of its named_children(): if the child has _orig_mod, "
        "setattr(module, name, child._orig_mod). Then compile each block in place.",
    ),
    known_mistakes=(
        KnownMistake(_DEF + _TOP + _COMPILE + _END, "_orig_mod"),  # only the outermost
        KnownMistake(_DEF + _BLOCKS + _COMPILE + _END, "_orig_mod"),  # not the outermost
        KnownMistake(_DEF + _TOP + _BLOCKS + _REST + _END, "not compiled"),
        KnownMistake(_DEF + _COMPILE.replace("model.blocks", "[model]") + _END, "_orig_mod"),
        KnownMistake(  # copies
            START + "import copy\ndef in_place(model):\n" + _TOP + _BLOCKS + _REST
            + "    model = copy.deepcopy(model)\n" + _COMPILE + _END,
            "other parameter objects",
        ),
        KnownMistake(  # only the keys are cleaned
            _DEF + "    plain = model.state_dict\n    model.state_dict = lambda: {key.replace('_orig_mod.', ''): value "
            "for key, value in plain().items()}\n" + _END,
            "still holds a wrapper",
        ),
        KnownMistake(_DEF + _TOP + _BLOCKS + _REST + _COMPILE, "returned None"),
        KnownMistake(_DEF + _TOP + _BLOCKS + _REST + _COMPILE.replace("aot_eager", "eager") + _END, "nothing of it"),
        KnownMistake(_DEF + _TOP + _BLOCKS + _REST + "    model.head.compile(backend='aot_eager')\n" + _END, LABEL),
    ),
    alternatives=(
        _DEF + _TOP + _BLOCKS + _REST + _COMPILE + _END,
        _DEF + _TOP + """    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if hasattr(child, "_orig_mod"):
                setattr(parent, name, child._orig_mod)
""" + _COMPILE + _END,
        START + """
def in_place(model):
    def bare(module):
        module = getattr(module, "_orig_mod", module)
        for name, child in module._modules.items():
            module._modules[name] = bare(child)
        return module

    model = bare(model)
    model.compile(backend="aot_eager", fullgraph=True)
    return model
""",
    ),
)  # fmt: skip
