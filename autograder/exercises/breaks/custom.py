"""breaks_5: a library call that Dynamo cannot read, as a custom op with its fake."""

from __future__ import annotations

import bisect
from typing import Any

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.breaks.seen import BACKEND, calls_of, is_custom, no_break
from autograder.judging import called, graphs_made, same_numbers
from compilescope import observe

LABEL = "bucket(2 * x, edges)"


def codes(values: list[float], edges: list[float]) -> list[int]:
    """For each value the number of edges at or below it; `edges` ascend."""
    return [bisect.bisect(edges, value) for value in values]


def ask(draw: Draw) -> Values:
    """X of one and of two dimensions, each with edges of its own, on one of which an element of 2x lies."""
    cases = []
    for shape in ((draw.size(5, 12),), (draw.size(3, 6), draw.size(2, 5))):
        x = draw.tensor(*shape)
        edges = torch.cat([draw.tensor(draw.size(2, 6)), 2 * x.flatten()[:1]]).sort().values
        cases.append([x, edges])
    return {"cases": cases}


def probe(answer: Answer, asked: Values) -> Values:
    """For each case what a fullgraph compile did, or the text of what it raised; and what opcheck says of the op.

    That an op leaves the GPU and comes back to it no machine without one can see, so no verdict depends on it: the op
    is judged on the CPU everywhere. On a GPU the calls are repeated there, for a word on what came of it.
    """
    op = called("make_bucket()", answer.make_bucket)
    if not callable(op):
        called("bucket", op)
    fast = torch.compile(lambda x, edges: op(2 * x, edges) + 1, backend=BACKEND, fullgraph=True)
    here = [[one.cpu() for one in case] for case in asked["cases"]]
    found: Values = {"cases": [_one(fast, *case) for case in here], "opcheck": _opcheck(op, here)}
    return {**found, "on the gpu": [_one(fast, *case) for case in asked["cases"] if case[0].is_cuda]}


def _one(fast: Any, x: torch.Tensor, edges: torch.Tensor) -> Values:
    torch.compiler.reset()
    with observe() as run:
        try:
            result, error = fast(x, edges), ""
        except Exception as raised:
            result, error = None, f"{type(raised).__name__}: {raised}"
    return {"run": run, "result": result, "error": error}


def _opcheck(op: Any, cases: list[list[torch.Tensor]]) -> list[str]:
    """Names of the tests that refuse the op, in any of the cases."""
    try:
        verdicts = [torch.library.opcheck(op, tuple(case), raise_exception=False) for case in cases]
    except Exception as raised:  # no custom op at all
        return [type(raised).__name__]
    return [test for one in verdicts for test, verdict in one.items() if verdict != "SUCCESS"]


def judge(asked: Values, found: Values) -> str:
    """The library's codes plus 1, int64, in one graph that holds the op; opcheck finds nothing."""
    wanted = [_wanted(*case) for case in asked["cases"]]
    for want, one in zip(wanted, found["cases"], strict=True):
        label = f"{LABEL} for x of shape {tuple(want.shape)}"
        if one["error"]:
            _failed(label, one["error"])
        same_numbers(label, one["result"], want)
        if one["result"].dtype != torch.int64:
            raise NotYet(label, f"gave {one['result'].dtype}", "int64 is wanted", "Look at dtype= in op and fake.")
        graphs_made(one["run"], label, 1)
        no_break(one["run"], label)
        if not any(is_custom(target) for target in calls_of(one["run"])):
            inside = f"put {calls_of(one['run'])[1]} into the graph"
            raise NotYet(label, inside, "your custom op is wanted there", "Look at torch.library.custom_op.")
    _checked(found["opcheck"])
    return "in the graph, and opcheck agrees" + _on_the_gpu(found["on the gpu"], wanted)


