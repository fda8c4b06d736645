"""capstone_4: a training step whose rate changes, compiled once, with eager's loss curve."""

from __future__ import annotations

import copy

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.capstone.planted import (
    START,
    cured_of,
    gpt_of,
    letters_drawn,
    next_letter_loss,
    size_drawn,
)
from autograder.exercises.guards.served import refusal
from autograder.judging import beside, called, exact, kind_of, operations, really_compiled
from compilescope import observe
from compilescope.clauses import ERROR
from compilescope.contract import Terms, Trained

LABEL = "step(ids, targets, rate)"
STEPS = 5


def ask(draw: Draw) -> Values:
    """One block that clips nothing, five batches, and five rates that fall."""
    rows, length = draw.size(3, 6), draw.size(6, 12)
    text = [letters_drawn(draw, rows, length + 1) for _ in range(STEPS)]
    top = draw.number(0.3, 0.6)
    return {**size_drawn(draw, depth=1), "text": text, "rates": [top * 0.7**i for i in range(STEPS)]}


def terms_of(asked: Values, device: torch.device | str = "cpu") -> Terms:
    """The batches: letters, and the letters that follow."""
    texts = [text.to(device) for text in asked["text"]]
    batches = [(text[:, :-1].contiguous(), text[:, 1:].contiguous()) for text in texts]
    return Terms([ids for ids, _ in batches], batches, next_letter_loss)


def probe(answer: Answer, asked: Values) -> Values:
    """A Run and the loss of each step, and the weights after the last."""
    text = asked["text"][0]
    batches = terms_of(asked, text.device).batches
    model = cured_of(asked, batches[0][0].shape[1], text.device)
    torch.compiler.reset()
    with beside(text):
        step = called("make_step(model)", answer.make_step, model)
        if not callable(step):
            called("make_step(model)", step)
        runs = [observe(step, *batch, rate) for batch, rate in zip(batches, asked["rates"], strict=True)]
    losses = [one.detach().clone() if isinstance(one := run.result, torch.Tensor) else one for run in runs]
    return {"runs": runs, "losses": losses, "weights": [one.detach().clone() for one in model.parameters()]}


def judge(asked: Values, found: Values) -> str:
    """Losses and weights of eager in float64; the forward in a graph; only the first step compiles."""
    eager = _eager(asked)
    for number, (got, want) in enumerate(zip(found["losses"], eager.losses, strict=True), 1):
        _near(f"The loss of step {number}", got, torch.tensor(want))
    for got, weight in zip(found["weights"], eager.weights, strict=True):
        _near("A weight after the last step", got, weight)
    first = found["runs"][0]
    traced = sum(many for name, many in operations(first).items() if name.endswith("linear"))
    if traced < 5:
        part = f"traced {traced} of 5 linear layers"
        raise NotYet(LABEL, part, "forward and loss belong inside", "Look at what you compile.")
    really_compiled(first, LABEL)
    for number, run in enumerate(found["runs"][1:], 2):
        if run.graphs or any(call.outcome == "gave up" for call in run.calls):
            again = f"compiled again at step {number}"
            raise NotYet(LABEL, again, "only the first may compile", f"The guard: {refusal(run, 0)}.")
    return f"{STEPS} rates, compiled in the first step only; losses within {ERROR:.0e} of eager"


