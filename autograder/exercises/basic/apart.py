"""basic_4: which operations were decomposed into which, read off the graphs of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as PyTorch's own documentation writes it

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.judging import called, first_call, kind_of
from compilescope.facts import Run

DECOMPOSING = "aot_eager_decomp_partition"
"""torch's own backend that goes as far as Inductor's decompositions and writes no code."""

OPERATIONS: tuple[Callable[[torch.Tensor], Any], ...] = (
    F.gelu,
    F.silu,
    F.softplus,
    F.hardswish,
    lambda x: F.layer_norm(x, x.shape[-1:]),
    lambda x: x.softmax(-1),
    lambda x: x.log_softmax(-1),
    lambda x: F.leaky_relu(x, 0.1),
    lambda x: x.std(-1, keepdim=True) + 1,
    lambda x: x.sigmoid(),
)


def observed(draw: Draw, stage: str) -> Run:
    """A run of two lines with three drawn operations, which has that stage."""
    first, second, third = (draw.choice(OPERATIONS) for _ in range(3))

    def model(x: torch.Tensor, scale: torch.Tensor) -> Any:
        hidden = first(x) * scale
        return third(second(hidden) + x).sum()

    x = draw.tensor(draw.size(3, 9), draw.size(4, 20), requires_grad=stage != "inference")

    def call(fn: Any) -> Any:
        loss = fn(x, torch.ones(x.shape[-1], device=x.device))
        return loss.backward() if stage == "backward" else loss

    return first_call("The check's own function", call, torch.compile(model, backend=DECOMPOSING))


def wanted(run: Run, stage: str) -> dict[str, list[str]]:
    """Name of each Dynamo node to the targets that carry it as an origin, in order."""
    found: dict[str, list[str]] = {}
    for _, node in run.walk_nodes(stage):
        for origin in node.origins if node.op == "call" else ():
            found.setdefault(origin, []).append(node.target)
    return found


def ask(draw: Draw) -> Values:
    """Two fresh runs, one of them a backward pass."""
    stages = [draw.choice(("inference", "forward")), "backward"]
    return {"stages": stages, "runs": [observed(draw, stage) for stage in stages]}


def _label(stage: str) -> str:
    return f'taken_apart(run, "{stage}")'


def probe(answer: Answer, asked: Values) -> Values:
    """What the answer says of each run."""
    pairs = zip(asked["runs"], asked["stages"], strict=True)
    return {"apart": [called(_label(stage), answer.taken_apart, run, stage) for run, stage in pairs]}


def judge(asked: Values, found: Values) -> str:
    """The same lists as the origins of the graph's nodes give."""
    want: dict[str, list[str]] = {}
    for run, stage, got in zip(asked["runs"], asked["stages"], found["apart"], strict=True):
        want, label = wanted(run, stage), _label(stage)
        if not isinstance(got, dict):
            raise NotYet(label, f"returned {kind_of(got)}", "a dict is wanted", "Look at the docstring.")
        for name in {**want, **got}:
            _same(label, name, got.get(name), want.get(name))
    longest = max(want, key=lambda name: len(want[name]))
    return f"{longest} became {len(want[longest])} operations"


def _same(label: str, name: str, got: Any, want: list[str] | None) -> None:
    if not want:
        if got == []:
            return  # an operation that became nothing may be listed as such
        extra = f"holds {name!r}", "it has no operation in that graph"
        raise NotYet(label, *extra, "Look at the origins of its nodes.")
    if got is None:
        raise NotYet(label, f"lacks {name!r}", f"it became {_short(want)}", "Look at the origins of each node.")
    if got != want:
        other = (
            f"says {name!r} became {_short(got) if isinstance(got, list) else kind_of(got)}",
            f"{_short(want)} is wanted",
        )
        raise NotYet(label, *other, "Look at the order, the number, and whose origin it is.")


def _short(targets: Any) -> str:
    names = [str(target) for target in targets]
    return ", ".join(names[:3]) + (f" … ({len(names)})" if len(names) > 3 else "")


_LOOP = """
def taken_apart(run, stage):
    found = {}
    for compiled in run.compiles:
        for node in compiled.graph(STAGE).calls():
            for origin in node.origins:
                found.setdefault(origin, []).append(node.target)
    return found
"""

EXERCISE = Exercise(
    name="basic_4",
    lesson="01_basic_compile",
    points=2,
    asks_for=("taken_apart",),
    check=Check(ask, probe, judge),
    hints=(
        'run.compiles[0].graph("forward").calls() are the nodes you see in the picture. Print one.',
        "Each node knows the Dynamo nodes it comes from: node.origins. What it computes is node.target.",
        "Start with an empty dict. For each node, for each of its origins: setdefault(origin, []).append(node.target).",
    ),
    known_mistakes=(
        KnownMistake(_LOOP.replace("STAGE", '"dynamo"'), "lacks"),
        KnownMistake(  # one stage for all
            """
def taken_apart(run, stage):
    graph = run.compiles[0].graph("inference") or run.compiles[0].graph("joint")
    found = {}
    for node in graph.calls():
        for origin in node.origins:
            found.setdefault(origin, []).append(node.target)
    return {} if stage == "inference" else found
""",
            "taken_apart(run",
        ),
        KnownMistake(_LOOP.replace("STAGE", "stage").replace("node.target", "node.name"), "is wanted"),
        KnownMistake(  # equal operations counted once
            _LOOP.replace("STAGE", "stage").replace(
                "    return found", "    return {name: sorted(set(targets)) for name, targets in found.items()}"
            ),
            "is wanted",
        ),
        KnownMistake(  # groups by line, and a line holds several operations
            """
def taken_apart(run, stage):
    found = {}
    for compiled in run.compiles:
        by_line = {}
        for node in compiled.graph(stage).calls():
            by_line.setdefault(node.source, []).append(node.target)
        for node in compiled.graph("dynamo").calls():
            found[node.name] = by_line.get(node.source, [])
    return found
""",
            "became",
        ),
        KnownMistake(  # only what was taken apart into several
            _LOOP.replace("STAGE", "stage").replace(
                "    return found", "    return {name: targets for name, targets in found.items() if len(targets) > 9}"
            ),
            "lacks",
        ),
        KnownMistake(  # typed from the picture
            "def taken_apart(run, stage):\n"
            "    return {'gelu': ['aten.mul.Tensor', 'aten.mul.Tensor', 'aten.erf.default', 'aten.add.Tensor']}\n",
            "taken_apart(run",
        ),
        KnownMistake(
            "def taken_apart(run, stage):\n    return [node.target for _, node in run.walk_nodes(stage)]\n",
            "a dict is wanted",
        ),
    ),
    alternatives=(
        _LOOP.replace("STAGE", "stage"),
        """
from collections import defaultdict

def taken_apart(run, stage):
    found = defaultdict(list)
    for _, node in run.walk_nodes(stage):
        if node.op == "call":
            for origin in node.origins:
                found[origin].append(node.target)
    return dict(found)
""",
        """
def taken_apart(run, stage):
    nodes = run.compiles[0].graph(stage).calls()
    origins = dict.fromkeys(origin for node in nodes for origin in node.origins)
    return {origin: tuple(node.target for node in nodes if origin in node.origins) for origin in origins}
""",
    ),
)
