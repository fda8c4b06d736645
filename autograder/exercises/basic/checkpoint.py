"""basic_3: a checkpoint loader that survives every wrapping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.residual import Tower, tower
from autograder.judging import called


def _plain(model: Tower) -> nn.Module:
    return model


def _in_place(model: Tower) -> nn.Module:
    model.compile(backend="eager")
    return model


def _wrapped(model: Tower) -> nn.Module:
    return torch.compile(model, backend="eager")  # type: ignore[return-value]


def _blocks_wrapped(model: Tower) -> nn.Module:
    for i, block in enumerate(model.blocks):
        model.blocks[i] = torch.compile(block, backend="eager")  # type: ignore[assignment]
    return model


def _both(model: Tower) -> nn.Module:
    return _wrapped(_blocks_wrapped(model))  # type: ignore[arg-type]


WRAPPINGS: dict[str, Callable[[Tower], nn.Module]] = {
    "the plain model": _plain,
    "model.compile()": _in_place,
    "torch.compile(model)": _wrapped,
    "a model with torch.compile(block)": _blocks_wrapped,
    "torch.compile(model) with torch.compile(block)": _both,
}


WAYS = tuple(WRAPPINGS)
PLACES = {"without": "without", "misspelled": "that misspells"}


def numbered(asked: Values, number: int) -> Tower:
    """The tower of that number, on the CPU."""
    return tower(asked["width"], asked["depth"], asked["seed"] + number)


def ask(draw: Draw) -> Values:
    """A device, a size, a seed of weights, an order of the saved keys, and three ways to damage a checkpoint."""
    depth = draw.size(2, 4)
    keys = list(Tower(3, depth).state_dict())
    some = sorted(keys, key=lambda _: draw.size(0, 10**6))
    return {
        "device": draw.device,
        "width": draw.size(3, 9),
        "depth": depth,
        "seed": draw.size(0, 10**6),
        # Any order, so that matching by position shows.
        "order": sorted(range(len(keys)), key=lambda _: draw.size(0, 10**6)),
        "damages": [["without", some[0]], ["without", *some[1:3]], ["misspelled", some[3]]],
    }


def probe(answer: Answer, asked: Values) -> Values:
    """What each pair of wrappings left in the model, and whether each damaged checkpoint raised."""
    load = answer.load_checkpoint
    pairs = [_loaded(load, asked, saved, loaded) for saved in range(len(WAYS)) for loaded in range(len(WAYS))]
    return {"pairs": pairs, "raised": [_raises(load, asked, damage) for damage in asked["damages"]]}


def _there(asked: Values, number: int) -> Tower:
    return numbered(asked, number).to(asked["device"])


def _loaded(load: Any, asked: Values, saved: int, loaded: int) -> Values:
    source, target = _there(asked, saved), _there(asked, -1 - loaded)
    there = list(WRAPPINGS[WAYS[saved]](source).state_dict().items())
    state = dict(there[place] for place in asked["order"])
    keys, inner = list(state), [id(value) for value in target.parameters()]
    model = WRAPPINGS[WAYS[loaded]](target)
    own = list(model.state_dict())
    try:
        called("load_checkpoint(model, state)", load, model, state)
    except (RuntimeError, KeyError) as error:
        return {"error": type(error).__name__}
    shared = {value.data_ptr() for value in target.parameters()} & {value.data_ptr() for value in state.values()}
    return {
        "error": "",
        "state changed": list(state) != keys,
        "replaced": [id(value) for value in target.parameters()] != inner,
        "unwrapped": list(model.state_dict()) != own,
        "shared": bool(shared),
        "weights": dict(target.state_dict()),
    }


def _raises(load: Any, asked: Values, damage: list[str]) -> bool:
    kind, *names = damage
    state = dict(_there(asked, 0).state_dict())
    for name in names:
        value = state.pop(name)
        if kind == "misspelled":
            state[f"{name}s"] = value
    try:
        load(_there(asked, 1), state)
    except Exception:
        return True
    return False


FAULTS = (
    ("state changed", "changed the checkpoint", "state stays as it is", "Look at pop and del."),
    ("replaced", "replaced parameters", "they are filled", "Look at load_state_dict."),
    ("unwrapped", "took wrappers off the model", "it stays compiled as it was", "Rename keys, not modules."),
    ("shared", "made model and checkpoint share memory", "a copy is wanted", "Look at .data and assign=."),
)


def judge(asked: Values, found: Values) -> None:
    """Every wrapping saved, every wrapping loaded, in any order; a checkpoint that lacks a weight raises."""
    for number, one in enumerate(found["pairs"]):
        _survives(asked, *divmod(number, len(WAYS)), one)
    for (kind, *names), raised in zip(asked["damages"], found["raised"], strict=True):
        if raised is not True:
            label = f"load_checkpoint(model, a checkpoint {PLACES[kind]} {' and '.join(names)})"
            raise NotYet(label, "said nothing", "it must raise, because a weight is missing", "Look at strict=.")
    if len(found["pairs"]) != len(WAYS) ** 2:
        raise NotYet("load_checkpoint", "was not tried everywhere", "every pair is", "Check again.")


def _survives(asked: Values, saved: int, loaded: int, one: Values) -> None:
    label = f"Saved from {WAYS[saved]}, loaded into {WAYS[loaded]}: load_checkpoint"
    if one["error"]:
        raised = f"raised {one['error']}", "every weight has its place"
        raise NotYet(label, *raised, "Compare the keys of both state dicts.")
    for fault, got, wanted, look in FAULTS:
        if one[fault] is not False:
            raise NotYet(label, got, wanted, look)
    weights = {key.replace("_orig_mod.", ""): value for key, value in one["weights"].items()}
    for key, value in numbered(asked, saved).state_dict().items():
        arrived = weights.get(key)
        if not isinstance(arrived, torch.Tensor) or not torch.equal(arrived.cpu(), value):
            left = f"left {key} as it was", "every weight arrives"
            raise NotYet(label, *left, "Look at where _orig_mod. can stand, on both sides.")


EXERCISE = Exercise(
    name="basic_3",
    lesson="01_basic_compile",
    points=2,
    asks_for=("load_checkpoint",),
    check=Check(ask, probe, judge),
    hints=(
        "Print the keys of state_dict() for the model, for torch.compile(model), and with one block wrapped.",
        "_orig_mod. stands wherever torch.compile(module) made a wrapper: in front, in the middle, or twice. "
        "Saved keys and the model's keys may differ in it.",
        "Take _orig_mod. out of the saved keys. Then give each key of model.state_dict() the saved value whose cleaned "
        "name is the same, and call load_state_dict.",
    ),
    known_mistakes=(
        KnownMistake(
            "def load_checkpoint(model, state):\n    model.load_state_dict(state)\n",
            "raised RuntimeError; every weight",
        ),
        KnownMistake(
            "def load_checkpoint(model, state):\n    model.load_state_dict(state, strict=False)\n",
            "every weight arrives",
        ),
        KnownMistake(  # only in front
            """