def _eager(asked: Values) -> Trained:
    model, losses = gpt_of(asked).double(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for (ids, targets), rate in zip(terms_of(asked).batches, asked["rates"], strict=True):
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        loss = next_letter_loss(model(ids), targets)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return Trained(losses, [copy.deepcopy(one.detach()) for one in model.parameters()])


def _near(what: str, got: object, want: torch.Tensor) -> None:
    if not isinstance(got, (torch.Tensor, float)) or torch.as_tensor(got).shape != want.shape:
        raise NotYet(what, f"is {kind_of(got)}", "one number is wanted", "Look at your return line.")
    off = float((exact(torch.as_tensor(got)) - want.double()).abs().max() / want.double().abs().max())
    if not off <= ERROR:
        away = f"is off by {off:.0e}, relative to float64"
        raise NotYet(what, away, f"at most {ERROR:.0e} is stated", "Look at the rate of each step, and at zero_grad.")


def _step(make: str, body: str, compiled: str = "step", end: str = "return step") -> str:
    lines = "\n".join(f"        {line}" for line in body.split("\n"))
    fast = f"    {compiled} = torch.compile({compiled}, backend='aot_eager')\n" if compiled else ""
    return START + f"def make_step(model):\n{make}\n    def step(ids, targets, rate):\n{lines}\n{fast}    {end}\n"


_LOSS = "loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())"
_TRAIN = f"optimizer.zero_grad()\n{_LOSS}\nloss.backward()\noptimizer.step()\nreturn loss"
_FLOAT = "    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)"
_TENSOR = "    now = torch.tensor(0.0)\n    optimizer = torch.optim.SGD(model.parameters(), lr=now)"
_GROUPS = "for group in optimizer.param_groups: group['lr'] = rate\n"
_OUTER = "return lambda ids, targets, rate: (now.fill_(rate), step(ids, targets, 0.0))[1]"

EXERCISE = Exercise(
    name="capstone_4",
    lesson="08_capstone",
    points=2,
    asks_for=("make_step",),
    check=Check(ask, probe, judge),
    hints=(
        "Which of the arguments of the compiled function is another Python number in each step?",
        "A rate in a tensor is no constant: the optimizer takes lr=tensor. Fill it outside the compiled function.",
        "now = torch.tensor(0.0); SGD(model.parameters(), lr=now); compile an inner update(ids, targets); "
        "step: now.fill_(rate), then return update(ids, targets).",
    ),
    known_mistakes=(
        KnownMistake(_step(_FLOAT, _GROUPS + _TRAIN), "compiled again at step 2"),  # as it was
        KnownMistake(  # the float is an argument of the compiled function
            _step(_TENSOR, "now.fill_(rate)\n" + _TRAIN), "compiled again at step 2"
        ),
        KnownMistake(_step(_FLOAT, _TRAIN), "The loss of step 2"),  # the rate is ignored
        KnownMistake(_step(_TENSOR, _TRAIN, end=_OUTER.replace("rate)", "0.3)")), "is off by"),
        KnownMistake(_step(_TENSOR, _TRAIN.replace("optimizer.zero_grad()\n", ""), end=_OUTER), "zero_grad"),
        KnownMistake(_step(_TENSOR, _TRAIN, compiled="", end=_OUTER), "traced 0 of 5"),
        KnownMistake(_step(_TENSOR, _TRAIN.replace("return loss", "return"), end=_OUTER), "is None"),
        KnownMistake(  # only the update is compiled
            _step(_TENSOR + "\n    optimizer.step = torch.compile(optimizer.step, backend='aot_eager')", _TRAIN,
                  compiled="", end=_OUTER),
            "traced 0 of 5",
        ),
        KnownMistake(_step(_TENSOR, _TRAIN, end=_OUTER).replace("aot_eager", "eager"), "compiled nothing of it"),
    ),
    alternatives=(
        _step(_TENSOR, _TRAIN, end=_OUTER),
        START + f"""
def make_step(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)

    @torch.compile(backend="aot_eager", fullgraph=True)
    def loss_of(ids, targets):
        {_LOSS}
        return loss

    def step(ids, targets, rate):
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        loss = loss_of(ids, targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
""",
        START + f"""
def make_step(model):
    weights = list(model.parameters())

    @torch.compile(backend="aot_eager")
    def update(ids, targets, rate):
        {_LOSS}
        grads = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for weight, grad in zip(weights, grads):
                weight.sub_(rate * grad)
        return loss

    return lambda ids, targets, rate: update(ids, targets, torch.tensor(rate))
""",
    ),
)  # fmt: skip
