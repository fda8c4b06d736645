"""basic_1: one graph out of a function that calls other functions."""

from __future__ import annotations

from typing import Any

import torch

from autograder.exercise import Answer, Draw, Exercise, KnownMistake
from autograder.judging import all_compiled, called, first_call, graphs_made, really_compiled, same_numbers


def drawn_metrics(draw: Draw) -> list[Any]:
    """Metrics of daily prices [stocks, days]; two calls give functions with equal code and other constants."""
    days, share = draw.size(200, 365), draw.size(2, 9) / 10

    def volatility(prices: torch.Tensor) -> Any:
        return prices.log().diff(dim=-1).std(-1) * days**0.5

    def drawdown(prices: torch.Tensor) -> Any:
        return (1 - prices / prices.cummax(-1).values).amax(-1)

    def momentum(prices: torch.Tensor) -> Any:
        return prices[:, -1] / prices[:, 0] - 1

    def above(prices: torch.Tensor) -> Any:
        return (prices > share * prices.mean(-1, keepdim=True)).to(prices.dtype).mean(-1)

    return sorted((volatility, drawdown, momentum, above), key=lambda _: draw.size(0, 10**6))


def check(answer: Answer, draw: Draw) -> None:
    """One graph that holds every operation, with numbers as in float64, also for a second input."""
    metrics = drawn_metrics(draw)[: draw.size(2, 4)]
    dtype = draw.choice((torch.float32, torch.float64))
    prices = 1 + draw.tensor(draw.size(3, 9), draw.size(20, 60), dtype=dtype).abs()
    report = called("compile_report(metrics)", answer.compile_report, metrics)
    label = "report(prices)"
    run = first_call(label, report, prices)
    same_numbers(label, run.result, torch.stack([metric(prices.double()) for metric in metrics]), dtype)
    graphs_made(run, label, 1)
    really_compiled(run, label)
    others = prices.flip(-1) + 1  # what was kept from the first call is no answer to another
    label = "report(other prices)"
    again = called(label, report, others)
    same_numbers(label, again, torch.stack([metric(others.double()) for metric in metrics]), dtype)
    all_compiled(label, report, others)


_START = "import torch\n"

EXERCISE = Exercise(
    name="basic_1",
    lesson="01_basic_compile",
    points=2,
    asks_for=("compile_report",),
    check=check,
    hints=(
        "Count the graphs of your report with len(observe(report, prices).graphs), and see whose graphs they are.",
        "A compiled function takes the functions it calls into its graph. So compile only the outermost one.",
        "Inside compile_report, define report(prices), which stacks every metric. Return torch.compile(report, …).",
    ),
    known_mistakes=(
        KnownMistake(  # a graph for each metric, and the stack stays in Python
            _START
            + """
def compile_report(metrics):
    fast = [torch.compile(metric, backend="aot_eager") for metric in metrics]
    return lambda prices: torch.stack([metric(prices) for metric in fast])
""",
            "wants 1",
        ),
        KnownMistake(  # the compiled function is dropped
            _START
            + """
def compile_report(metrics):
    def report(prices):
        return torch.stack([metric(prices) for metric in metrics])
    torch.compile(report, backend="aot_eager")
    return report
""",
            "made 0 graphs",
        ),
        KnownMistake(  # a first call instead of the function
            _START
            + """
def compile_report(metrics):
    def report(prices):
        return torch.stack([metric(prices) for metric in metrics])
    return torch.compile(report, backend="aot_eager")(torch.rand(4, 30))
""",
            "a function is wanted",
        ),
        KnownMistake(  # captured, then run as it is
            _START
            + """
def compile_report(metrics):
    return torch.compile(lambda prices: torch.stack([metric(prices) for metric in metrics]), backend="eager")
""",
            "compiled nothing of it",
        ),
        KnownMistake(  # written for the two metrics of the example
            _START
            + """
def compile_report(metrics):
    def report(prices):
        volatility = prices.log().diff(dim=-1).std(-1) * 252**0.5
        return torch.stack([volatility, prices[:, -1] / prices[:, 0] - 1])
    return torch.compile(report, backend="aot_eager")
""",
            "report(prices)",
        ),
        KnownMistake(  # the compiled part only stacks
            _START
            + """
def compile_report(metrics):
    stack = torch.compile(lambda parts: torch.stack(parts), backend="aot_eager")
    return lambda prices: stack([metric(prices) for metric in metrics])
""",
            "outside its graph",
        ),
        KnownMistake(  # every failure hidden, eager result returned
            _START
            + """
def compile_report(metrics):
    def report(prices):
        try:
            return torch.compile(lambda p: undefined(p), backend="aot_eager")(prices)
        except Exception:
            return torch.stack([metric(prices) for metric in metrics])
    return report
""",
            "graph",
        ),
        KnownMistake(  # compiling is switched off
            _START
            + """
def compile_report(metrics):
    torch.compiler.set_stance("force_eager")
    return torch.compile(lambda prices: torch.stack([metric(prices) for metric in metrics]), backend="aot_eager")
""",
            "made 0 graphs",
        ),
        KnownMistake(
            _START
            + """
import torch._dynamo
def compile_report(metrics):
    report = torch.compile(lambda prices: torch.stack([metric(prices) for metric in metrics]), backend="aot_eager")
    return torch._dynamo.config.patch(disable=True)(report)
""",
            "made 0 graphs",
        ),
        KnownMistake(  # torch patched, counters forged
            _START
            + """
import torch._dynamo
def compile_report(metrics):
    torch._dynamo.utils.counters["stats"]["unique_graphs"] = 1
    kept, torch.compile = torch.compile, lambda fn, **options: fn
    report = torch.compile(lambda prices: torch.stack([metric(prices) for metric in metrics]), backend="aot_eager")
    torch.compile = kept
    return report
""",
            "made 0 graphs",
        ),
    ),
    alternatives=(
        _START
        + """
def compile_report(metrics):
    @torch.compile(backend="aot_eager", fullgraph=True)
    def report(prices):
        rows = []
        for metric in metrics:
            rows.append(metric(prices))
        return torch.stack(rows)
    return report
""",
        _START
        + """
class Report(torch.nn.Module):
    def __init__(self, metrics):
        super().__init__()
        self.metrics = tuple(metrics)

    def forward(self, prices):
        return torch.stack([metric(prices) for metric in self.metrics])

def compile_report(metrics):
    report = Report(metrics)
    report.compile(backend="aot_eager", fullgraph=True)
    return report
""",
        _START
        + """
from functools import partial

def report(metrics, prices):
    return torch.stack(tuple(metric(prices) for metric in metrics))

def compile_report(metrics):
    return partial(torch.compile(report, backend="aot_eager", dynamic=False), metrics)
""",
    ),
)
