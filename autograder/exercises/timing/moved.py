"""timing_4: bytes that eager and a fused kernel must move, predicted from the graph and counted in the kernels."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.judging import called, first_call
from compilescope.facts import Graph, Kernel, Node, Run

PREDICT, COUNT = "predicted_bytes(graph)", "counted_bytes(kernels)"
_STEPS = {
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "cos": torch.cos,
    "neg": torch.neg,
}


def ask(draw: Draw) -> Values:
    """Two runs with kernels for an H100: a chain that becomes one kernel, and one that cannot.

    Its tensors stay on the CPU, as the H100 is a pretended one; an answer sees the facts of the runs only.
    """
    rows, columns = draw.size(250, 350), draw.size(250, 350)
    dtype = draw.choice((torch.float64, torch.bfloat16))
    x, y = (draw.tensor(rows, columns, dtype=dtype).cpu() for _ in range(2))
    row = draw.tensor(columns, dtype=dtype).cpu()
    steps = [_STEPS[draw.choice(tuple(_STEPS))] for _ in range(draw.size(2, 4))]

    def chain(x: torch.Tensor, y: torch.Tensor, row: torch.Tensor) -> Any:
        out = x * row
        for step in steps:
            out = step(out)
        return out + y, out * out

    def normalized(x: torch.Tensor, y: torch.Tensor) -> Any:
        out = x
        for step in steps:
            out = step(out)
        return out / x.sum() + y

    return {"one kernel": _observed(chain, x, y, row), "several kernels": _observed(normalized, x, y)}


def _observed(fn: Any, *args: torch.Tensor) -> Run:
    run = first_call("The check's own function", torch.compile(fn, backend="eager"), *args, on="h100")
    return Run.from_json(run.to_json())  # facts only: what the call returned is nobody's business


def probe(answer: Answer, asked: Values) -> Values:
    """What both functions say of each run."""
    said: Values = {}
    for name, run in asked.items():
        predicted = called(PREDICT, answer.predicted_bytes, run.graphs[0])
        if not isinstance(predicted, (tuple, list)) or len(predicted) != 2 or not all(map(_whole, predicted)):
            raise NotYet(
                PREDICT, f"returned {str(predicted)[:40]}", "(eager, fused) in bytes", "Look at the docstring."
            )
        counted = called(COUNT, answer.counted_bytes, run.pretended[0].kernels)
        if not _whole(counted):
            raise NotYet(
                COUNT, f"returned {str(counted)[:40]}", "a number of bytes is wanted", "Look at the docstring."
            )
        said[name] = [*map(int, predicted), int(counted)]
    return said


def _whole(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, float)) and float(value).is_integer()


def bytes_of(node: Node) -> int:
    """Size of what a node gives."""
    itemsize = getattr(torch, node.dtype or "float32").itemsize
    return int(math.prod(size for size in node.shape or () if isinstance(size, int)) * itemsize)


def eager_bytes(graph: Graph) -> int:
    """Each operation reads each of its tensors once and writes its result."""
    return sum(_of(graph, node.inputs) + bytes_of(node) for node in graph.calls())


def fused_bytes(graph: Graph) -> int:
    """Each input of the graph is read once and each output written once."""
    inputs = [node.name for node in graph.nodes if node.op == "placeholder"]
    outputs = {name for node in graph.nodes if node.op == "output" for name in node.inputs}
    return _of(graph, inputs) + _of(graph, outputs)


def _of(graph: Graph, names: Iterable[str]) -> int:
    return sum(bytes_of(graph.node(name)) for name in names)


def moved_by(kernels: Iterable[Kernel]) -> int:
    """What the kernels read and write, each launch counted."""
    return sum(((one.bytes_read or 0) + (one.bytes_written or 0)) * one.launches for one in kernels)


def judge(asked: Values, found: Values) -> str:
    """The three numbers of both runs."""
    ratio = 0.0
    for name, run in asked.items():
        graph, kernels = run.graphs[0], run.pretended[0].kernels
        eager, fused, counted = found[name]
        true = eager_bytes(graph), fused_bytes(graph), moved_by(kernels)
        _same(PREDICT, name, "eager", eager, true[0], "Look at each operation: all of its inputs, and its result.")
        _same(PREDICT, name, "fused", fused, true[1], "Look at which tensors must come from memory or stay there.")
        _same(COUNT, name, "its kernels", counted, true[2], "Look at what a Kernel reads and what it writes.")
        ratio = ratio or eager / fused
    return f"one kernel moves {ratio:.1f} times fewer bytes here"


def _same(label: str, name: str, what: str, said: int, true: int, look: str) -> None:
    if said != true:
        raise NotYet(f"{label} of {name}", f"says {what}: {said:,} bytes", f"{true:,} are right", look)


_START = """
import math
import torch

