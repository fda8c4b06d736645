"""breaks_3: which of six calls of a model break."""

from __future__ import annotations

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.judge import namespace_of
from autograder.judging import called

WIDTH = 6
LABEL = "breaking_calls(model, x)"

CLEAN = {
    "embed": """
def embed(x, weight):
    scale = {"mean": 0.5, "gain": 2.0}
    for name, value in scale.items():
        x = x - value if name == "mean" else x * value
    return (x @ weight).tanh()
""",
    "center": """
def center(x, weight):
    if x.shape[0] > 1:
        x = x - x.mean(0, keepdim=True)
    return x @ weight
""",
    "attend": """
def attend(x, weight):
    scores = (x @ weight) @ x.mT
    if not torch.compiler.is_compiling():
        print("eager scores", tuple(scores.shape))
    return scores.softmax(-1) @ x
""",
    "gate": """
def gate(x, weight):
    open_ = (x @ weight).sigmoid()
    return torch.where(open_ > 0.5, x, x * open_)
""",
    "mix": """
def mix(x, weight):
    for shift in range(2):
        x = x + 0.5 * x.roll(shift, -1)
    return x @ weight
""",
    "score": """
def score(x, weight):
    x = x @ weight
    largest = x.abs().amax()
    return x.sum(-1) / largest.clamp(min=1)
""",
}
BROKEN = {
    "embed": """
def embed(x, weight):
    logging.getLogger("ranker").debug("embedding")
    return (x @ weight).tanh()
""",
    "center": """
def center(x, weight):
    x = x @ weight
    if x.mean() > 0:
        x = x - x.mean(0, keepdim=True)
    return x
""",
    "attend": """
def attend(x, weight):
    began = time.perf_counter()
    scores = (x @ weight) @ x.mT
    return (scores - 0.0 * began).softmax(-1) @ x
""",
    "gate": """
def gate(x, weight):
    try:
        x = x @ weight
        open_ = x.abs().max().item()
    except RuntimeError:
        open_ = 1.0
    return x * open_
""",
    "mix": """
def mix(x, weight):
    for shift in range(2):
        x = x + 0.5 * x.roll(shift, -1)
        print(end="")
    return x @ weight
""",
    "score": """
def score(x, weight):
    x = x @ weight
    return x.sum(-1) / max(x.abs().amax().item(), 1.0)
""",
}
_MODEL = """
class Ranker(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.eye(width) + 0.1)

    def forward(self, x):
        x = embed(x, self.weight)
        x = center(x, self.weight)
        x = attend(x, self.weight)
        x = gate(x, self.weight)
        x = mix(x, self.weight)
        return score(x, self.weight)
"""


def source_of(broken: set[str]) -> str:
    """The model as text, with these of its six calls breaking."""
    parts = [(BROKEN if name in broken else CLEAN)[name] for name in CLEAN]
    return "import logging\nimport time\nimport torch\n" + "".join(parts) + _MODEL


def broken_in(source: str) -> set[str]:
    """The calls that break in a model of `source_of`."""
    return {name for name, text in BROKEN.items() if text in source}


def ask(draw: Draw) -> Values:
    """Two models: two and no breaking calls, in an order of their own."""
    names = sorted(CLEAN, key=lambda _: draw.size(0, 10**6))
    blocks = [name for name in names if name in ("gate", "mix")]  # in these the whole function is given up
    models = [{blocks[0], next(name for name in names if name not in blocks)}, set[str]()]
    models.sort(key=lambda _: draw.size(0, 10**6))
    return {"sources": [source_of(broken) for broken in models], "x": draw.tensor(draw.size(3, 6), WIDTH)}


def probe(answer: Answer, asked: Values) -> Values:
    """What the answer says of each model, new and never called."""
    said = []
    for source in asked["sources"]:
        torch.compiler.reset()
        model = namespace_of(source, "ranker")["Ranker"](WIDTH).to(asked["x"].device).requires_grad_(False)
        names = called(LABEL, answer.breaking_calls, model, asked["x"].clone())
        said.append(sorted(map(str, names)) if isinstance(names, (set, frozenset, list, tuple)) else None)
    return {"said": said}


