"""basic_1: one graph out of a function that calls other functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, Values
from autograder.judging import (
    called,
    eager_operations,
    first_call,
    graphs_hold,
    graphs_made,
    none_outside,
    really_compiled,
    same_numbers,
)

Metric = Callable[[torch.Tensor], Any]


def metrics_of(asked: Values) -> list[Metric]:
    """Metrics of daily prices [stocks, days]; two calls give functions with equal code and their own constants."""
    days, share = asked["days"], asked["share"]

    def volatility(prices: torch.Tensor) -> Any:
        return prices.log().diff(dim=-1).std(-1) * days**0.5

    def drawdown(prices: torch.Tensor) -> Any:
        return (1 - prices / prices.cummax(-1).values).amax(-1)

    def momentum(prices: torch.Tensor) -> Any:
        return prices[:, -1] / prices[:, 0] - 1

    def above(prices: torch.Tensor) -> Any:
        return (prices > share * prices.mean(-1, keepdim=True)).to(prices.dtype).mean(-1)

    there = {"volatility": volatility, "drawdown": drawdown, "momentum": momentum, "above": above}
    return [there[name] for name in asked["metrics"]]


def ask(draw: Draw) -> Values:
    """Two to four metrics in some order, their constants, and prices [stocks, days] for two calls."""
    names = sorted(("volatility", "drawdown", "momentum", "above"), key=lambda _: draw.size(0, 10**6))
    dtype = draw.choice((torch.float32, torch.float64))
    prices = 1 + draw.tensor(draw.size(3, 9), draw.size(20, 60), dtype=dtype).abs()
    return {
        "metrics": names[: draw.size(2, 4)],
        "days": draw.size(200, 365),
        "share": draw.size(2, 9) / 10,
        "prices": prices,
        "others": prices.flip(-1) + 1,  # what was kept from the first call is no answer to another
    }


def probe(answer: Answer, asked: Values) -> Values:
    """The first call, a second one, and what a third still runs outside its graph."""
    report = called("compile_report(metrics)", answer.compile_report, metrics_of(asked))
    run = first_call("report(prices)", report, asked["prices"])
    again = called("report(other prices)", report, asked["others"])
    outside = list(eager_operations(report, asked["others"]))
    return {"run": run, "result": run.result, "again": again, "outside": outside}


def judge(asked: Values, found: Values) -> None:
    """One graph that holds every operation, with numbers as in float64, also for a second input."""
    metrics, dtype = metrics_of(asked), asked["prices"].dtype

    def report(prices: torch.Tensor) -> torch.Tensor:
        return torch.stack([metric(prices) for metric in metrics])

    label, run = "report(prices)", found["run"]
    same_numbers(label, found["result"], report(asked["prices"].double()), dtype)
    graphs_made(run, label, 1)
    really_compiled(run, label)
    same_numbers("report(other prices)", found["again"], report(asked["others"].double()), dtype)
    none_outside(label, found["outside"])
    one_by_one = torch.compile(lambda prices: tuple(metric(prices) for metric in metrics), backend="aot_eager")
    graphs_hold(label, run, first_call("The check's own report", one_by_one, asked["prices"]))


_START = "import torch\n"

EXERCISE = Exercise(
    name="basic_1",
    lesson="01_basic_compile",
    points=2,
    asks_for=("compile_report",),
    check=Check(ask, probe, judge),
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
        KnownMistake(  # the work hides in an operator that Dynamo does not look into
            _START
            + """
def compile_report(metrics):
    @torch.library.custom_op("reports::all_of_it", mutates_args=())
    def all_of_it(prices: torch.Tensor) -> torch.Tensor:
        return torch.stack([metric(prices) for metric in metrics])
    all_of_it.register_fake(lambda prices: prices.new_empty(len(metrics), len(prices)))
    return torch.compile(lambda prices: all_of_it(prices), backend="aot_eager")
""",
            "in none of its graphs",
        ),
        KnownMistake(  # the work hides in a thread, beside a graph for show
            _START
            + """
from concurrent.futures import ThreadPoolExecutor
def compile_report(metrics):
    show = torch.compile(lambda prices: prices.sin(), backend="aot_eager")
    workers = ThreadPoolExecutor(1)
    def report(prices):
        show(prices)
        return workers.submit(lambda: torch.stack([metric(prices) for metric in metrics])).result()
    return report
""",
            "in none of its graphs",
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