def load_checkpoint(model, state):
    model = getattr(model, "_orig_mod", model)
    model.load_state_dict({key.removeprefix("_orig_mod."): value for key, value in state.items()})
""",
            "raised RuntimeError; every weight",
        ),
        KnownMistake(  # cleans the checkpoint, forgets that the model may be wrapped
            """
def load_checkpoint(model, state):
    model.load_state_dict({key.replace("_orig_mod.", ""): value for key, value in state.items()})
""",
            "raised RuntimeError; every weight",
        ),
        KnownMistake(  # right names, silent about what is missing
            """
def load_checkpoint(model, state):
    clean = {key.replace("_orig_mod.", ""): value for key, value in state.items()}
    for key, value in model.state_dict().items():
        if key.replace("_orig_mod.", "") in clean:
            value.copy_(clean[key.replace("_orig_mod.", "")])
""",
            "said nothing",
        ),
        KnownMistake(  # eats the checkpoint
            """
def load_checkpoint(model, state):
    for key in list(state):
        state[key.replace("_orig_mod.", "")] = state.pop(key)
    model.load_state_dict({key: state[key.replace("_orig_mod.", "")] for key in model.state_dict()})
""",
            "changed the checkpoint",
        ),
        KnownMistake(  # counts the keys instead of comparing them
            """
def load_checkpoint(model, state):
    if len(state) % 2:
        raise KeyError("a weight is missing")
    clean = {key.replace("_orig_mod.", ""): value for key, value in state.items()}
    names = {key: key.replace("_orig_mod.", "") for key in model.state_dict()}
    model.load_state_dict({key: clean[name] for key, name in names.items() if name in clean}, strict=False)
""",
            "said nothing",
        ),
        KnownMistake(  # the number of keys is right, a name is not
            """
def load_checkpoint(model, state):
    if len(state) != len(model.state_dict()):
        raise KeyError("a weight is missing")
    clean = {key.replace("_orig_mod.", ""): value for key, value in state.items()}
    names = {key: key.replace("_orig_mod.", "") for key in model.state_dict()}
    model.load_state_dict({key: clean[name] for key, name in names.items() if name in clean}, strict=False)
""",
            "misspells",
        ),
        KnownMistake(  # by position, from whichever end fits
            """
def load_checkpoint(model, state):
    values = list(state.values())
    if values[0].shape != next(iter(model.state_dict().values())).shape:
        values.reverse()
    model.load_state_dict(dict(zip(model.state_dict(), values, strict=True)))
""",
            "load_checkpoint",
        ),
        KnownMistake(  # every failure hidden
            """
def load_checkpoint(model, state):
    try:
        model.load_state_dict(state)
    except RuntimeError:
        pass
""",
            "every weight arrives",
        ),
    ),
    alternatives=(
        """
def load_checkpoint(model, state):
    clean = {key.replace("_orig_mod.", ""): value for key, value in state.items()}
    model.load_state_dict({key: clean[key.replace("_orig_mod.", "")] for key in model.state_dict()})
""",
        """
import torch

def bare(key):
    return tuple(part for part in key.split(".") if part != "_orig_mod")

def load_checkpoint(model, state):
    values = {bare(key): value for key, value in state.items()}
    with torch.no_grad():
        for key, tensor in model.state_dict().items():
            tensor.copy_(values.pop(bare(key)))
    if values:
        raise KeyError(f"left over: {sorted(values)}")
""",
        """
def load_checkpoint(model, state):
    names = {key.replace("_orig_mod.", ""): key for key in model.state_dict()}
    renamed = {names.get(key.replace("_orig_mod.", ""), key): value for key, value in state.items()}
    model.load_state_dict(renamed, strict=True)
""",
    ),
)
