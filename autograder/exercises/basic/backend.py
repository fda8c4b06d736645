"""basic_7: a backend of one's own that counts operations."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.judging import called, exact, same_numbers
from compilescope import observe


class Mixer(nn.Module):
    """Calls a function, a method and a module: [rows, width] → [rows, width]."""

    def __init__(self, width: int, rounds: int) -> None:
        super().__init__()
        self.linear, self.rounds = nn.Linear(width, width), rounds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows in, rows out."""
        for _ in range(self.rounds):
            x = torch.tanh(x).mul(0.5) + x
        out: torch.Tensor = self.linear(x) - x.mean(-1, keepdim=True)
        return out


LABEL = "A model compiled with your backend"


def model_of(asked: Values) -> Mixer:
    """On the CPU, with the same weights whoever builds it."""
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.manual_seed(asked["seed"])
        return Mixer(asked["width"], asked["rounds"])


def two_graphs_of(model: Mixer, backend: Any) -> Any:
    """A compiled function of two graphs, from [rows, width] to [rows, width]."""

    @torch.compile(backend=backend)
    def two_graphs(x: torch.Tensor) -> torch.Tensor:
        hidden = model(x)
        print(end="")  # a break, so that there are two graphs
        out: torch.Tensor = hidden.sin() * 2
        return out

    return two_graphs


def ask(draw: Draw) -> Values:
    """A model by sizes and seed, and an input."""
    width = draw.size(3, 9)
    x = draw.tensor(draw.size(2, 6), width)
    return {"width": width, "rounds": draw.size(1, 5), "seed": draw.size(0, 10**6), "x": x, "others": x + 1}


def probe(answer: Answer, asked: Values) -> Values:
    """What the backend noted in a first and a second call, and what the calls returned."""
    counts: list[Any] = []
    backend = called("counting_backend(counts)", answer.counting_backend, counts)
    if not callable(backend):
        called("counting_backend(counts)", backend)
    torch.compiler.reset()
    two_graphs = two_graphs_of(model_of(asked).to(asked["x"].device), backend)
    result = observe(two_graphs, asked["x"]).result
    noted = list(counts)
    second = observe(two_graphs, asked["others"])
    return {"noted": noted, "later": counts, "result": result, "again": second.result, "second": second}


def wanted(asked: Values) -> list[int]:
    """The operations of each graph, counted here."""
    counts: list[int] = []

    def counting(graph: torch.fx.GraphModule, _: Any) -> Any:
        counts.append(sum(node.op.startswith("call") for node in graph.graph.nodes))
        return graph.forward

    torch.compiler.reset()
    two_graphs_of(model_of(asked), counting)(asked["x"].cpu())
    return counts


def judge(asked: Values, found: Values) -> str:
    """One number for each graph, made when it is compiled, and results as without a backend."""
    _right(LABEL, found["result"], asked, asked["x"])
    want, second = wanted(asked), found["second"]
    if found["noted"] != want:
        look = "Count the nodes that call something: a function, a method or a module."
        raise NotYet(LABEL, f"wrote {str(found['noted'])[:40]}", f"its graphs have {want} operations", look)
    if found["later"] != want:
        wrote = f"wrote {str(found['later'])[:40]} after a second call"
        once = f"a backend is asked once for each graph, {want}"
        raise NotYet(LABEL, wrote, once, "Count before you return, not inside what you return.")
    if "hit" not in [call.outcome for call in second.calls]:
        plain = f"{LABEL}, called again,", "ran as plain Python", "it runs what your backend returned"
        raise NotYet(*plain, "Look at what your backend raises or returns.")
    _right(f"{LABEL}, called again,", found["again"], asked, asked["others"])
    return f"{len(want)} graphs with {' and '.join(map(str, want))} operations"


def _right(label: str, got: Any, asked: Values, x: torch.Tensor) -> None:
    same_numbers(label, got, model_of(asked).double()(exact(x)).sin() * 2, torch.float32)


