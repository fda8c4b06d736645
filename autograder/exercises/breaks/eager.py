"""breaks_6: a function that must stay eager in the middle of a compiled one."""

from __future__ import annotations

from collections.abc import Callable

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.breaks.seen import by_aot_eager, calls_of
from autograder.judging import called, eager_operations, graphs_made, same_numbers
from compilescope import observe

LABEL = "forward(x)"
Layer = Callable[[torch.Tensor], torch.Tensor]


def layers(up: torch.Tensor, down: torch.Tensor) -> tuple[Layer, Layer]:
    """The first layer [rows, n] → [rows, m], and the last one [rows, m] → [rows, n]."""

    def first(x: torch.Tensor) -> torch.Tensor:
        return (x @ up).sigmoid()

    def last(h: torch.Tensor) -> torch.Tensor:
        return (h @ down).tanh()

    return first, last


def ask(draw: Draw) -> Values:
    """Weights, and two inputs of one shape."""
    rows, n, m = draw.size(3, 7), draw.size(4, 8), draw.size(9, 12)
    return {
        "up": draw.tensor(n, m),
        "down": draw.tensor(m, n),
        "calls": [draw.tensor(rows, n), draw.tensor(rows, n)],
    }


def probe(answer: Answer, asked: Values) -> Values:
    """What each call compiled, returned and told `record`; and what a further call runs outside the graphs."""
    told: list[Values] = []

    def record(h: torch.Tensor) -> torch.Tensor:
        told.append({"compiling": torch.compiler.is_compiling(), "h": h.detach().clone()})
        return h - h.mean()

    forward = called(
        "make_forward(first, last, record)", answer.make_forward, *layers(asked["up"], asked["down"]), record
    )
    if not callable(forward):
        called(LABEL, forward)
    torch.compiler.reset()
    calls = []
    for x in asked["calls"]:
        before = len(told)
        run = observe(forward, x)
        calls.append({"run": run, "result": run.result, "told": [dict(one) for one in told[before:]]})
    return {"calls": calls, "outside": list(eager_operations(forward, asked["calls"][0]))}


def judge(asked: Values, found: Values) -> None:
    """Numbers, then: record ran as plain Python on each call, and each layer is in a graph of its own."""
    first, last = layers(asked["up"].double(), asked["down"].double())
    for number, (x, one) in enumerate(zip(asked["calls"], found["calls"], strict=True), 1):
        label = f"Call {number} of {LABEL}"
        hidden = first(x.double())
        same_numbers(label, one["result"], last(hidden - hidden.mean()), x.dtype)
        _told(label, one["told"], hidden, x.dtype)
    run = found["calls"][0]["run"]
    graphs_made(run, LABEL, 2)
    by_aot_eager(run, LABEL)
    inside = [any(word in target for target in calls_of(run)) for word in ("sigmoid", "tanh", "mean")]
    if inside != [True, True, False]:
        got = "has record's mean in a graph" if inside[2] else "left a layer in plain Python"
        raise NotYet(LABEL, got, "both layers are wanted in graphs, and record in none", "Look at show(run).")
    if again := len(found["calls"][1]["run"].graphs):
        raise NotYet(f"Call 2 of {LABEL}", f"made {again} graphs again", "it needs none", "Compile once, call often.")


def _told(label: str, told: list[Values], hidden: torch.Tensor, dtype: torch.dtype) -> None:
    if any(one["compiling"] for one in told):
        raise NotYet(label, "had record traced into a graph", "it must run as plain Python", "Look at how you call it.")
    if len(told) != 1:
        times = f"called record {len(told)} times with values"
        raise NotYet(label, times, "once a call is wanted", "Look at where record stands.")
    same_numbers(f"What record got in {label[0].lower()}{label[1:]}", told[0]["h"], hidden, dtype)


_START = "import torch\n"

