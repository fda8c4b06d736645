"""regional_6: the decision list, applied to models that nobody has seen before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.guards.served import unbroken
from autograder.exercises.regional import blocks
from autograder.judging import exact, first_call, operations, same_numbers
from compilescope import observe
from compilescope.facts import Run
from compilescope.text import count


def ask(draw: Draw) -> Values:
    """Three models: one that may be compiled as a whole, one that is too deep, one too deep that must be one graph."""
    kind = draw.choice(list(blocks.KINDS))
    each = {"attention": 9, "feed": 4}[kind]
    cases = []
    for name in ("whole", "regional", "nested"):
        depth = draw.size(2, 4) if name == "whole" else draw.size(7, 9)
        case = blocks.drawn(draw, [kind] * depth, inputs=2)
        most = {
            "whole": each * depth + draw.size(2, 9),
            "regional": each + draw.size(2, 6),
            "nested": each + 2 * depth + 2 + draw.size(0, 2),
        }[name]
        cases.append(case | {"best": name, "most": most, "one_graph": name == "nested" or draw.choice([True, False])})
    for case in cases:
        if case["best"] == "regional":
            case["one_graph"] = False
    return {"cases": blocks.shuffled(draw, cases)}


def probe(answer: Answer, asked: Values) -> Values:
    """What the answer compiles, called twice for each model; keys of the model afterwards."""
    found = []
    for case in asked["cases"]:
        x, y = case["x"]
        net = blocks.net_of(case, x.device)
        told = {name: case[name] for name in ("most", "one_graph")}
        with torch.no_grad():
            serve = answer.compiled(net, x.clone(), **told)
            run = first_call(_label(case), serve, x)
            with observe() as again:
                result = serve(y)
        found.append({"run": run, "again": again, "results": [run.result, result], "keys": list(net.state_dict())})
    return {"found": found}


def _label(case: Values) -> str:
    return f"compiled(…, most={case['most']}, one_graph={case['one_graph']}) of {len(case['kinds'])} blocks"


def judge(asked: Values, found: Values) -> str:
    """Numbers, no break, the budget, one graph where it is asked or affordable; all blocks compiled, keys as before."""
    for case, said in zip(asked["cases"], found["found"], strict=True):
        label, run = _label(case), said["run"]
        for x, got in zip(case["x"], said["results"], strict=True):
            with torch.no_grad():
                same_numbers(label, got, blocks.net_of(case).double()(exact(x)), torch.float32)
        _placed(label, case, run)
        if said["again"].compiles:
            raise NotYet(label, "compiled again in the second call", "none is wanted", "Compile outside of the call.")
        if said["keys"] != list(blocks.net_of(case).state_dict()):
            raise NotYet(label, "changed the keys of state_dict()", "they must stay", "Use block.compile().")
    return f"{len(asked['cases'])} models, each in its place"


def _placed(label: str, case: Values, run: Run) -> None:
    if not run.graphs:
        raise NotYet(label, "compiled nothing", "compiled code is wanted", "Look at what you return.")
    unbroken(run, label)
    used, most = blocks.captured(run), case["most"]
    if used > most:
        spent = f"captured {count(used, 'operation')}"
        look = "A region for each block costs two." if case["one_graph"] else "Blocks of one class need one compile."
        raise NotYet(label, spent, f"at most {most} are allowed", look)
    if len(run.calls) > 1 and case["one_graph"]:
        enters = f"entered compiled code {len(run.calls)} times in a call"
        raise NotYet(label, enters, "one graph is wanted", "Look at nested_compile_region.")
    wanted = _whole(case)
    if sum(wanted.values()) <= most:
        if missing := wanted - operations(run):
            part = f"has {next(iter(missing))} too rarely in its graph"
            raise NotYet(label, part, f"the whole model fits {most} operations", "Take the largest region you can.")
        return
    calls = [call for call in run.calls if call.outcome in ("first compile", "recompile", "hit")]
    entered = sum(len(blocks.nested(graph)) for graph in run.graphs) if case["one_graph"] else len(calls)
    if entered < len(case["kinds"]):
        entries = f"enters compiled regions {entered} times"
        raise NotYet(label, entries, f"{len(case['kinds'])} blocks are to be compiled", "Look at what you compile.")
    held = operations(run)
    for graph in run.graphs:
        for body in graph.inner:
            held.update(node.target for node in body.calls())
    if missing := _block(case) - held:
        raise NotYet(
            label, f"has {next(iter(missing))} in no graph", "the blocks' work belongs there", "Look at show(run)."
        )


def _own(fn: Callable[..., Any], x: torch.Tensor) -> Run:
    torch.compiler.reset()
    with observe() as run, torch.no_grad():
        torch.compile(fn, backend="eager")(x)
    return run


def _whole(case: Values) -> Any:
    return operations(_own(blocks.net_of(case), case["x"][0].cpu()))


def _block(case: Values) -> Any:
    return operations(_own(blocks.net_of(case).blocks[0], case["x"][0].cpu()))


_START = "import torch\nfrom compilescope import observe\n"
_COUNT = """
def size_of(model, x):
    torch.compiler.reset()
    with observe() as run, torch.no_grad():
        torch.compile(lambda x: model(x), backend="eager")(x)
    return sum(len(graph.calls()) for graph in run.graphs)
