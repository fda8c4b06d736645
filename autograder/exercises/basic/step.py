"""basic_6: a compiled training step with the right boundary."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import nn

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.judging import called, eager_operations, exact, first_call, graphs_made, really_compiled, same_numbers
from compilescope import observe
from compilescope.facts import Compile, Run


class Regressor(nn.Module):
    """Two layers, [rows, width] → [rows]."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows in, one number a row out."""
        out: torch.Tensor = self.down(self.up(x).tanh()).squeeze(-1)
        return out


LABEL = "step(x, y)"


def _optimizer(momentum: float, model: nn.Module) -> Any:
    # Adam would do, but compiled it corrects its bias in float32, which is no rounding of a float64 model.
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=momentum)


DTYPES = {"float32": torch.float32, "float64": torch.float64}


def ask(draw: Draw) -> Values:
    """A model by size and seed, an optimizer by its momentum, four batches and a fifth."""
    dtype = draw.choice(tuple(DTYPES))
    width, rows = draw.size(3, 9), draw.size(4, 20)
    kind = DTYPES[dtype]
    return {
        "dtype": dtype,
        "momentum": draw.choice((0.0, 0.9)),
        "width": width,
        "hidden": draw.size(5, 17),
        "seed": draw.size(0, 10**6),
        "x": [draw.tensor(rows, width, dtype=kind) for _ in range(5)],
        "y": [draw.tensor(rows, dtype=kind) for _ in range(5)],
    }


def model_of(asked: Values) -> Regressor:
    """On the CPU, with the same weights whoever builds it."""
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.manual_seed(asked["seed"])
        return Regressor(asked["width"], asked["hidden"]).to(DTYPES[asked["dtype"]])


def probe(answer: Answer, asked: Values) -> Values:
    """Runs and losses of four batches, the weights then, and what a fifth batch still runs outside its graphs."""
    model = model_of(asked).to(asked["x"][0].device)
    step = called("make_step(model, optimizer)", answer.make_step, model, _optimizer(asked["momentum"], model))
    (first, *batches, last) = zip(asked["x"], asked["y"], strict=True)
    runs = [first_call(LABEL, step, *first), *(observe(step, *batch) for batch in batches)]
    weights = {name: value.detach().clone() for name, value in model.named_parameters()}
    outside = list(eager_operations(step, *last))
    return {"runs": runs, "losses": [run.result for run in runs], "weights": weights, "outside": outside}


def judge(asked: Values, found: Values) -> str:
    """Loss and backward in one graph, the update in another, nothing new from batch 3 on, numbers as in float64."""
    runs = found["runs"]
    _boundary(runs[0], LABEL, model_of(asked))
    for number, run in enumerate(runs[1:], 2):
        if run.graphs and number > 2:  # the second may compile the update once more: momentum exists only then
            again = f"on batch {number} captured {len(run.graphs)} graphs again"
            raise NotYet(LABEL, again, "a batch of the same shape needs none", "Look at where torch.compile is called.")
    _numbers(asked, found["losses"], found["weights"])
    # A backward pass that is compiled shows up there; what changes weights in place is no part of it.
    updates = [name for name in found["outside"] if name.endswith("_") and name != "aten::zero_"]
    if updates:
        plain = f"ran {updates[0]} and {len(updates) - 1} more outside its graphs"
        raise NotYet(LABEL, plain, "the update is compiled, too", "Look at where optimizer.step() stands.")
    return "forward with loss, backward and update are compiled"


def _boundary(run: Run, label: str, model: nn.Module) -> None:
    if not run.graphs:
        graphs_made(run, label, 2)
    really_compiled(run, label)
    trained = [one for one in run.compiles if one.graph("backward")]
    if not trained:
        raise NotYet(label, "compiled no backward graph", "gradients are wanted", "Look at what stays outside.")
    if not any(_ends_in_loss(one) for one in trained):
        raise NotYet(
            label,
            f"compiled {trained[0].function}, whose graph ends before the loss",
            "the loss belongs inside",
            "Look at which function you compile.",
        )
    if not any(_is_update(one, model) for one in run.compiles):
        raise NotYet(
            label,
            "ran the optimizer's update as plain Python",
            "a graph of its own is wanted",
            "Look at where optimizer.step() stands.",
        )


def _ends_in_loss(compiled: Compile) -> bool:
    graph = compiled.graph("dynamo")
    return graph is not None and any(node.shape == () for node in graph.calls()[-2:])


def _is_update(compiled: Compile, model: nn.Module) -> bool:
    """A graph without gradients that is given every parameter, or its gradient."""
    graph = compiled.graph("dynamo")
    if graph is None or compiled.graph("backward"):
        return False
    given: Counter[Any] = Counter(node.shape for node in graph.nodes if node.op != "call")
    wanted: Counter[Any] = Counter(tuple(value.shape) for value in model.parameters())
    return not wanted - given


