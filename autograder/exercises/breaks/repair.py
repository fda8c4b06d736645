"""breaks_8: the repair shop, four torch.cond that PyTorch refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.breaks.seen import BACKEND, calls_of
from autograder.judging import called, graphs_made, same_numbers
from compilescope import observe

NAMES = ("alias", "dtype", "outputs", "predicate")


def _alias(x: torch.Tensor) -> list[torch.Tensor]:
    return [x if x.sum() > 0 else -x]


def _dtype(x: torch.Tensor) -> list[torch.Tensor]:
    return [x * 2 if x.sum() > 0 else x * 3]


def _outputs(x: torch.Tensor) -> list[torch.Tensor]:
    return [x * 2, x.sum()] if x.sum() > 0 else [-x, torch.zeros((), dtype=x.dtype, device=x.device)]


def _predicate(x: torch.Tensor) -> list[torch.Tensor]:
    return [x * 2 if (x > 0).any() else x * 3]


REFERENCES: dict[str, Callable[[torch.Tensor], list[torch.Tensor]]] = dict(
    zip(NAMES, (_alias, _dtype, _outputs, _predicate), strict=True)
)


def ask(draw: Draw) -> Values:
    """Inputs: with a positive sum and a negative element; without a positive one, but a zero; with a sum of zero."""
    size = draw.size(5, 12)
    up = draw.tensor(size).abs() + 0.1
    place = draw.size(0, size - 1)
    up[place] = (up[place] - up.sum()) / 2
    down = -draw.tensor(size).abs() - 0.1
    down[draw.size(0, size - 1)] = 0
    half = [float(draw.size(1, 9)) for _ in range(size // 2)]  # whole numbers, so that no sum is rounded
    even = up.new_tensor([*half, *(-one for one in half), *[0.0] * (size % 2)])
    return {"a positive sum": up, "negative elements": down, "a sum of zero": even}


def probe(answer: Answer, asked: Values) -> Values:
    """For each repaired function and input: what a fullgraph compile did, and what came out, or what was raised."""
    repaired = called("repaired()", answer.repaired)
    if not isinstance(repaired, dict) or not all(callable(repaired.get(name)) for name in NAMES):
        kind = f"gave {type(repaired).__name__}" if not isinstance(repaired, dict) else "lacks one of the four"
        raise NotYet("repaired()", kind, f"functions named {', '.join(NAMES)} are wanted", "Look at your return line.")
    found: Values = {}
    for name in NAMES:
        torch.compiler.reset()
        fast = torch.compile(repaired[name], backend=BACKEND, fullgraph=True)  # the rules of cond are Dynamo's
        found[name] = {kind: _one(fast, x) for kind, x in asked.items()}
    return found


def _one(fast: Any, x: torch.Tensor) -> Values:
    with observe() as run:
        try:
            result, error = fast(x), ""
        except Exception as raised:
            result, error = None, type(raised).__name__
    values = list(result) if isinstance(result, (tuple, list)) else [result]
    return {"run": run, "values": values, "error": error}


def judge(asked: Values, found: Values) -> None:
    """Each repaired function: numbers on both sides, one graph for both, a cond with two branches in it."""
    for name in NAMES:
        for number, (kind, x) in enumerate(asked.items()):
            one = found[name][kind]
            label = f'repaired()["{name}"] of x with {kind}'
            if one["error"]:
                _refused(label, one)
            want = REFERENCES[name](x.double())
            if len(one["values"]) != len(want):
                count = f"gave {len(one['values'])} values"
                raise NotYet(label, count, f"{len(want)} are wanted", "Look at what both branches return.")
            for value, wanted in zip(one["values"], want, strict=True):
                same_numbers(label, value, wanted, x.dtype)
            if name == "dtype" and one["values"][0].dtype != torch.float64:
                got = f"is {one['values'][0].dtype}"
                raise NotYet(label, got, "float64 is wanted on both sides", "Look at .double() in both branches.")
            graphs_made(one["run"], label, 0 if number else 1)
        targets = calls_of(next(iter(found[name].values()))["run"])
        if not any("cond" in target for target in targets):
            raise NotYet(f'repaired()["{name}"]', "has no cond in its graph", "keep it", "Mend its branches.")


def _refused(label: str, one: Values) -> None:
    gb = next((stop.gb for stop in one["run"].breaks if stop.gb), "")
    look = f"Look up {gb}, and the rule of its kind." if gb else "Look at the rule of its kind."
    raise NotYet(label, f"still raised {one['error']}", "torch.cond must accept it", look)


_START = "import torch\n"
_CHOOSE = """
def repaired():
    def choose(predicate, yes, no):
        return lambda x: torch.cond(predicate(x), yes, no, (x,))

    positive = lambda x: x.sum() > 0
    return {
        "alias": choose(positive, lambda x: x.clone(), lambda x: -x),
        "dtype": choose(positive, lambda x: x.double() * 2, lambda x: x.double() * 3),
        "outputs": choose(positive, lambda x: (x * 2, x.sum()), lambda x: (-x, torch.zeros_like(x.sum()))),
        "predicate": choose(lambda x: (x > 0).any(), lambda x: x * 2, lambda x: x * 3),
    }
