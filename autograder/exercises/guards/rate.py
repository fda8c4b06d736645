"""guards_5: a learning rate that a scheduler changes, and an update that compiles once."""

from __future__ import annotations

import torch
from torch import nn

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.guards.served import refusal
from autograder.judging import beside, called, exact, really_compiled, same_numbers
from compilescope import observe
from compilescope.facts import Run


def ask(draw: Draw) -> Values:
    """Start values of a weight, its targets, the rate and its decay."""
    width = draw.size(3, 9)
    return {
        "start": draw.tensor(width),
        "targets": [draw.tensor(width) for _ in range(6)],
        "rate": draw.number(0.05, 0.2),
        "gamma": draw.choice((0.5, 0.8, 0.9)),
    }


def probe(answer: Answer, asked: Values) -> Values:
    """One run for each step, the weight after each."""
    torch.compiler.reset()
    weight = nn.Parameter(asked["start"].detach().clone())
    with beside(weight):  # the rate becomes a tensor
        return _updates(answer, asked, weight)


def _updates(answer: Answer, asked: Values, weight: nn.Parameter) -> Values:
    label = "make_update(weight, rate, gamma)"
    update = called(label, answer.make_update, weight, asked["rate"], asked["gamma"])
    runs, values = [], []
    for target in asked["targets"]:
        weight.grad = (weight.detach() - target).clone()
        if not callable(update):
            called(label, update)
        runs.append(observe(update))
        values.append(weight.detach().clone())
    return {"runs": runs, "values": values}


def judge(asked: Values, found: Values) -> str:
    """The weight of float64 after each step; a graph in the first, nothing compiled in the others."""
    weight = exact(asked["start"])
    for number, (target, got) in enumerate(zip(asked["targets"], found["values"], strict=True)):
        rate = asked["rate"] * asked["gamma"] ** number
        weight = weight - rate * (weight - exact(target))
        same_numbers(f"The weight after update {number + 1}", got, weight, torch.float32)
    _compiled_once(found["runs"])
    return f"{len(found['runs'])} rates, 1 compile"


def _compiled_once(runs: list[Run]) -> None:
    if not runs[0].graphs:
        raise NotYet("update()", "captured 0 graphs", "the update is to be compiled", "Look at optimizer.step.")
    really_compiled(runs[0], "update()")
    for number, run in enumerate(runs[1:], 2):
        if run.graphs:
            again = f"compiled again at update {number}"
            raise NotYet("update()", again, "one compile is wanted", f"The guard: {refusal(run)}.")
        if not run.calls or run.calls[-1].outcome != "hit":
            raise NotYet(
                f"update() number {number}",
                "did not run compiled code",
                "a hit is wanted",
                "Look at what your function calls.",
            )


_START = "import torch\nfrom torch.optim.lr_scheduler import ExponentialLR\n"


def _answer(lr: str, body: str = "        step()\n        schedule.step()\n") -> str:
    return (
        _START
        + f"""
def make_update(weight, rate, gamma):
    optimizer = torch.optim.SGD([weight], lr={lr})
    schedule = ExponentialLR(optimizer, gamma)
    step = torch.compile(optimizer.step, backend="aot_eager")

    def update():
{body}
    return update
"""
    )


EXERCISE = Exercise(
    name="guards_5",
    lesson="04_guards",
    points=2,
    asks_for=("make_update",),
    check=Check(ask, probe, judge),
    hints=(
        "Look at the row of SGD in the table above: the guard that failed, and the cure.",
        "A tensor is guarded by its dtype and shape, not by its value, and a scheduler writes into it. Compile the "
        "optimizer's step; the scheduler runs after it, in plain Python.",
        "optimizer = torch.optim.SGD([weight], lr=torch.tensor(rate)); schedule = ExponentialLR(optimizer, gamma); "
        "step = torch.compile(optimizer.step, …). update() calls step(), then schedule.step().",
    ),
    known_mistakes=(
        KnownMistake(_answer("rate"), "again at update 2"),
        KnownMistake(
            _answer("torch.tensor(rate)", "        step()\n        assert schedule\n"), "after update 2"
        ),  # the scheduler never runs
        KnownMistake(  # the scheduler first
            _answer("torch.tensor(rate)", "        schedule.step()\n        step()\n"), "after update 1"
        ),
        KnownMistake(  # a new number each time
            _answer(
                "rate",
                "        step()\n        optimizer.param_groups[0]['lr'] *= gamma\n",
            ),
            "again at update 2",
        ),
        KnownMistake(_answer("torch.tensor(rate)").replace('"aot_eager"', '"eager"'), "compiled nothing of it"),
        KnownMistake(  # an eager update
            _answer("torch.tensor(rate)", "        optimizer.step()\n        schedule.step()\n"), "captured 0 graphs"
        ),
        KnownMistake(  # compiled once for show
            _answer(
                "rate",
                "        (optimizer.step if optimizer.state.get('warm') else step)()\n"
                "        optimizer.state['warm'] = {'yes': 1}\n        schedule.step()\n",
            ),
            "did not run compiled code",
        ),
        KnownMistake(  # no recompiles, no compiled code either
            _answer(
                "rate",
                "        step()\n        schedule.step()\n        torch.compiler.set_stance('eager_on_recompile')\n",
            ),
            "did not run compiled code",
        ),
        KnownMistake(_answer("torch.tensor(rate)").replace("return update", "return update()"), "a function is wanted"),
    ),
    alternatives=(
        _answer("torch.tensor(rate)").replace(
            "ExponentialLR(optimizer, gamma)", "ExponentialLR(optimizer, gamma=gamma)"
        ),
        _START
        + """
def make_update(weight, rate, gamma):
    lr = torch.tensor(rate)
    optimizer = torch.optim.SGD([weight], lr=lr, foreach=False)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: gamma**epoch)

    @torch.compile(backend="aot_eager")
    def step():
        optimizer.step()

    def update():
        step()
        schedule.step()
    return update
""",
        _START
        + """
def make_update(weight, rate, gamma):
    lr = torch.tensor(rate)

    @torch.compile(backend="aot_eager")
    @torch.no_grad()
    def update():
        weight.sub_(lr * weight.grad)
        lr.mul_(gamma)
    return update
""",
    ),
)
