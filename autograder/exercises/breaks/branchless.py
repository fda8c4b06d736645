"""breaks_7: a branch for each row without any branch, judged on both sides of it."""

from __future__ import annotations

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.breaks.seen import calls_of, captured, no_break, no_stranger
from autograder.judging import graphs_made, same_numbers
from compilescope import observe

LABEL = "clip_rows"


def reference(x: torch.Tensor, limit: float) -> torch.Tensor:
    """X [rows, columns]; a row longer than `limit` is scaled down to that length."""
    rows = []
    for row in x:
        norm = row.norm()
        rows.append(row * (limit / norm) if norm > limit else row)
    return torch.stack(rows)


def ask(draw: Draw) -> Values:
    """X with rows on both sides of the limit and one of zeros; all of them above; all below. One shape."""
    rows, columns, limit = draw.size(4, 8), draw.size(3, 6), draw.number(1.0, 2.0)
    directions = [draw.tensor(rows, columns) for _ in range(3)]
    unit = [x / x.norm(dim=-1, keepdim=True) for x in directions]
    # Of the limit: 0 is a row of zeros, and with 2.6 no row is exactly as long as the limit, where the gradient jumps.
    spread = torch.linspace(0.0, 2.6, rows, device=unit[0].device).unsqueeze(-1)
    return {
        "limit": limit,
        "weights": draw.tensor(rows, columns),
        "inputs": {
            "mixed rows": unit[0] * spread * limit,
            "long rows": unit[1] * limit * 1.7,
            "short rows": unit[2] * limit * 0.6,
        },
    }


def probe(answer: Answer, asked: Values) -> Values:
    """For each input what the call compiled and returned, and the gradient of a weighted sum."""
    fast = captured(LABEL, answer.clip_rows)
    limit = torch.tensor(asked["limit"], device=asked["weights"].device)
    found = {}
    for name, x in asked["inputs"].items():
        leaf = x.clone().requires_grad_()
        run = observe(fast, leaf, limit)
        value = run.result
        if isinstance(value, torch.Tensor) and value.requires_grad:
            (value * asked["weights"]).sum().backward()
            value = value.detach()
        found[name] = {"run": run, "result": value, "gradient": leaf.grad}
    return found


def judge(asked: Values, found: Values) -> None:
    """Values and gradients on both sides and at a row of zeros, one graph for all inputs, and no cond in it."""
    for number, (name, x) in enumerate(asked["inputs"].items(), 1):
        label = f"{LABEL}({name}, limit)"
        one = found[name]
        leaf = x.double().requires_grad_()
        want = reference(leaf, asked["limit"])
        (gradient,) = torch.autograd.grad((want * asked["weights"].double()).sum(), leaf)
        same_numbers(label, one["result"], want.detach(), x.dtype)
        if number == 1:
            graphs_made(one["run"], label, 1)
            no_break(one["run"], label)
            no_stranger(one["run"], label)
            if any("cond" in target for target in calls_of(one["run"])):
                no_cond = "has a cond in its graph", "no branch is wanted here"
                raise NotYet(LABEL, *no_cond, "Use a number, not a choice.")
        elif one["run"].graphs:
            again = f"made {len(one['run'].graphs)} graphs more"
            raise NotYet(label, again, "one graph serves both sides", "Look at what depends on the values of x.")
        _same_gradient(f"The gradient of {label}", one["gradient"], gradient, x.dtype)


def _same_gradient(label: str, got: object, want: torch.Tensor, dtype: torch.dtype) -> None:
    """NotYet unless `got` equals `want`; NaN, the trap of this exercise, gets a sentence of its own."""
    if isinstance(got, torch.Tensor) and bool(got.isnan().any()):
        look = "Both sides are computed, also in backward: divide by nothing that can be zero."
        raise NotYet(label, "has NaN in it", "a row of zeros has the gradient of a row that stays as it is", look)
    same_numbers(label, got, want, dtype)


_START = "import torch\n"