"""

EXERCISE = Exercise(
    name="breaks_8",
    lesson="03_graph_breaks",
    points=3,
    asks_for=("repaired",),
    check=Check(ask, probe, judge),
    hints=(
        "Each name says which rule is broken. The table above shows what PyTorch raises, and its number.",
        "A branch returns new tensors; both return the same structure and dtype; the predicate is one element.",
        "x.clone(); .double() in both; a pair from both, with torch.zeros_like(x.sum()); (x > 0).any().",
    ),
    known_mistakes=(
        KnownMistake(_START + _CHOOSE.replace("x.clone()", "x"), "GB0040"),
        KnownMistake(_START + _CHOOSE.replace("x.clone()", "x.view(-1)"), "GB0040"),
        KnownMistake(_START + _CHOOSE.replace("x.double() * 3", "x * 3"), '["dtype"] of x with a positive sum still'),
        KnownMistake(_START + _CHOOSE.replace("x.double()", "x.float()"), "float64 is wanted"),
        KnownMistake(_START + _CHOOSE.replace("(-x, torch.zeros_like(x.sum()))", "(-x,)"), "GB0313"),
        KnownMistake(  # the second value is given up
            _START + _CHOOSE.replace("(-x, torch.zeros_like(x.sum()))", "-x").replace("(x * 2, x.sum())", "x * 2"),
            "2 are wanted",
        ),
        KnownMistake(
            _START + _CHOOSE.replace("(x > 0).any()", "x > 0"), '["predicate"] of x with a positive sum still'
        ),
        KnownMistake(_START + _CHOOSE.replace("(x > 0).any()", "(x > 0).all()"), '["predicate"]'),
        KnownMistake(  # another way to choose
            _START + _CHOOSE.replace("torch.cond(predicate(x), yes, no, (x,))", "yes(x) if predicate(x) else no(x)"),
            "still raised Unsupported",
        ),
        KnownMistake(
            _START
            + _CHOOSE.replace(
                '"alias": choose(positive, lambda x: x.clone(), lambda x: -x)',
                '"alias": lambda x: torch.where(positive(x), x, -x)',
            ),
            "has no cond",
        ),
        KnownMistake(_START + "\ndef repaired():\n    return [1, 2, 3, 4]\n", "gave list"),
        KnownMistake(  # always the same side
            _START + _CHOOSE.replace("positive = lambda x: x.sum() > 0", "positive = lambda x: x.sum() < 1e9"),
            "x with negative elements",
        ),
    ),
    alternatives=(
        _START
        + """
def alias(x):
    return torch.cond(x.sum() > 0, lambda v: v + 0, torch.neg, (x,))

def dtype(x):
    return torch.cond(x.sum() > 0, lambda v: v * 2, lambda v: v * 3, (x.double(),))

def outputs(x):
    total = x.sum()
    def no(x, total):
        return -x, total.new_zeros(())
    return torch.cond(total > 0, lambda x, total: (x * 2, total.clone()), no, (x, total))

def predicate(x):
    return torch.cond(x.max() > 0, lambda v: v * 2, lambda v: v * 3, (x,))

def repaired():
    return {f.__name__: f for f in (alias, dtype, outputs, predicate)}
""",
        _START
        + """
def repaired():
    def outputs(x):
        def yes():
            return x * 2, x.sum()

        def no():
            return -x, torch.zeros((), dtype=x.dtype, device=x.device)

        return torch.cond(x.sum() > 0, yes, no)

    return {
        "alias": lambda x: torch.cond(x.sum() > 0, lambda: x.clone(), lambda: -x),
        "dtype": lambda x: torch.cond(x.sum() > 0, lambda: x * 2, lambda: x * 3).double(),
        "outputs": outputs,
        "predicate": lambda x: torch.cond(torch.any(x > 0), lambda: x * 2, lambda: x * 3),
    }
""",
    ),
)