def _numbers(asked: Values, losses: list[Any], weights: Values) -> None:
    dtype, twin = DTYPES[asked["dtype"]], model_of(asked).double()
    optimizer = _optimizer(asked["momentum"], twin)
    batches = zip(asked["x"][:4], asked["y"][:4], strict=True)
    for number, ((x, y), loss) in enumerate(zip(batches, losses, strict=True), 1):
        optimizer.zero_grad()
        want = nn.functional.mse_loss(twin(exact(x)), exact(y))
        want.backward()
        optimizer.step()
        same_numbers(f"step(x, y) on batch {number}", loss, want.detach(), dtype)
    for name, value in twin.named_parameters():
        same_numbers(f"After 4 steps {name}", weights.get(name), value.detach(), dtype)


_START = "import torch\nimport torch.nn.functional as F\n"
_BODY = """
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss
"""

EXERCISE = Exercise(
    name="basic_6",
    lesson="01_basic_compile",
    points=3,
    asks_for=("make_step",),
    check=Check(ask, probe, judge),
    hints=(
        "show(first_call(step, x, y)) says which functions have a graph, and what ran as plain Python.",
        "What is repeated for each batch belongs inside: clear, forward, loss, backward, update. "
        "torch.compile itself is called once.",
        "Inside make_step, define step(x, y) with the five lines of train_step. Return torch.compile(step, …).",
    ),
    known_mistakes=(
        KnownMistake(
            _START + "def make_step(model, optimizer):\n    def step(x, y):" + _BODY + "    return step\n", "0 graphs"
        ),
        KnownMistake(  # only the module
            _START
            + "def make_step(model, optimizer):\n    model.compile(backend='aot_eager')\n    def step(x, y):"
            + _BODY
            + "    return step\n",
            "ends before the loss",
        ),
        KnownMistake(  # forward and loss, and a plain update
            _START
            + """
def make_step(model, optimizer):
    loss_of = torch.compile(lambda x, y: F.mse_loss(model(x), y), backend="aot_eager")
    def step(x, y):
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        torch.compiler.disable(optimizer.step)()
        return loss
    return step
""",
            "update as plain Python",
        ),
        KnownMistake(  # compiled anew for each batch
            _START
            + """
def make_step(model, optimizer):
    def step(x, y):
        torch.compiler.reset()
        def inner(x, y):
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            return loss
        return torch.compile(inner, backend="aot_eager")(x, y)
    return step
""",
            "again",
        ),
        KnownMistake(  # gradients pile up
            _START
            + """
def make_step(model, optimizer):
    @torch.compile(backend="aot_eager")
    def step(x, y):
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss
    return step
""",
            "float64 result",
        ),
        KnownMistake(
            _START
            + "def make_step(model, optimizer):\n    def step(x, y):"
            + _BODY
            + "    return torch.compile(step, backend='eager')\n",
            "compiled nothing of it",
        ),
        KnownMistake(  # a loop over rows inside
            _START
            + """
def make_step(model, optimizer):
    @torch.compile(backend="aot_eager")
    def step(x, y):
        optimizer.zero_grad()
        for i in range(1):
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        return loss
    return step
""",
            "before the loss",
        ),
        KnownMistake(  # a Python number instead of the loss
            _START
            + """
def make_step(model, optimizer):
    @torch.compile(backend="aot_eager")
    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()
    return step
""",
            "returned a float",
        ),
        KnownMistake(  # two graphs for show, and a plain update
            _START
            + """
class Show:
    def __init__(self, tensor):
        self.tensor = tensor

    def step(self):
        return self.tensor + 1

def make_step(model, optimizer):
    loss_of = torch.compile(lambda x, y: F.mse_loss(model(x), y), backend="aot_eager")
    update = torch.compile(Show(torch.zeros(3)).step, backend="aot_eager")
    plain = torch.compiler.disable(optimizer.step)
    def step(x, y):
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        update()
        plain()
        return loss
    return step
""",
            "update",
        ),
        KnownMistake(  # compiling is switched off
            _START
            + "def make_step(model, optimizer):\n    torch.compiler.set_stance('force_eager')\n    def step(x, y):"
            + _BODY
            + "    return torch.compile(step, backend='aot_eager')\n",
            "0 graphs",
        ),
    ),
    alternatives=(
        _START
        + "def make_step(model, optimizer):\n"
        + "    @torch.compile(backend='aot_eager', dynamic=False)\n    def step(x, y):"
        + _BODY
        + "    return step\n",
        _START
        + """
from functools import partial

def train_step(model, optimizer, x, y):
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach()

def make_step(model, optimizer):
    return partial(torch.compile(train_step, backend="aot_eager"), model, optimizer)
""",
        _START
        + """
def make_step(model, optimizer):
    forward_and_loss = torch.compile(lambda x, y: F.mse_loss(model(x), y), backend="aot_eager", fullgraph=True)
    update = torch.compile(optimizer.step, backend="aot_eager")

    def step(x, y):
        optimizer.zero_grad()
        loss = forward_and_loss(x, y)
        loss.backward()
        update()
        return loss
    return step
""",
    ),
)
