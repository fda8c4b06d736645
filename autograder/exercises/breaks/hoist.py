"""breaks_1: three graphs to one, with the same result on both sides of the branch."""

from __future__ import annotations

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, Values
from autograder.exercises.breaks.seen import call_of, captured, one_graph
from autograder.judging import same_numbers

LABEL = "standardize"


def reference(x: torch.Tensor) -> torch.Tensor:
    """Rows [rows, columns] without NaN, centered, scaled down to at most 1 where they are larger."""
    x = torch.where(x.isnan(), torch.zeros_like(x), x)
    x = x - x.mean(0)
    return x / x.abs().max().clamp(min=1)


def ask(draw: Draw) -> Values:
    """Three inputs: large with NaN, large without, and small."""
    rows, columns = draw.size(7, 12), draw.size(3, 8)
    dtype = draw.choice((torch.float32, torch.float64))
    large, holes = draw.tensor(rows, columns, dtype=dtype) * 5, draw.tensor(rows, columns, dtype=dtype) * 5
    holes[draw.size(0, rows - 1), draw.size(0, columns - 1)] = float("nan")
    small = draw.tensor(rows, columns, dtype=dtype) * 0.05
    return {"x with NaN": holes, "x": large, "small x": small}


def probe(answer: Answer, asked: Values) -> Values:
    """One call for each input; they have one shape, so that a graph of the first serves the others."""
    fast = captured(LABEL, answer.standardize)
    return {name: call_of(fast, x) for name, x in asked.items()}


def judge(asked: Values, found: Values) -> None:
    """Numbers as in float64, in one graph that holds everything."""
    for number, (name, x) in enumerate(asked.items()):
        label = f"{LABEL}({name})"
        same_numbers(label, found[name]["result"], reference(x.double()), x.dtype)
        one_graph(found[name], label, again=number > 0)


_START = "import torch\n"

EXERCISE = Exercise(
    name="breaks_1",
    lesson="03_graph_breaks",
    points=2,
    asks_for=("standardize",),
    check=Check(ask, probe, judge),
    hints=(
        "show(first_call(...)) names the two lines where Dynamo stops, and why at each of them.",
        "A branch that changes nothing when its condition is false needs no if. A number that stays a tensor "
        "needs no .item().",
        "Call torch.where without the if. Then x.abs().max().clamp(min=…) in place of .item() and max.",
    ),
    known_mistakes=(
        KnownMistake(  # as it was
            _START
            + """
def standardize(x):
    if x.isnan().any():
        x = torch.where(x.isnan(), 0, x)
    x = x - x.mean(0)
    largest = x.abs().max().item()
    return x / max(largest, 1.0)
""",
            "made 3 graphs",
        ),
        KnownMistake(  # one of two breaks is left
            _START
            + """
def standardize(x):
    x = torch.where(x.isnan(), 0, x)
    x = x - x.mean(0)
    largest = x.abs().max().item()
    return x / max(largest, 1.0)
""",
            "made 2 graphs",
        ),
        KnownMistake(  # dropped what broke
            _START
            + """
def standardize(x):
    x = x - x.mean(0)
    return x / x.abs().max().clamp(min=1)
""",
            "float64 result",
        ),
        KnownMistake(  # small inputs are blown up
            _START
            + """
def standardize(x):
    x = torch.where(x.isnan(), 0, x)
    x = x - x.mean(0)
    return x / x.abs().max()
""",
            "standardize(small x)",
        ),
        KnownMistake(  # a graph for show, the work in Python
            _START
            + """
@torch.compiler.disable
def work(x):
    if x.isnan().any():
        x = torch.where(x.isnan(), 0, x)
    x = x - x.mean(0)
    return x / max(x.abs().max().item(), 1.0)

def standardize(x):
    return work(x) * 1
""",
            "no break is wanted",
        ),
        KnownMistake(  # the work hides in a custom operator
            _START
            + """
@torch.library.custom_op("hidden::standardize", mutates_args=())
def work(x: torch.Tensor) -> torch.Tensor:
    x = torch.where(x.isnan(), 0, x)
    x = x - x.mean(0)
    return x / x.abs().max().clamp(min=1)

@work.register_fake
def _(x):
    return torch.empty_like(x)

def standardize(x):
    return work(x)
""",
            "hides work in",
        ),
        KnownMistake(  # written for six rows
            _START
            + """
def standardize(x):
    x = torch.where(x.isnan(), 0, x)
    x = x - x[:6].sum(0) / 6
    return x / x.abs().max().clamp(min=1)
""",
            "float64 result",
        ),
        KnownMistake(  # a try hides the break, and gives the frame up
            _START
            + """
def standardize(x):
    try:
        x = torch.where(x.isnan(), 0, x)
        x = x - x.mean(0)
        return x / max(x.abs().max().item(), 1.0)
    except Exception:
        return x
""",
            "made 0 graphs",
        ),
    ),
    alternatives=(
        _START
        + """
def standardize(x):
    x = torch.where(x.isnan(), 0, x)
    x = x - x.mean(0)
    return x / max(x.abs().max(), 1.0)
""",
        _START
        + """
def standardize(x):
    x = x.nan_to_num(nan=0.0)
    x = x - x.mean(0)
    largest = x.abs().max()
    return x / torch.where(largest > 1, largest, torch.ones_like(largest))
""",
        _START
        + """
def standardize(x):
    holes = x.isnan()
    x = torch.cond(holes.any(), lambda x: x.masked_fill(x.isnan(), 0), lambda x: x.clone(), (x,))
    x = x - x.mean(0)
    return x / x.abs().amax().clamp_min(1.0)
""",
        _START
        + """
@torch.compile(backend="aot_eager", fullgraph=True)
def standardize(x):
    x = x.masked_fill(x.isnan(), 0.0)
    centered = x - x.mean(dim=0, keepdim=True)
    return centered / torch.maximum(centered.abs().max(), torch.ones((), dtype=x.dtype))
""",
    ),
)
