"""breaks_9: a loop whose length depends on the values, in one graph."""

from __future__ import annotations

from typing import Any

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.breaks.seen import calls_of, captured, no_break, no_stranger
from autograder.judging import exact, graphs_made, same_numbers
from compilescope import observe

LABEL = "root(a)"
TOLERANCE = 1e-3


def reference(a: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Newton's square root of each element of `a`, and how many steps it took until no square is off by more."""
    x, steps = torch.ones_like(a), 0
    while (x * x - a).abs().max() > TOLERANCE:
        x, steps = (x + a / x) / 2, steps + 1
    return x, steps


def ask(draw: Draw) -> Values:
    """Two inputs of one shape that need a different number of steps, in float64 so that rounding decides nothing."""
    size = draw.size(3, 7)
    near = 1 + 0.2 * draw.tensor(size, dtype=torch.float64).tanh()
    return {"calls": [near, near * draw.number(300.0, 500.0)]}


def probe(answer: Answer, asked: Values) -> Values:
    """What each call compiled and returned."""
    fast = captured(LABEL, answer.root, "aot_eager")  # AOTAutograd refuses aliases in a loop that Dynamo captures
    calls = []
    for a in asked["calls"]:
        result: Any = None
        error = ""
        with observe() as run:
            try:
                result = fast(a)
            except RuntimeError as raised:  # what torch's loops raise of a body that does not fit
                error = type(raised).__name__
        result = list(result) if isinstance(result, (tuple, list)) else result
        calls.append({"run": run, "result": result, "error": error})
    return {"calls": calls}


def judge(asked: Values, found: Values) -> None:
    """Roots and number of steps of both calls, out of one graph with a while_loop."""
    for number, (a, one) in enumerate(zip(asked["calls"], found["calls"], strict=True), 1):
        label = f"Call {number} of {LABEL}"
        want, steps = reference(exact(a))
        values = one["result"]
        if one["error"]:
            raised = f"raised {one['error']}", "one bool and the carried tensors are wanted of the two functions"
            raise NotYet(label, *raised, "Look at what each of them returns.")
        if not isinstance(values, list) or len(values) != 2:
            kind = type(values).__name__
            raise NotYet(label, f"returned a {kind}", "x and steps are wanted", "Look at your return line.")
        same_numbers(f"x of {label}", values[0], want)
        counter = values[1].cpu() if isinstance(values[1], torch.Tensor) else values[1]
        if not isinstance(counter, torch.Tensor) or int(counter) != steps:
            wants = f"a tensor with {steps} is wanted"
            raise NotYet(label, f"counted {counter} steps", wants, "Look at your counter.")
        if number == 1:
            graphs_made(one["run"], label, 1)
            no_break(one["run"], label)
            no_stranger(one["run"], label)
        elif one["run"].graphs:
            again = f"made {len(one['run'].graphs)} graphs more"
            raise NotYet(label, again, "one graph serves any number of steps", "Look at what fixes the number.")
    if not any("while_loop" in target for target in calls_of(found["calls"][0]["run"])):
        raise NotYet(LABEL, "has no loop in its graph", "a while_loop is wanted", "Look at the loop of the case.")


_START = "import torch\nfrom torch._higher_order_ops import while_loop\n"
_LOOP = """
def root(a):
    def off(x, steps):
        return (x * x - a).abs().max() > 1e-3

    def newton(x, steps):
        return (x + a / x) / 2, steps + 1

    return while_loop(off, newton, (torch.ones_like(a), torch.zeros((), dtype=torch.int64, device=a.device)))
"""

EXERCISE = Exercise(
    name="breaks_9",
    lesson="03_graph_breaks",
    points=2,
    asks_for=("root",),
    check=Check(ask, probe, judge),
    hints=(
        "What changes from round to round? These values, and only these, the loop carries.",
        "while_loop(go_on, step, carried): both functions get the carried tensors; go_on gives one bool, step gives "
        "as many tensors of the same shape and dtype.",
        "Carry x and steps: (torch.ones_like(a), torch.zeros((), dtype=torch.int64)). step returns "
        "(x + a / x) / 2 and steps + 1.",
    ),
    known_mistakes=(
        KnownMistake(  # as it was
            _START
            + """
def root(a):
    x, steps = torch.ones_like(a), 0
    while (x * x - a).abs().max() > 1e-3:
        x, steps = (x + a / x) / 2, steps + 1
    return x, torch.tensor(steps, device=a.device)
""",
            "GB0170",
        ),
        KnownMistake(  # a fixed number of steps
            _START
            + """
def root(a):
    x = torch.ones_like(a)
    for _ in range(20):
        x = (x + a / x) / 2
    return x, torch.tensor(20, device=a.device)
""",
            "is off by",
        ),
        KnownMistake(  # steps too many are masked away: right, and no loop
            _START
            + """
def root(a):
    x, steps = torch.ones_like(a), torch.zeros((), dtype=torch.int64, device=a.device)
    for _ in range(40):
        off = (x * x - a).abs().max() > 1e-3
        x, steps = torch.where(off, (x + a / x) / 2, x), steps + off
    return x, steps
""",
            "no loop in its graph",
        ),
        KnownMistake(_START + _LOOP.replace("torch.zeros(()", "torch.ones(()"), "counted"),
        KnownMistake(  # the exact root
            _START
            + _LOOP.replace("    return while", "    return torch.sqrt(a), while").replace("device)))", "device)))[1]"),
            "is off by",
        ),
        KnownMistake(_START + _LOOP.replace("device)))", "device)))[0]"), "returned a Tensor"),
        KnownMistake(  # the loop hides in a custom operator
            _START
            + """
@torch.library.custom_op("hidden::root", mutates_args=())
def work(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x, steps = torch.ones_like(a), 0
    while (x * x - a).abs().max() > 1e-3:
        x, steps = (x + a / x) / 2, steps + 1
    return x, torch.tensor(steps, device=a.device)

@work.register_fake
def _(a):
    return torch.empty_like(a), torch.empty((), dtype=torch.int64, device=a.device)

def root(a):
    return work(a)
""",
            "hides work in",
        ),
        KnownMistake(_START + _LOOP.replace("1e-3", "1e-1"), "is off by"),
        KnownMistake(  # each element on its own
            _START + _LOOP.replace("(x * x - a).abs().max() > 1e-3", "(x * x - a).abs() > 1e-3"),
            "one bool and the carried tensors",
        ),
        KnownMistake(
            _START
            + """
@torch.compiler.disable
def eager(a):
    x, steps = torch.ones_like(a), 0
    while (x * x - a).abs().max() > 1e-3:
        x, steps = (x + a / x) / 2, steps + 1
    return x, torch.tensor(steps, device=a.device)

def root(a):
    x, steps = eager(a)
    return x * 1, steps * 1
""",
            "went back to Python",
        ),
    ),
    alternatives=(
        _START + _LOOP,
        _START
        + """
def root(a):
    go_on = lambda x, steps: ((x.square() - a).abs() > 1e-3).any()
    step = lambda x, steps: (0.5 * (x + a / x), steps + 1)
    start = torch.full_like(a, 1.0), torch.tensor(0)
    x, steps = while_loop(go_on, step, start)
    return x, steps
""",
    ),
)
