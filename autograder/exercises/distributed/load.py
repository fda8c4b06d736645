"""dist_4: a checkpoint that goes from any wrapper into any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.distributed.on_two import met, ranks_of, whole
from autograder.judging import called

LABEL = "load(model, state)"


class Scorer(nn.Module):
    """Holds a module that is called like DDP's own, so that not each ``module.`` is a wrapper's."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.module, self.out = nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows in, one column out."""
        out: torch.Tensor = self.out(torch.relu(self.module(x)))
        return out


def _in_place(model: nn.Module) -> nn.Module:
    model.compile(backend="aot_eager")
    return model


def _compiled(model: nn.Module) -> Any:
    return torch.compile(model, backend="aot_eager")


def _sharded(model: Any) -> nn.Module:
    model.module.compile(backend="aot_eager")
    fully_shard(model.module)
    fully_shard(model)
    whole_model: nn.Module = model
    return whole_model


WRAPPINGS: dict[str, Callable[[nn.Module], Any]] = {
    "compile in place": _in_place,
    "torch.compile": _compiled,
    "DDP of torch.compile": lambda model: DistributedDataParallel(_compiled(model)),
    "torch.compile of DDP": lambda model: _compiled(DistributedDataParallel(model)),
    "FSDP2": _sharded,
}


def ask(draw: Draw) -> Values:
    """Two seeds, and for each of all wrappings as a target one as the source."""
    sources = [name for name in WRAPPINGS if name != "FSDP2"]
    pairs = [[draw.choice(sources), target] for target in WRAPPINGS]
    pairs[0][0] = draw.choice([name for name in sources if "DDP" in name])  # a prefix to take off, and a weight missing
    pairs[3][0], pairs[4][0] = "torch.compile of DDP", "DDP of torch.compile"
    return {"width": draw.size(4, 9), "seeds": [draw.size(0, 10**6), draw.size(0, 10**6)], "pairs": pairs}


def scorer(width: int, seed: int) -> Scorer:
    """The same weights whoever builds it."""
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.manual_seed(seed)
        return Scorer(width)


def probe(answer: Answer, asked: Values) -> Values:
    """Every pair on two ranks, and one state without a weight."""
    if not callable(answer.load):
        called(LABEL, answer.load)
    return ranks_of(LABEL, _loaded, answer.load, asked)


def _loaded(load: Callable[[Any, Any], Any], asked: Values) -> list[Values]:
    here, found = torch.get_default_device(), []
    for source, target in asked["pairs"]:
        model = scorer(asked["width"], asked["seeds"][1]).to(here)
        wrapped = WRAPPINGS[target](model)
        state = WRAPPINGS[source](scorer(asked["width"], asked["seeds"][0]).to(here)).state_dict()
        kept = list(state)
        load(wrapped, state)
        weights = {name.replace("_orig_mod.", ""): whole(value) for name, value in model.named_parameters()}
        found.append({"weights": weights, "kept": kept == list(state), "raised": ""})
        state.popitem()
        if not found[1:]:  # the first pair tells
            found[-1]["raised"] = _raised(load, wrapped, state)
    return found


def _raised(load: Callable[[Any, Any], Any], model: Any, state: Any) -> str:
    try:
        load(model, state)
    except Exception as error:
        return type(error).__name__
    return ""


def judge(asked: Values, found: Values) -> str:
    """The weights of the source in each target on both ranks; a missing one raises; the state stays as it was."""
    want = scorer(asked["width"], asked["seeds"][0]).state_dict()
    for rank, pairs in enumerate(found["results"]):
        for (source, target), one in zip(asked["pairs"], pairs, strict=True):
            label = f"load from {source} into {target}"
            for name, value in want.items():
                got = one["weights"].get(name)
                if not isinstance(got, torch.Tensor) or got.shape != value.shape or not torch.equal(got.cpu(), value):
                    other = f"left {name} as it was on rank {rank}"
                    raise NotYet(label, other, "every weight is to be copied", "Look at both lists of keys.")
            if not one["kept"]:
                raise NotYet(label, "changed the state it was given", "it stays as it is", "Look for pop and del.")
        if not pairs[0]["raised"]:
            quiet = "said nothing about a missing weight"
            raise NotYet(LABEL, quiet, "that must raise", "Look for strict=False, and at keys that are skipped.")
    return f"{len(asked['pairs'])} pairs of wrappers, FSDP2 among them: {met(found)}"