def _wanted(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    doubled = (2 * x.cpu()).flatten().tolist()
    return torch.tensor(codes(doubled, edges.tolist()), dtype=torch.int64).view(x.shape) + 1


def _on_the_gpu(calls: list[Values], wanted: list[torch.Tensor]) -> str:
    """A word about the same calls on a GPU, where there is one; never points."""
    for one, want in zip(calls, wanted, strict=False):
        if one["error"]:
            return f"; bonus not yet: on CUDA tensors it raised {one['error'].partition(':')[0]}"
        result = one["result"]
        if not isinstance(result, torch.Tensor) or not result.is_cuda or not torch.equal(result.cpu(), want):
            return "; bonus not yet: what CUDA tensors gave is not on the GPU"
    return "; bonus: it takes CUDA tensors, and gives CUDA tensors" if calls else ""


def _failed(label: str, error: str) -> None:
    if "fake impl" in error:
        raise NotYet(label, "has no fake", "Dynamo asks it for shape and dtype", "Look at register_fake.")
    kind = error.partition(":")[0]
    raise NotYet(label, f"raised {kind} under fullgraph", "one graph is wanted", "Call the op by itself first.")


def _checked(refused: list[str]) -> None:
    if refused:
        raise NotYet(
            "torch.library.opcheck(bucket, …)",
            f"refused it in {refused[0]}",
            "each of its tests must pass",
            "Compare shape and dtype of op and fake, and what it mutates.",
        )


_START = """
import bisect
import torch

def library_codes(values, edges):
    return [bisect.bisect(edges, value) for value in values]
"""
_OP = """
def make_bucket():
    @torch.library.custom_op("course::bucket", mutates_args=())
    def bucket(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        found = library_codes(x.flatten().tolist(), edges.tolist())
        return torch.tensor(found, device=x.device).view(x.shape)

    @bucket.register_fake
    def _(x, edges):
        return torch.empty_like(x, dtype=torch.int64)

    return bucket
"""

EXERCISE = Exercise(
    name="breaks_5",
    lesson="03_graph_breaks",
    points=3,
    asks_for=("make_bucket",),
    check=Check(ask, probe, judge),
    hints=(
        "Call torch.library.opcheck(make_bucket(), (torch.randn(5), torch.tensor([0.0, 1.0]))) yourself.",
        "The op runs the library at run time. Its fake runs while Dynamo traces: it makes an empty tensor of the "
        "right shape and dtype, and reads no values.",
        'Decorate bucket(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor with torch.library.custom_op("course::'
        'bucket", mutates_args=()); then @bucket.register_fake.',
    ),
    known_mistakes=(
        KnownMistake(  # no fake
            _START + _OP.replace("    @bucket.register_fake\n", ""),
            "has no fake",
        ),
        KnownMistake(  # the fake forgets the dtype
            _START + _OP.replace("torch.empty_like(x, dtype=torch.int64)", "torch.empty_like(x)"),
            "refused it in test_faketensor",
        ),
        KnownMistake(  # the fake knows one dimension only
            _START + _OP.replace("torch.empty_like(x, dtype=torch.int64)", "x.new_empty(len(x), dtype=torch.int64)"),
            "refused it in test_faketensor",
        ),
        KnownMistake(  # the fake reads values
            _START + _OP.replace("torch.empty_like(x, dtype=torch.int64)", "bucket(x, edges)"),
            "raised",
        ),
        KnownMistake(  # the library called as it is
            _START
            + """
def make_bucket():
    def bucket(x, edges):
        found = library_codes(x.flatten().tolist(), edges.tolist())
        return torch.tensor(found, device=x.device).view(x.shape)
    return bucket
""",
            "raised Unsupported",
        ),
        KnownMistake(  # kept out of the graph
            _START
            + """
def make_bucket():
    @torch.compiler.disable
    def bucket(x, edges):
        found = library_codes(x.flatten().tolist(), edges.tolist())
        return torch.tensor(found, device=x.device).view(x.shape)
    return bucket
""",
            "raised Unsupported",
        ),
        KnownMistake(  # another operation instead of the library
            _START + "\ndef make_bucket():\n    return lambda x, edges: torch.bucketize(x, edges, right=True)\n",
            "custom op is wanted",
        ),
        KnownMistake(  # says that it mutates nothing, and does
            _START
            + _OP.replace("        return torch.tensor(found", "        x.zero_()\n        return torch.tensor(found"),
            "refused it in test_schema",
        ),
        KnownMistake(  # codes of the wrong side
            _START.replace("bisect.bisect(", "bisect.bisect_left(") + _OP,
            "float64 result",
        ),
        KnownMistake(  # the compile is hidden behind a try
            _START
            + """
def make_bucket():
    def bucket(x, edges):
        try:
            found = library_codes(x.flatten().tolist(), edges.tolist())
        except Exception:
            found = []
        return torch.tensor(found, device=x.device).view(x.shape)
    return bucket
""",
            "raised",
        ),
    ),
    alternatives=(
        _START + _OP,
        _START
        + """
def make_bucket():
    def bucket(x, edges):
        found = torch.tensor(library_codes(x.reshape(-1).tolist(), edges.tolist()), dtype=torch.int64)
        return found.reshape(x.shape).to(x.device)

    op = torch.library.custom_op(
        "course::bucket_of", bucket, mutates_args=(), schema="(Tensor x, Tensor edges) -> Tensor"
    )
    op.register_fake(lambda x, edges: torch.empty(x.shape, dtype=torch.int64, device=x.device))
    return op
""",
        _START
        + """
library = torch.library.Library("course_bucket", "FRAGMENT")

def make_bucket():
    library.define("bucket(Tensor x, Tensor edges) -> Tensor")

    def bucket(x, edges):
        return torch.tensor(library_codes(x.flatten().tolist(), edges.tolist())).view(x.shape)

    library.impl("bucket", bucket, "CPU")  # no CUDA tensor may enter: right, and without the bonus
    torch.library.register_fake("course_bucket::bucket", lambda x, e: x.new_empty(x.shape, dtype=torch.int64))
    return torch.ops.course_bucket.bucket
""",
    ),
)
