"""regional_3: one body in one graph, called once for each block."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.guards.served import unbroken
from autograder.exercises.regional import blocks
from autograder.judging import called, exact, first_call, graphs_made, operations, same_numbers
from compilescope import observe
from compilescope.facts import Run
from compilescope.text import count

LABELS = {
    "serving": "through(blocks, gains, x), compiled",
    "training": "through(blocks, gains, x), compiled for training,",
}
_FETCHES = ("invoke_subgraph", "getitem")
"""What may stand in the graph: the regions' calls, and taking the result of one."""


def ask(draw: Draw) -> Values:
    """Four or five blocks of one kind, a gain for each, and an input."""
    depth = draw.size(4, 5)
    gains = [one.clone() for one in draw.tensor(depth).abs() + 0.5]  # no views: torch 2.11 shares none of them
    return blocks.drawn(draw, [draw.choice(list(blocks.KINDS))] * depth, inputs=1) | {"gains": gains}


def probe(answer: Answer, asked: Values) -> Values:
    """Compiles the answer around the blocks: without gradients, then with an input that wants one."""
    through: Any = called("make_through()", answer.make_through)
    found: Values = {}
    for name, training in (("serving", False), ("training", True)):
        x = asked["x"][0].clone().requires_grad_(training)
        net = blocks.net_of(asked, x.device)
        if not callable(through):
            called(LABELS[name], through)
        with torch.set_grad_enabled(training):
            fast = torch.compile(through, backend="aot_eager")
            run = first_call(LABELS[name], fast, net.blocks, asked["gains"], x)
            if training and isinstance(run.result, torch.Tensor) and run.result.requires_grad:
                run.result.sum().backward()
        found[name] = {"run": run, "result": run.result, "gradient": x.grad}
    return found


def judge(asked: Values, found: Values) -> str:
    """Numbers and gradient, one graph, a region for each block, one body that holds the block's work."""
    net, x = blocks.net_of(asked).double(), exact(asked["x"][0]).requires_grad_()
    with torch.enable_grad():
        want = x
        for block, gain in zip(net.blocks, asked["gains"], strict=True):
            want = block(want) * exact(gain)
        (gradient,) = torch.autograd.grad(want.sum(), [x])
    with observe() as own, torch.no_grad():
        block, gain = blocks.net_of(asked).blocks[0], asked["gains"][0].cpu()
        torch.compile(lambda x: block(x) * gain, backend="aot_eager")(asked["x"][0].cpu())
    for name, label in LABELS.items():
        same_numbers(label, found[name]["result"], want.detach(), torch.float32)
        _one_body(label, found[name]["run"], len(asked["kinds"]), own)
    same_numbers("The gradient of x", found["training"]["gradient"], gradient, torch.float32)
    return f"{len(asked['kinds'])} calls of one body"


def _one_body(label: str, run: Run, depth: int, own: Run) -> None:
    unbroken(run, label)
    graphs_made(run, label, 1)
    graph = run.graphs[0]
    bodies = blocks.nested(graph)
    if not bodies:
        none = "has no nested region in its graph"
        raise NotYet(label, none, f"{depth} are wanted", "Look at torch.compiler.nested_compile_region.")
    if len(bodies) != depth:
        calls = f"calls {count(len(bodies), 'nested region')}"
        raise NotYet(label, calls, f"{depth} are wanted, one for each block", "Look at what your region holds.")
    if len(set(bodies)) != 1:
        has = f"has {len(set(bodies))} bodies"
        raise NotYet(label, has, "one is wanted, shared by all blocks", "Look at what differs between the calls.")
    outside = [one for one in graph.calls() if not one.target.endswith(_FETCHES)]
    if outside:
        leaves = f"computes {outside[0].target} outside its regions"
        raise NotYet(label, leaves, "all of it belongs inside", "Look at what your region takes and returns.")
    held = Counter(node.target for body in graph.inner for node in body.calls())
    if missing := operations(own) - held:
        has = f"has {next(iter(missing))} in no body"
        raise NotYet(label, has, "the work of a block belongs inside", "Look at what your region computes.")


_START = "import torch\n"
_REGION = """
@torch.compiler.nested_compile_region
def scaled_block(block, gain, x):
    return block(x) * gain
"""
_THROUGH = """
def through(blocks, gains, x):
    for i, block in enumerate(blocks):
        x = {}
    return x
"""
_RIGHT = _THROUGH.format("scaled_block(block, gains[i], x)")

_MADE = """
def make_through():
    return through
"""


def _wrong(code: str, says: str) -> KnownMistake:
    return KnownMistake(_START + code + _MADE, says)


EXERCISE = Exercise(
    name="regional_3",
    lesson="07_regional",
    points=2,
    asks_for=("make_through",),
    check=Check(ask, probe, judge),
    hints=(
        "What repeats is a block with its gain. Which function holds just that, and what must it be given?",
        "A region is a function with the decorator, outside of through. A tensor argument may differ from call to "
        "call; a Python number makes another body.",
        "@torch.compiler.nested_compile_region above def step(block, gain, x): return block(x) * gain. In the loop of "
        "through: x = step(block, gains[i], x). Then return through.",
    ),
    known_mistakes=(
        _wrong(_THROUGH.format("block(x) * gains[i]"), "has no nested region"),
        _wrong(  # the region holds the loop
            "@torch.compiler.nested_compile_region" + _THROUGH.format("block(x) * gains[i]"),
            "one for each block",
        ),
        _wrong(  # compiled one by one: taken into the outer graph
            """
def through(blocks, gains, x):
    for block, gain in zip(blocks, gains):
        block.compile(backend="aot_eager")
        x = block(x) * gain
    return x
""",
            "through(blocks, gains, x), compiled",
        ),
        _wrong(  # a number makes each call another one
            """
@torch.compiler.nested_compile_region
def step(block, gains, i, x):
    return block(x) * torch.stack(gains)[i]
"""
            + _THROUGH.format("step(block, gains, i, x)"),
            "one is wanted, shared",
        ),
        _wrong(  # the block without its gain
            """
@torch.compiler.nested_compile_region
def step(block, x):
    return block(x)
"""
            + _THROUGH.format("step(block, x) * gains[i]"),
            "outside its regions",
        ),
        _wrong(  # the first block is called by itself
            _REGION
            + """
def through(blocks, gains, x):
    x = blocks[0](x) * gains[0]
    for block, gain in zip(blocks[1:], gains[1:]):
        x = scaled_block(block, gain, x)
    return x
""",
            "one for each block",
        ),
        _wrong(  # marked again in each trace
            """
def through(blocks, gains, x):
    @torch.compiler.nested_compile_region
    def step(block, gain, x):
        return block(x) * gain
    for i, block in enumerate(blocks):
        x = step(block, gains[i], x)
    return x
""",
            "through(blocks, gains, x), compiled",
        ),
        _wrong(_REGION + _THROUGH.format("scaled_block(blocks[0], gains[i], x)"), "float64 result"),
        _wrong(  # no gradient reaches the input
            _REGION.replace("block(x)", "block(x.detach())") + _THROUGH.format("scaled_block(block, gains[i], x)"),
            "The gradient of x",
        ),
    ),
    alternatives=(
        _START + _REGION + _RIGHT + _MADE,
        """
from torch.compiler import nested_compile_region

class Loop:
    @staticmethod
    @nested_compile_region
    def step(block, x, gain):
        return gain * block(x)

def through(blocks, gains, x):
    for block, gain in zip(blocks, gains):
        x = Loop.step(block, x, gain)
    return x
"""
        + _MADE,
    ),
)