_START = """
import torch
from torch.nn.parallel import DistributedDataParallel
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict

FULL = StateDictOptions(full_state_dict=True)
"""
_GOOD = """
def load(model, state):
    state = {key.replace("_orig_mod.", ""): value for key, value in state.items()}
    wanted = set(get_model_state_dict(model))
    if not wanted <= set(state):
        state = {key.removeprefix("module."): value for key, value in state.items()}
    if missing := wanted - set(state):
        raise KeyError(f"missing: {sorted(missing)}")
    set_model_state_dict(model, state, options=FULL)
"""

EXERCISE = Exercise(
    name="dist_4",
    lesson="06_distributed",
    points=3,
    asks_for=("load",),
    check=Check(ask, probe, judge),
    hints=(
        "Print the keys of both sides. Which parts come from a wrapper, and can such a part be yours as well?",
        "Clean the keys of the state: _orig_mod. anywhere, and one module. in front if the model has no such name. "
        "set_model_state_dict knows the wrappers of the model.",
        "wanted = get_model_state_dict(model) has clean keys. If one is not in the cleaned state, take one "
        "module. off each, and raise if one still lacks. Then set_model_state_dict(model, state, options=…).",
    ),
    known_mistakes=(
        KnownMistake("def load(model, state):\n    model.load_state_dict(state)\n", "raised"),
        KnownMistake("def load(model, state):\n    model.load_state_dict(state, strict=False)\n", "as it was"),
        KnownMistake(  # every module. goes
            _START
            + _GOOD.replace('key.replace("_orig_mod.", "")', 'key.replace("_orig_mod.", "").replace("module.", "")'),
            "raised",
        ),
        KnownMistake(_START + _GOOD.replace('key.replace("_orig_mod.", "")', "key"), "raised"),
        KnownMistake(  # a missing weight is none
            _START + _GOOD.replace("if missing := wanted - set(state)", "if missing := ()"),
            "missing weight",
        ),
        KnownMistake(  # eats what it is given
            _START + "def load(model, state):\n    for key in list(state):\n"
            "        state[key.replace('_orig_mod.', '')] = state.pop(key)\n"
            "    wanted = get_model_state_dict(model)\n    if not set(wanted) <= set(state):\n"
            "        for key in list(state):\n            state[key.removeprefix('module.')] = state.pop(key)\n"
            "    set_model_state_dict(model, state, options=FULL)\n",
            "changed the state",
        ),
        KnownMistake("def load(model, state):\n    pass\n", "as it was"),
        KnownMistake(  # by position into whatever is there, shards included
            "import torch\n\ndef load(model, state):\n    with torch.no_grad():\n"
            "        for mine, other in zip(model.parameters(), state.values()):\n            mine.copy_(other)\n",
            "",
        ),
    ),
    alternatives=(
        _START + _GOOD,
        _START
        + """
def load(model, state):
    def plain(key):
        return key.replace("_orig_mod.", "")

    names = set(get_model_state_dict(model))
    clean = {plain(key): value for key, value in state.items()}
    for front in ("", "module."):
        if all(front + name in clean for name in names):
            return set_model_state_dict(model, {name: clean[front + name] for name in names}, options=FULL)
    raise KeyError(f"missing: {sorted(names - set(clean))}")
""",
        """
import torch
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

def load(model, state):
    while isinstance(model, DistributedDataParallel) or hasattr(model, "_orig_mod"):
        model = model.module if isinstance(model, DistributedDataParallel) else model._orig_mod
    state = {key.replace("_orig_mod.", ""): value for key, value in state.items()}
    names = list(model.state_dict())
    if not set(names) <= set(state):
        state = {key.removeprefix("module."): value for key, value in state.items()}
    with torch.no_grad():
        for name, mine in model.state_dict().items():
            full = state[name]
            if isinstance(mine, DTensor):
                full = distribute_tensor(full, mine.device_mesh, mine.placements)
            mine.copy_(full)
""",
    ),
)
