"""basic_2: five calls that look compiled, and which of them compile anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.judging import called
from compilescope import observe

Way = Callable[[torch.Tensor], Any]
WIDTH = 8


class Gate(nn.Module):
    """Two layers with a GELU between, [rows, 8] → [rows, 8]."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows in, rows out."""
        out: torch.Tensor = self.down(nn.functional.gelu(self.up(x)))
        return out

    def way(self, x: torch.Tensor) -> torch.Tensor:
        """One number a row."""
        out: torch.Tensor = self.up(x).sigmoid().mean(-1)
        return out


def _decorated() -> Way:
    @torch.compile(backend="aot_eager")
    def way(x: torch.Tensor) -> torch.Tensor:
        return x.square().sum(-1)

    return way


def _dropped() -> Way:
    def way(x: torch.Tensor) -> torch.Tensor:
        return -(x.softmax(-1) * x.log_softmax(-1)).sum(-1)

    torch.compile(way, backend="aot_eager")
    return way


def _module_dropped() -> Way:
    model = Gate()
    torch.compile(model, backend="aot_eager")
    return model


def _own_module() -> Way:
    model = Gate()
    model.compile(backend="aot_eager")
    return model


def _sequential_in_place() -> Way:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
    model.compile(backend="aot_eager")
    return model


def _sequential_wrapped() -> Way:
    return torch.compile(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()), backend="aot_eager")


def _disabled() -> Way:
    def way(x: torch.Tensor) -> torch.Tensor:
        return x.amax(-1) - x.amin(-1)

    return torch.compile(torch.compiler.disable(way), backend="aot_eager")


def _other_method() -> Way:
    wrapped: Any = torch.compile(Gate(), backend="aot_eager")
    way: Way = wrapped.way
    return way