EXERCISE = Exercise(
    name="breaks_6",
    lesson="03_graph_breaks",
    points=2,
    asks_for=("make_forward",),
    check=Check(ask, probe, judge),
    hints=(
        "Compile last(record(first(x))) as it is and look at the graph: record's operations are in it.",
        "torch.compiler.disable(f) returns a function that Dynamo leaves to Python. It returns it; f stays as it is.",
        "eager = torch.compiler.disable(record). Then compile forward(x): last(eager(first(x))).",
    ),
    known_mistakes=(
        KnownMistake(  # traced like anything else
            _START
            + """
def make_forward(first, last, record):
    return torch.compile(lambda x: last(record(first(x))), backend="aot_eager")
""",
            "had record traced",
        ),
        KnownMistake(  # what disable returns is dropped
            _START
            + """
def make_forward(first, last, record):
    torch.compiler.disable(record)
    return torch.compile(lambda x: last(record(first(x))), backend="aot_eager")
""",
            "had record traced",
        ),
        KnownMistake(  # everything stays eager
            _START
            + """
def make_forward(first, last, record):
    return torch.compiler.disable(lambda x: last(record(first(x))))
""",
            "made 0 graphs",
        ),
        KnownMistake(  # one layer is forgotten
            _START
            + """
def make_forward(first, last, record):
    fast = torch.compile(first, backend="aot_eager")
    return lambda x: last(record(fast(x)))
""",
            "made 1 graph",
        ),
        KnownMistake(  # called twice
            _START
            + """
def make_forward(first, last, record):
    fast = torch.compile(first, backend="aot_eager")
    slow = torch.compile(last, backend="aot_eager")
    def forward(x):
        record(fast(x))
        return slow(record(fast(x)))
    return forward
""",
            "called record 2 times",
        ),
        KnownMistake(  # left out
            _START
            + """
def make_forward(first, last, record):
    def forward(x):
        h = first(x)
        return last(h - h.mean())
    return torch.compile(forward, backend="aot_eager")
""",
            "called record 0 times",
        ),
        KnownMistake(  # its result is dropped
            _START
            + """
def make_forward(first, last, record):
    eager = torch.compiler.disable(record)
    def forward(x):
        h = first(x)
        eager(h)
        return last(h)
    return torch.compile(forward, backend="aot_eager")
""",
            "float64 result",
        ),
        KnownMistake(
            _START
            + """
def make_forward(first, last, record):
    eager = torch.compiler.disable(record)
    return torch.compile(lambda x: last(eager(first(x))), backend="eager")
""",
            'compiled nothing of it; backend="aot_eager" is wanted',
        ),
        KnownMistake(  # compiled anew in each call
            _START
            + """
def make_forward(first, last, record):
    eager = torch.compiler.disable(record)
    def forward(x):
        torch.compiler.reset()
        return torch.compile(lambda x: last(eager(first(x))), backend="aot_eager")(x)
    return forward
""",
            "graphs again",
        ),
        KnownMistake(
            _START
            + """
def make_forward(first, last, record):
    torch.compiler.set_stance("force_eager")
    eager = torch.compiler.disable(record)
    return torch.compile(lambda x: last(eager(first(x))), backend="aot_eager")
""",
            "made 0 graphs",
        ),
    ),
    alternatives=(
        _START
        + """
def make_forward(first, last, record):
    @torch.compiler.disable
    def eager(h):
        return record(h)

    @torch.compile(backend="aot_eager")
    def forward(x):
        return last(eager(first(x)))

    return forward
""",
        _START
        + """
def make_forward(first, last, record):
    fast_first = torch.compile(first, backend="aot_eager", fullgraph=True)
    fast_last = torch.compile(last, backend="aot_eager", fullgraph=True)
    return lambda x: fast_last(record(fast_first(x)))
""",
        _START
        + """
class Model(torch.nn.Module):
    def __init__(self, first, last, record):
        super().__init__()
        self.first, self.last = first, last
        self.record = torch.compiler.disable(record, reason="it looks at values")

    def forward(self, x):
        return self.last(self.record(self.first(x)))

def make_forward(first, last, record):
    model = Model(first, last, record)
    model.compile(backend="aot_eager")
    return model
""",
    ),
)