def judge(asked: Values, found: Values) -> None:
    """Exactly the names of the calls that break, for each model."""
    for source, said in zip(asked["sources"], found["said"], strict=True):
        broken = broken_in(source)
        if said is None:
            raise NotYet(LABEL, "returned no set", "a set of names is wanted", "Look at your return line.")
        if set(said) != broken:
            gives = f"said {{{', '.join(said)}}}" if said else "said that none breaks"
            truth = f"the answer is {{{', '.join(sorted(broken))}}}" if broken else "here none does"
            look = "Look at not_compiled, too." if broken - set(said) else "Look at what a break's source names."
            raise NotYet(LABEL, gives, truth, look)


_START = "import torch\nfrom compilescope import observe\n"
_FACTS = """
def breaking_calls(model, x):
    run = observe(torch.compile(model, backend="eager"), x)
    stops = [*run.breaks, *run.not_compiled]
    return {stop.source.function for stop in stops if stop.source}
"""

EXERCISE = Exercise(
    name="breaks_3",
    lesson="03_graph_breaks",
    points=2,
    asks_for=("breaking_calls",),
    check=Check(ask, probe, judge),
    hints=(
        "run.breaks and run.not_compiled say where Dynamo stopped. Print them for Ranker.",
        "Each of them has a source: file, line, code, and the function that the line is in.",
        "Compile the model, observe one call, and collect stop.source.function of all breaks and of not_compiled.",
    ),
    known_mistakes=(
        KnownMistake(  # the model is not compiled
            _START
            + """
def breaking_calls(model, x):
    run = observe(model, x)
    return {stop.source.function for stop in run.breaks}
""",
            "said that none breaks",
        ),
        KnownMistake(  # the outermost frame of the stack
            _START
            + """
def breaking_calls(model, x):
    run = observe(torch.compile(model, backend="eager"), x)
    return {stop.stack[0].function for stop in run.breaks}
""",
            "said {",
        ),
        KnownMistake(  # only the first one
            _START
            + """
def breaking_calls(model, x):
    run = observe(torch.compile(model, backend="eager"), x)
    return {stop.source.function for stop in run.breaks[:1]}
""",
            "the answer is",
        ),
        KnownMistake(  # fullgraph stops at the first one, unless that lies in a try of the model's own
            _START
            + """
def breaking_calls(model, x):
    torch.compile(model, backend="eager", fullgraph=True)(x)
    return set()
""",
            "breaking_calls",
        ),
        KnownMistake(  # every exception hidden
            _START
            + """
def breaking_calls(model, x):
    try:
        torch.compile(model, backend="eager", fullgraph=True)(x)
    except Exception:
        pass
    return set()
""",
            "said that none breaks",
        ),
        KnownMistake(  # what has no graph
            _START
            + """
def breaking_calls(model, x):
    run = observe(torch.compile(model, backend="eager"), x)
    return {one.function for one in run.compiles}
""",
            "said {",
        ),
        KnownMistake(  # looks for words in the code
            _START
            + """
import inspect, sys

def breaking_calls(model, x):
    calls = [f for f in type(model).forward.__globals__.values() if inspect.isfunction(f)]
    words = ("print(", ".item(", "logging", "if ")
    return {f.__name__ for f in calls if any(word in inspect.getsource(f) for word in words)}
""",
            "said {",
        ),
        KnownMistake(_START + '\ndef breaking_calls(model, x):\n    return {"gate", "mix"}\n', "said {gate, mix}"),
        KnownMistake(_START + "\ndef breaking_calls(model, x):\n    return 2\n", "returned no set"),
    ),
    alternatives=(
        _START + _FACTS,
        _START
        + """
def breaking_calls(model, x):
    with observe() as run:
        torch.compile(model, backend="aot_eager")(x)
    return sorted({stop.source.function for stop in run.breaks if not stop.in_callee})
""",
        _START  # each call alone: exactly those that do not become one graph without Python around it
        + """
import inspect

def breaking_calls(model, x):
    names, where = [], type(model).forward.__globals__
    for name, call in [(n, f) for n, f in where.items() if inspect.isfunction(f)]:
        def alone(*args, call=call, name=name):
            run = observe(torch.compile(call, backend="eager"), *args)
            names.extend([name] if run.breaks or run.not_compiled else [])
            return run.result
        where[name] = alone
    model(x)
    return names
""",
    ),
)