EXERCISE = Exercise(
    name="breaks_7",
    lesson="03_graph_breaks",
    points=2,
    asks_for=("clip_rows",),
    check=Check(ask, probe, judge),
    hints=(
        "Write down the factor of a long row, and the factor of a short one. Both are numbers between 0 and 1.",
        "All norms at once: x.norm(dim=-1, keepdim=True), shape [rows, 1]. A factor that is 1 changes nothing.",
        "x * (limit / norms.clamp(min=…)) never divides by zero. limit / 0 is inf and gives a NaN gradient, also "
        "on the side that torch.where does not take: make the norm safe first, then divide.",
    ),
    known_mistakes=(
        KnownMistake(  # as it was
            _START
            + """
def clip_rows(x, limit):
    rows = []
    for row in x:
        norm = row.norm()
        rows.append(row * (limit / norm) if norm > limit else row)
    return torch.stack(rows)
""",
            "made 0 graphs",
        ),
        KnownMistake(  # one decision for all rows
            _START
            + """
def clip_rows(x, limit):
    norm = x.norm(dim=-1).max()
    return torch.where(norm > limit, x * (limit / norm), x)
""",
            "float64 result",
        ),
        KnownMistake(  # short rows are made longer
            _START
            + """
def clip_rows(x, limit):
    return x / x.norm(dim=-1, keepdim=True) * limit
""",
            "off by nan",
        ),
        KnownMistake(
            _START
            + """
def clip_rows(x, limit):
    norms = x.norm(dim=-1, keepdim=True).clamp(min=1e-6)
    return x * limit / norms
""",
            "mixed rows",
        ),
        KnownMistake(  # clamps elements, not rows
            _START + "\ndef clip_rows(x, limit):\n    return torch.minimum(x, limit)\n",
            "float64 result",
        ),
        KnownMistake(  # a branch on whether any row is long
            _START
            + """
def clip_rows(x, limit):
    norms = x.norm(dim=-1, keepdim=True)
    if (norms > limit).any():
        return x * (limit / norms.clamp(min=limit))
    return x
""",
            "GB0170",
        ),
        KnownMistake(  # right values, no gradient through the factor
            _START
            + """
def clip_rows(x, limit):
    norms = x.detach().norm(dim=-1, keepdim=True)
    return x * (limit / norms.clamp(min=limit))
""",
            "The gradient of",
        ),
        KnownMistake(  # right values; the factor of a row of zeros is inf before the clamp
            _START
            + """
def clip_rows(x, limit):
    norms = x.norm(dim=-1, keepdim=True)
    return x * (limit / norms).clamp(max=1)
""",
            "has NaN in it",
        ),
        KnownMistake(  # the same on the side that where does not take
            _START
            + """
def clip_rows(x, limit):
    norms = x.norm(dim=-1, keepdim=True)
    return torch.where(norms > limit, x * (limit / norms), x)
""",
            "has NaN in it",
        ),
        KnownMistake(  # the work hides in a custom operator
            _START
            + """
@torch.library.custom_op("hidden::clip_rows", mutates_args=())
def work(x: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
    return torch.stack([row * min(1.0, (limit / row.norm()).item()) for row in x])

@work.register_fake
def _(x, limit):
    return torch.empty_like(x)

def clip_rows(x, limit):
    return work(x, limit)
""",
            "clip_rows",
        ),
        KnownMistake(  # a branch after all
            _START
            + """
def clip_rows(x, limit):
    norms = x.norm(dim=-1, keepdim=True)
    return torch.cond(
        (norms > limit).any(), lambda x, n: x * (limit / n.clamp(min=limit)), lambda x, n: x.clone(), (x, norms)
    )
""",
            "has a cond",
        ),
        KnownMistake(
            _START
            + """
@torch.compiler.disable
def eager(x, limit):
    return torch.stack([r * (limit / r.norm()) if r.norm() > limit else r for r in x])

def clip_rows(x, limit):
    return eager(x, limit) * 1
""",
            "went back to Python",
        ),
    ),
    alternatives=(
        _START
        + """
def clip_rows(x, limit):
    norms = x.norm(dim=-1, keepdim=True)
    long = norms > limit
    return torch.where(long, x * (limit / torch.where(long, norms, 1)), x)
""",
        _START
        + """
def clip_rows(x, limit):
    return x * limit / torch.maximum(x.norm(dim=-1, keepdim=True), limit)
""",
        _START
        + """
def clip_rows(x, limit):
    def clip(row):
        norm = torch.linalg.vector_norm(row)
        return row * (limit / norm.clamp(min=limit))
    return torch.vmap(clip)(x)
""",
    ),
)