EXERCISE = Exercise(
    name="basic_7",
    lesson="01_basic_compile",
    points=2,
    asks_for=("counting_backend",),
    check=Check(ask, probe, judge),
    hints=(
        "Look at listening in section 1.5: what it is given, and what it returns.",
        "gm.graph.nodes holds inputs, operations and one output. The op of an operation begins with call.",
        "Inside counting_backend define backend(gm, example_inputs): append one number, then return gm.forward. "
        "Return backend.",
    ),
    known_mistakes=(
        KnownMistake(  # inputs and output counted, too
            """
def counting_backend(counts):
    def backend(gm, example_inputs):
        counts.append(len(gm.graph.nodes))
        return gm.forward
    return backend
""",
            "nodes that call something",
        ),
        KnownMistake(  # methods and modules left out
            """
def counting_backend(counts):
    def backend(gm, example_inputs):
        counts.append(sum(node.op == "call_function" for node in gm.graph.nodes))
        return gm.forward
    return backend
""",
            "nodes that call something",
        ),
        KnownMistake(  # counts calls of the graph, not graphs
            """
def counting_backend(counts):
    def backend(gm, example_inputs):
        def run(*inputs):
            counts.append(sum(node.op.startswith("call") for node in gm.graph.nodes))
            return gm(*inputs)
        return run
    return backend
""",
            "after a second call",
        ),
        KnownMistake(  # returns values instead of something to call
            """
def counting_backend(counts):
    def backend(gm, example_inputs):
        counts.append(sum(node.op.startswith("call") for node in gm.graph.nodes))
        return gm(*example_inputs)
    return backend
""",
            "raised",
        ),
        KnownMistake(  # counts, and never says how to run the graph
            """
def counting_backend(counts):
    def backend(gm, example_inputs):
        counts.append(sum(node.op.startswith("call") for node in gm.graph.nodes))
    return backend
""",
            "raised",
        ),
        KnownMistake(  # one sum over all graphs
            """
def counting_backend(counts):
    counts.append(0)
    def backend(gm, example_inputs):
        counts[0] += sum(node.op.startswith("call") for node in gm.graph.nodes)
        return gm.forward
    return backend
""",
            "nodes that call something",
        ),
        KnownMistake(  # the backend itself is not returned
            """
def counting_backend(counts):
    def backend(gm, example_inputs):
        counts.append(sum(node.op.startswith("call") for node in gm.graph.nodes))
        return gm.forward
""",
            "is None",
        ),
        KnownMistake(  # tells Dynamo to leave the function alone
            """
from torch._dynamo.exc import SkipFrame

def counting_backend(counts):
    def backend(gm, example_inputs):
        counts.append(sum(node.op.startswith("call") for node in gm.graph.nodes))
        raise SkipFrame("counted")
    return backend
""",
            "A model compiled with your backend",
        ),
        KnownMistake(  # the numbers of the example
            """
def counting_backend(counts):
    def backend(gm, example_inputs):
        counts.append(3)
        return gm.forward
    return backend
""",
            "operations",
        ),
    ),
    alternatives=(
        """
def counting_backend(counts):
    def backend(gm, example_inputs):
        counts.append(len([n for n in gm.graph.nodes if n.op not in ("placeholder", "get_attr", "output")]))
        return gm
    return backend
""",
        """
class CountingBackend:
    def __init__(self, counts):
        self.counts = counts

    def __call__(self, gm, example_inputs, **options):
        calls = ("call_function", "call_method", "call_module")
        self.counts.append(sum(node.op in calls for node in gm.graph.nodes))
        return lambda *inputs: gm(*inputs)

def counting_backend(counts):
    return CountingBackend(counts)
""",
        """
import torch

def counting_backend(counts):
    def backend(gm, example_inputs):
        number = 0
        for node in gm.graph.nodes:
            if node.op.startswith("call_"):
                number += 1
        counts.append(number)
        return torch.fx.Interpreter(gm).run
    return backend
""",
    ),
)
