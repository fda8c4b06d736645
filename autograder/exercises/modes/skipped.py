"""modes_4: why there was no CUDA graph, and the same function without the reason."""

from __future__ import annotations

from typing import Any

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.bonus import decode
from autograder.judging import (
    beside,
    called,
    eager_operations,
    exact,
    first_call,
    graphs_made,
    kind_of,
    none_outside,
    same_numbers,
)
from compilescope import observe
from compilescope.facts import Run, Source
from compilescope.facts_kernels import CudaGraphs, GraphSkip
from compilescope.facts_modes import TimedCall, Trial
from compilescope.recorded import recorded_modes


def ask(draw: Draw) -> Values:
    """What was recorded of graphs on the H200, with other lines; and a state with an input."""
    table = recorded_modes("cuda_graphs")
    wanted = [one for one in table.trials if one.cuda_graphs is not None and not one.error]
    skipped = [one for one in wanted if one.cuda_graphs and one.cuda_graphs.skipped]
    others = sorted((one for one in wanted if one not in skipped), key=lambda _: draw.number(0, 1))[:4]
    trials = [_told(one, draw) for one in sorted([*skipped, *others], key=lambda _: draw.number(0, 1))]
    shape = draw.size(3, 9), draw.size(3, 9)
    return {"trials": trials, "state": draw.tensor(*shape), "x": draw.tensor(*shape), "again": draw.tensor(*shape)}


def _told(trial: Trial, draw: Draw) -> Values:
    skips = trial.cuda_graphs.skipped if trial.cuda_graphs else ()
    line = draw.choice(("x.add_(1)", "state.mul_(0.9)", "seen[0] += 1", "cache[:, -1] = x", "mean.lerp_(x, 0.1)"))
    return {
        "workload": trial.workload,
        "reason": skips[0].reason if skips else "",
        "line": draw.size(2, 90) if skips else 0,
        "code": line if skips else "",
        "graphs": sum(one.recorded for one in trial.calls),
    }


def _trial(told: Values) -> Trial:
    source = Source("model.py", told["line"], "forward", told["code"])
    skips = (GraphSkip(told["reason"], source),) if told["reason"] else ()
    graphs = CudaGraphs(told["graphs"], told["graphs"], told["graphs"], skips)
    return Trial(told["workload"], "reduce-overhead", (TimedCall(1.0, 1),), cuda_graphs=graphs)


def probe(answer: Answer, asked: Values) -> Values:
    """Which lines the answer blames, and what its function does with a state."""
    blamed = {t["workload"]: called("blamed_line(trial)", answer.blamed_line, _trial(t)) for t in asked["trials"]}
    state, x = asked["state"], asked["x"]
    before = state.clone()
    compiled: Any = torch.compile(answer.averaged, backend="aot_eager")
    with torch.no_grad(), beside(x):
        run = first_call("averaged(state, x)", compiled, state, x)
        found = {"blamed": blamed, "run": run, "result": _copied(run.result), "same": bool(torch.equal(state, before))}
        found |= {
            "again": _copied(compiled(before, asked["again"])),
            "outside": [*eager_operations(compiled, before, x)],
        }
        if torch.cuda.is_available():
            torch.compiler.reset()
            replayed: Any = torch.compile(answer.averaged, mode="reduce-overhead")
            graphs = [observe(replayed, before, x).cuda_graphs or CudaGraphs() for _ in range(3)]
            found["recorded"] = sum(one.recorded for one in graphs)
            found["skipped"] = [skip.reason for one in graphs for skip in one.skipped]
    return found


def _copied(result: Any) -> Any:
    return [one.clone() if isinstance(one, torch.Tensor) else one for one in result] if _is_pair(result) else result


def _is_pair(result: Any) -> bool:
    return isinstance(result, (tuple, list)) and len(result) == 2


def judge(asked: Values, found: Values) -> str:
    """The blamed lines; then numbers, and that no input is written to."""
    for told in asked["trials"]:
        got, want = found["blamed"][told["workload"]], told["code"] or None
        if got != want:
            label = f"blamed_line(trial of {told['workload']!r})"
            look = "Look at trial.cuda_graphs.skipped." if want else "This one was not skipped."
            raise NotYet(label, f"returned {got!r}"[:60], f"{want!r} is wanted", look)
    label = "averaged(state, x)"
    for given, which in (("x", "result"), ("again", "again")):
        _numbers(label, asked["state"], asked[given], found[which])
    if not found["same"]:
        raise NotYet(label, "changed its argument state", "the caller's state stays as it is", _LOOK)
    run: Run = found["run"]
    graphs_made(run, label, 1)
    if run.breaks:
        where = run.breaks[0].source
        look = f"Dynamo stopped at line {where.line}, {where.code.strip()}" if where else run.breaks[0].reason
        raise NotYet(label, "breaks its graph", "all of it belongs into one graph", look)
    none_outside(label, found["outside"])
    if written := _written(run):
        raise NotYet(label, f"has a graph that writes to its input ({written})", "none may", _LOOK)
    if found.get("skipped") or found.get("recorded") == 0:
        reason = "".join(found["skipped"][:1]) or "Nothing was recorded."
        raise NotYet(label, "ran without a CUDA graph", "one is wanted", reason)
    return "no reason is left to skip it"


