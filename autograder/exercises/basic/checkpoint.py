"""basic_3: a checkpoint loader that survives every wrapping."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from autograder.exercise import Answer, Draw, Exercise, KnownMistake, NotYet
from autograder.judging import called


class Block(nn.Module):
    """A residual layer, [rows, width] → [rows, width]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows in, rows out."""
        out: torch.Tensor = x + self.linear(self.norm(x)).relu()
        return out


class Tower(nn.Module):
    """Blocks and a head, [rows, width] → [rows]."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows in, one number a row out."""
        for block in self.blocks:
            x = block(x)
        out: torch.Tensor = self.head(x).squeeze(-1)
        return out


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


def check(answer: Answer, draw: Draw) -> None:
    """Every wrapping saved, every wrapping loaded; a checkpoint that lacks a weight raises."""
    width, depth = draw.size(3, 9), draw.size(2, 4)
    for saved, save in WRAPPINGS.items():
        for loaded, load in WRAPPINGS.items():
            _survives(answer, (width, depth), (saved, save), (loaded, load))
    _is_strict(answer, (width, depth), draw)


def _survives(
    answer: Answer,
    size: tuple[int, int],
    saved: tuple[str, Callable[[Tower], nn.Module]],
    loaded: tuple[str, Callable[[Tower], nn.Module]],
) -> None:
    source, target = Tower(*size), Tower(*size)
    # Backwards, so that matching by position shows.
    state = dict(reversed(saved[1](source).state_dict().items()))
    keys = list(state)
    inner = dict(target.named_parameters())
    model = loaded[1](target)
    own = list(model.state_dict())
    label = f"Saved from {saved[0]}, loaded into {loaded[0]}: load_checkpoint"
    try:
        called(label, answer.load_checkpoint, model, state)
    except (RuntimeError, KeyError) as error:
        raised = f"raised {type(error).__name__}", "every weight has its place"
        raise NotYet(label, *raised, "Compare the keys of both state dicts.") from error
    if list(state) != keys:
        raise NotYet(label, "changed the checkpoint", "state stays as it is", "Look at pop and del.")
    if [id(value) for value in target.parameters()] != [id(value) for value in inner.values()]:
        raise NotYet(label, "replaced parameters", "they are filled", "Look at load_state_dict.")
    if list(model.state_dict()) != own:
        raise NotYet(label, "took wrappers off the model", "it stays compiled as it was", "Rename keys, not modules.")
    if {value.data_ptr() for value in target.parameters()} & {value.data_ptr() for value in state.values()}:
        raise NotYet(label, "made model and checkpoint share memory", "a copy is wanted", "Look at .data and assign=.")
    want = {key.replace("_orig_mod.", ""): value for key, value in source.state_dict().items()}
    for key, value in target.state_dict().items():
        if not torch.equal(value, want[key.replace("_orig_mod.", "")]):
            left = f"left {key} as it was", "every weight arrives"
            raise NotYet(label, *left, "Look at where _orig_mod. can stand, on both sides.")


def _is_strict(answer: Answer, size: tuple[int, int], draw: Draw) -> None:
    state = dict(Tower(*size).state_dict())
    missing = draw.choice(list(state))
    del state[missing]
    try:
        answer.load_checkpoint(Tower(*size), state)
    except Exception:
        return
    raise NotYet(
        f"load_checkpoint(model, a checkpoint without {missing})",
        "said nothing",
        "it must raise, because a weight is missing",
        "Look at strict=.",
    )


EXERCISE = Exercise(
    name="basic_3",
    lesson="01_basic_compile",
    points=2,
    asks_for=("load_checkpoint",),
    check=check,
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