def _print_in_loop() -> Way:
    @torch.compile(backend="aot_eager")
    def way(x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = x - 0.1 * x.sin()
            print("", end="")
        return x

    return way


def _print_at_end() -> Way:
    @torch.compile(backend="aot_eager")
    def way(x: torch.Tensor) -> torch.Tensor:
        unit: torch.Tensor = x / x.norm(dim=-1, keepdim=True)
        print("", end="")
        return unit

    return way


COMPILE = (_decorated, _own_module, _sequential_wrapped)
DO_NOT = (_dropped, _module_dropped, _sequential_in_place, _disabled, _other_method)


MAKERS: dict[str, Callable[[], Way]] = {
    maker.__name__.strip("_").replace("_", " "): maker for maker in (*COMPILE, *DO_NOT, _print_at_end, _print_in_loop)
}


def five_ways(draw: Draw) -> list[str]:
    """Names of makers, three that compile and two that do not (up to torch 2.13), in random order.

    The two prints are always there: one breaks a graph and compiles, one breaks in a loop and compiles nothing.
    """
    makers = [_print_at_end, _print_in_loop, *_some(COMPILE, 2, draw), *_some(DO_NOT, 1, draw)]
    names = {maker: name for name, maker in MAKERS.items()}
    return [names[maker] for maker in _some(makers, 5, draw)]


def _some(pool: Any, number: int, draw: Draw) -> list[Any]:
    return sorted(pool, key=lambda _: draw.size(0, 10**6))[:number]


def _makers(asked: Values) -> dict[str, tuple[str, Callable[[], Way]]]:
    """What the learner sees as a way's name, to its maker's name and its maker."""
    return {f"way {'ABCDE'[i]}": (name, MAKERS[name]) for i, name in enumerate(asked["makers"])}


def graphs_of(maker: Callable[[], Way], x: torch.Tensor) -> int:
    """How many graphs a first call captures."""
    torch.compiler.reset()
    return len(observe(_made(maker, x), x).graphs)


def _made(maker: Callable[[], Way], x: torch.Tensor) -> Way:
    """A way whose weights, if it has any, are where x is."""
    with x.device:
        return maker()


def ask(draw: Draw) -> Values:
    """Five ways by their makers, and an input."""
    return {"makers": five_ways(draw), "x": draw.tensor(draw.size(2, 6), WIDTH)}


def probe(answer: Answer, asked: Values) -> Values:
    """The names that the answer gives for five fresh callables, none of which shows how it was made."""
    ways = {name: _made(maker, asked["x"]) for name, (_, maker) in _makers(asked).items()}
    got = called("compiled_ways(ways, x)", answer.compiled_ways, ways, asked["x"])
    names = isinstance(got, (set, list, tuple, frozenset, dict)) and all(isinstance(name, str) for name in got)
    return {"names": sorted(got) if names else None, "shown": str(got)[:40]}


def judge(asked: Values, found: Values) -> None:
    """The names of exactly those ways whose call captured a graph."""
    makers, got = _makers(asked), found["names"]
    label = "compiled_ways(ways, x)"
    if not isinstance(got, list) or not set(got) <= set(makers):
        raise NotYet(label, f"returned {found['shown']}", "a set of names is wanted", "Look at the docstring.")
    for name, (how, maker) in makers.items():
        graphs = graphs_of(maker, asked["x"])
        if (name in got) != bool(graphs):
            says = "it compiled" if name in got else "it compiled nothing"
            raise NotYet(
                label,
                f'says of "{name}" ({how}) that {says}',
                f"its first call captured {graphs} graph{'s' * (graphs != 1)}",
                "Look at what a call does, not at what an object looks like.",
            )


_START = "import torch\nfrom compilescope import observe\n"

EXERCISE = Exercise(
    name="basic_2",
    lesson="01_basic_compile",
    points=2,
    asks_for=("compiled_ways",),
    check=Check(ask, probe, judge),
    hints=(
        "observe(way, x) calls a way once and gives back what the compiler did.",
        "A type, an attribute or a missing error proves nothing. A captured graph does.",
        "Return {name for name, way in ways.items() if …}; the condition asks how many graphs a first call captured.",
    ),
    known_mistakes=(
        KnownMistake(  # looks at attributes
            _START
            + """
def compiled_ways(ways, x):
    marks = "_torchdynamo_orig_callable", "_orig_mod", "_compiled_call_impl"
    return {name for name, way in ways.items() if any(getattr(way, mark, None) is not None for mark in marks)}
""",
            "not at what an object looks like",
        ),
        KnownMistake(  # no break is no proof
            _START
            + """
def compiled_ways(ways, x):
    return {name for name, way in ways.items() if not observe(way, x).breaks}
""",
            "compiled",
        ),
        KnownMistake(  # no exception is no proof
            _START
            + """
def compiled_ways(ways, x):
    found = set()
    for name, way in ways.items():
        try:
            way(x)
            found.add(name)
        except Exception:
            pass
    return found
""",
            "captured 0 graphs",
        ),
        KnownMistake(  # the second call finds everything compiled already
            _START
            + """
def compiled_ways(ways, x):
    for way in ways.values():
        way(x)
    return {name for name, way in ways.items() if observe(way, x).graphs}
""",
            "captured 1 graph",
        ),
        KnownMistake(  # the answer to another draw
            "def compiled_ways(ways, x):\n    return {'way A', 'way B', 'way C', 'way D', 'way E'}\n",
            "captured 0 graphs",
        ),
        KnownMistake(
            _START
            + """
def compiled_ways(ways, x):
    torch.compiler.set_stance("force_eager")
    return {name for name, way in ways.items() if observe(way, x).graphs}
""",
            "captured 1 graph",
        ),
        KnownMistake(  # knows the functions of this check by name
            """
def compiled_ways(ways, x):
    plain = {"entropy", "spread", "score", "relax", "Sequential"}
    return {name for name, way in ways.items() if getattr(way, "__name__", type(way).__name__) not in plain}
""",
            "captured 0 graphs",
        ),
        KnownMistake(
            "def compiled_ways(ways, x):\n    return len(ways)\n",
            "a set of names",
        ),
    ),
    alternatives=(
        _START
        + """
from torch._dynamo.utils import counters

def compiled_ways(ways, x):
    found = []
    for name, way in ways.items():
        before = counters["stats"]["unique_graphs"]
        way(x)
        if counters["stats"]["unique_graphs"] > before:
            found.append(name)
    return found
""",
        _START
        + """
def compiled_ways(ways, x):
    found = set()
    for name, way in ways.items():
        with observe() as run:
            way(x)
        if len(run.graphs) > 0:
            found.add(name)
    return found
""",
        _START
        + """
def compiled_ways(ways, x):
    return {name: run for name, way in ways.items() if (run := observe(way, x)).compiles and run.graphs}
""",
    ),
)