_LOOK = "Look for functions that end in an underscore, and for +=."


def _numbers(label: str, state: torch.Tensor, x: torch.Tensor, result: Any) -> None:
    if not _is_pair(result):
        raise NotYet(label, f"returned {kind_of(result)}", "(output, new state) is wanted", "Look at your return line.")
    wide = 0.99 * exact(state) + 0.01 * exact(x)
    same_numbers(f"The output of {label}", result[0], (exact(x) - wide).tanh(), torch.float32)
    same_numbers(f"The new state of {label}", result[1], wide, torch.float32)


def _written(run: Run) -> str:
    """The placeholder that a graph copies into, or empty."""
    for compiled in run.compiles:
        for stage in ("inference", "forward"):
            graph = compiled.graph(stage)
            inputs = {node.name for node in graph.nodes if node.op == "placeholder"} if graph else set()
            for node in graph.calls() if graph else ():
                if node.target.startswith("aten.copy_") and node.inputs and node.inputs[0] in inputs:
                    return node.inputs[0]
    return ""


_START = "import torch\n"
_BLAMED = """
def blamed_line(trial):
    skips = trial.cuda_graphs.skipped
    return skips[0].source.code if skips else None
"""
_AVERAGED = """
def averaged(state, x):
    state = 0.99 * state + 0.01 * x
    return (x - state).tanh(), state
"""

EXERCISE = Exercise(
    name="modes_4",
    lesson="05_modes",
    points=3,
    asks_for=("blamed_line", "averaged"),
    check=Check(ask, probe, judge),
    hints=(
        "trial.cuda_graphs.skipped holds one entry for each reason; print it for 'mutates its input'.",
        "A graph that writes to an argument would write to its static copy. Return the new state instead.",
        "blamed_line: skipped[0].source.code, or None. averaged: new = state * 0.99 + x * 0.01; return both.",
    ),
    known_mistakes=(
        KnownMistake(  # still in place
            _START
            + _BLAMED
            + """
def averaged(state, x):
    state.mul_(0.99).add_(x, alpha=0.01)
    return (x - state).tanh(), state
""",
            "changed its argument",
        ),
        KnownMistake(  # a copy for the caller, and the argument is still written
            _START
            + _BLAMED
            + """
def averaged(state, x):
    new = state * 0.99 + x * 0.01
    state.copy_(state)
    return (x - new).tanh(), new
""",
            "writes to its input",
        ),
        KnownMistake(  # the state is lost
            _START
            + _BLAMED
            + """
def averaged(state, x):
    return (x - (state * 0.99 + x * 0.01)).tanh()
""",
            "(output, new state) is wanted",
        ),
        KnownMistake(  # the old state
            _START
            + _BLAMED
            + """
def averaged(state, x):
    new = state * 0.99 + x * 0.01
    return (x - state).tanh(), new
""",
            "The output of",
        ),
        KnownMistake(  # outside of the graph
            _START
            + _BLAMED
            + """
@torch.compiler.disable
def update(state, x):
    return 0.99 * state + 0.01 * x

def averaged(state, x):
    state = update(state, x)
    return (x - state).tanh(), state
""",
            "breaks its graph",
        ),
        KnownMistake(  # blames whatever was not replayed
            _START
            + """
def blamed_line(trial):
    return "state.mul_(0.99)"
"""
            + _AVERAGED,
            "is wanted",
        ),
        KnownMistake(  # the reason is no line
            _START
            + """
def blamed_line(trial):
    return trial.cuda_graphs.skipped[0].reason if trial.cuda_graphs.skipped else None
"""
            + _AVERAGED,
            "blamed_line(trial of 'mutates its input') returned 'mutated inputs",
        ),
    ),
    alternatives=(
        _START
        + """
def blamed_line(trial):
    for skip in trial.cuda_graphs.skipped:
        return skip.source.code

def averaged(state, x):
    new = torch.lerp(state, x, 0.01)
    return torch.tanh(x - new), new
""",
        _START
        + """
def blamed_line(trial):
    lines = [skip.source.code for skip in trial.cuda_graphs.skipped if skip.source]
    return lines[0] if lines else None

def averaged(state, x):
    new = state.clone()
    new.mul_(0.99).add_(x, alpha=0.01)
    return (x - new).tanh(), new
""",
    ),
    bonus=decode.BONUS,
)