"""
_REGION = """
@torch.compiler.nested_compile_region
def region(block, x):
    return block(x)

def in_one_graph(model):
    def serve(x):
        x = model.stem(x)
        for block in model.blocks:
            x = region(block, x)
        return model.head(x)
    return torch.compile(serve, backend="aot_eager")
"""
_DECIDE = """
def compiled(model, x, most, one_graph):
    if size_of(model, x) <= most:
        return torch.compile(model, backend="aot_eager")
    if one_graph:
        return in_one_graph(model)
    for block in model.blocks:
        block.compile(backend="aot_eager")
    return model
"""
_ALWAYS = "\ndef compiled(model, x, most, one_graph):\n    {}\n"
_BLOCKS = 'for block in model.blocks:\n        block.compile(backend="aot_eager")\n    return model'

EXERCISE = Exercise(
    name="regional_6",
    lesson="07_regional",
    points=3,
    asks_for=("compiled",),
    check=Check(ask, probe, judge),
    hints=(
        "The list asks in order: does the whole model fit? If not, must it be one graph? Measure before you choose.",
        "Count what the whole model captures with observe and backend eager, then forget it: torch.compiler.reset(). "
        "Too large and one graph: nested regions. Too large, else: each block in place.",
        "if size <= most: return torch.compile(model, backend=…); if one_graph: compile a function that calls stem, "
        "region(block, x) for each block, head; else block.compile(…) for each, return model.",
    ),
    known_mistakes=(
        KnownMistake(_START + _ALWAYS.format('return torch.compile(model, backend="aot_eager")'), "are allowed"),
        KnownMistake(_START + _ALWAYS.format(_BLOCKS), "compiled("),
        KnownMistake(_START + _REGION + _ALWAYS.format("return in_one_graph(model)"), "compiled("),
        KnownMistake(  # forgets one_graph
            _START + _COUNT + _REGION + _DECIDE.replace("    if one_graph:\n        return in_one_graph(model)\n", ""),
            "Look at nested_compile_region",
        ),
        KnownMistake(  # nothing but a guess of the size
            _START + _REGION + _DECIDE.replace("size_of(model, x)", "len(model.blocks)"), "are allowed"
        ),
        KnownMistake(  # captured, and run as it is
            _START + _COUNT + _REGION.replace("aot_eager", "eager") + _DECIDE.replace("aot_eager", "eager"),
            "compiled nothing of it",
        ),
        KnownMistake(_START + _ALWAYS.format("return model"), "compiled nothing"),
        KnownMistake(  # only the head: within every budget
            _START
            + _ALWAYS.format(
                'model.head.forward = torch.compile(model.head.forward, backend="aot_eager")\n    return model'
            ),
            "compiled(",
        ),
        KnownMistake(_START + _ALWAYS.format("return model(x)"), "a function is wanted"),
    ),
    alternatives=(
        _START + _COUNT + _REGION + _DECIDE,
        _START
        + """
class Nested(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
        self.call = torch.compiler.nested_compile_region(lambda block, x: block(x))

    def forward(self, x):
        x = self.model.stem(x)
        for block in self.model.blocks:
            x = self.call(block, x)
        return self.model.head(x)

def compiled(model, x, most, one_graph):
    with torch.no_grad():
        graphs = []
        def count(graph, inputs):
            graphs.append(sum(node.op.startswith("call") for node in graph.graph.nodes))
            return graph
        torch.compile(lambda x: model(x), backend=count)(x)
    torch.compiler.reset()
    if sum(graphs) <= most:
        model.compile(backend="aot_eager")
    elif one_graph:
        return torch.compile(Nested(model), backend="aot_eager")
    else:
        [block.compile(backend="aot_eager") for block in model.blocks]
    return model
""",
    ),
)