def size_of(node):
    return math.prod(node.shape) * getattr(torch, node.dtype).itemsize
"""
_RIGHT = """
def predicted_bytes(graph):
    size = {node.name: size_of(node) for node in graph.nodes if node.shape is not None}
    eager = sum(sum(size[name] for name in node.inputs) + size[node.name] for node in graph.calls())
    inputs = [node.name for node in graph.nodes if node.op == "placeholder"]
    return eager, sum(size[name] for name in inputs) + sum(size[name] for name in graph.nodes[-1].inputs)

def counted_bytes(kernels):
    return sum((kernel.bytes_read + kernel.bytes_written) * kernel.launches for kernel in kernels)
"""

EXERCISE = Exercise(
    name="timing_4",
    lesson="02_timing",
    points=3,
    asks_for=("predicted_bytes", "counted_bytes"),
    check=Check(ask, probe, judge),
    hints=(
        "Print a node: node.inputs are the names of what it reads. graph.nodes[-1] is the output, its inputs the "
        "results.",
        "Eager: each operation reads all of its tensors and writes its result. Fused: only what enters the "
        "graph and what leaves it moves.",
        "size = {node.name: size_of(node) …}; eager = sum over graph.calls() of size[inputs] + size[result]; fused = "
        "the placeholders + the inputs of the output. Kernels know bytes_read, bytes_written, launches.",
    ),
    known_mistakes=(
        KnownMistake(_START + _RIGHT.replace("+ size[node.name] for", "for"), "and its result"),
        KnownMistake(_START + _RIGHT.replace("sum(size[name] for name in node.inputs) + ", ""), "all of its inputs"),
        KnownMistake(  # two passes for each operation, whatever its inputs
            _START + _RIGHT.replace("sum(size[name] for name in node.inputs) + size[node.name]", "2 * size[node.name]"),
            "all of its inputs",
        ),
        KnownMistake(_START.replace("getattr(torch, node.dtype).itemsize", "4") + _RIGHT, "bytes"),
        KnownMistake(
            _START + _RIGHT.replace("return eager, sum(size[name] for name in inputs) +", "return eager,"),
            "must come from memory",
        ),
        KnownMistake(_START + _RIGHT.replace(" + kernel.bytes_written", ""), "what it writes"),
        KnownMistake(  # the numbers of the lesson's own chain
            "def predicted_bytes(graph):\n    return 402653184, 134217728\n\n"
            "def counted_bytes(kernels):\n    return 134217728\n",
            "all of its inputs",
        ),
        KnownMistake(  # believes the prediction
            _START
            + _RIGHT
            + "\ndef counted_bytes(kernels):\n    return kernels[0].bytes_read + kernels[0].bytes_written\n",
            "its kernels",
        ),
        KnownMistake(_START + _RIGHT.replace("return eager, ", "return "), "(eager, fused)"),
    ),
    alternatives=(
        _START + _RIGHT,
        _START
        + """
def predicted_bytes(graph):
    eager = fused = 0
    for node in graph.nodes:
        read = sum(size_of(graph.node(name)) for name in dict.fromkeys(node.inputs))
        if node.op == "call":
            eager += read + size_of(node)
        elif node.op == "output":
            fused += read
        else:
            fused += size_of(node)
    return eager, fused

def counted_bytes(kernels):
    total = 0
    for kernel in kernels:
        for _ in range(kernel.launches):
            total += kernel.bytes_read + kernel.bytes_written
    return total
""",
        _START
        + """
from collections import Counter

def predicted_bytes(graph):
    moved = Counter()
    for node in graph.calls():
        moved.update({name: 1 for name in node.inputs})
        moved[node.name] += 1
    ends = [n.name for n in graph.nodes if n.op == "placeholder"] + list(graph.nodes[-1].inputs)
    total = lambda names: sum(size_of(graph.node(name)) for name in names)
    return total(moved.elements()), total(ends)

def counted_bytes(kernels):
    reads, writes = zip(*[(k.bytes_read * k.launches, k.bytes_written * k.launches) for k in kernels])
    return sum(reads) + sum(writes)
""",
    ),
)
