"""One example of each view, from facts made by hand or recorded: nothing is compiled."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from autograder.exercises import everything
from autograder.standing import NOTE, class_page, progress
from compilescope import views
from compilescope.explorer import explore
from compilescope.facts import Call, Compile, Phase, Refusal, Run, Saved
from compilescope.facts_contract import Clause, Contract
from compilescope.facts_ranks import Happening, Rank, Ranks
from compilescope.facts_timing import Span, Timing
from compilescope.recorded import recorded_modes
from compilescope.recorded_ranks import recorded_placements
from compilescope.views import Display

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
import explorer_runs as runs
import modes_given
from test_explorer_targets import elsewhere
from test_views import CALLS, guarded_run

PHASES = (
    Phase("dynamo", "0/0", 0.0, 10.0, 0),
    Phase("create_aot_dispatcher_function", "0/0", 1.0, 8.0, 1),
    Phase("inductor_compile", "0/0", 2.0, 6.0, 2),
    Phase("async_compile.wait", "0/0", 5.0, 2.0, 3),
)
SPANS = (
    Span("host", "launch", 0.0, 5e-6),
    Span("host", "wait", 6e-6, 30e-6),
    Span("device", "fused", 5e-6, 30e-6),
)
STEP = (
    Happening("forward", "0/0"),
    Happening("backward", "0/0"),
    Happening("collective", "all_reduce", elements=12_000),
)


def calls() -> Run:
    return replace(guarded_run(), calls=CALLS)


def saved() -> Run:
    kept = (Saved("x", "float32", (64, 256), 65536, is_input=True), Saved("le", "bool", (64, 256), 16384))
    run = runs.trained_run()
    return replace(run, compiles=(replace(run.compiles[0], saved=kept),))


def two_ranks() -> Ranks:
    run = Run(runs.ORIGIN)
    return Ranks("step", 2, "gloo", (Rank(0, run, STEP), Rank(1, run, STEP[:2])))


def met() -> Run:
    size = Refusal("0/0", "tensor 'x' size mismatch at index 0. expected 4, actual 5", "x", "4", "5")
    again = Call("f", "recompile", 0.1, refusals=(size,))
    return Run(runs.ORIGIN, (Call("f", "first compile", 0.1), again), (Compile("0/0", "f"), Compile("0/1", "f")))


def times() -> tuple[Timing, Timing]:
    warm, steady = (0.5, 0.01), tuple(1e-4 + i * 1e-7 for i in range(40))
    return (
        Timing("eager", runs.ORIGIN, steady, warm),
        Timing("compiled", runs.ORIGIN, tuple(one / 2 for one in steady), warm),
    )


def contracts() -> tuple[Contract, Contract]:
    whole = Clause("whole graph", "1 graph, no breaks", "2 graphs", False, "line 3: print(x)")
    before = Contract(runs.ORIGIN, (whole,), ("4 x 16", "5 x 16"), (2, 2), 1, (1.0, 0.5), (1.0, 0.4))
    kept = replace(whole, found="1 graph", kept=True, why="")
    return before, replace(before, clauses=(kept,), compiled=(1, 0), losses=(1.0, 0.4))


def learner(folder: Path) -> Display:
    """The progress page of somebody who has begun."""
    first, second = everything()[:2]
    notes = folder / first.lesson
    notes.mkdir(exist_ok=True)
    events = ((first.name, "failed"), (first.name, "hint"), (first.name, "passed"), (second.name, "failed"))
    lines = (json.dumps({"exercise": name, "event": event}) for name, event in events)
    (notes / NOTE).write_text("\n".join(lines) + "\n")
    return progress(folder)


def students(folder: Path) -> Display:
    """The progress page of a class of two."""
    for name in ("ada", "bob"):
        (folder / name).mkdir()
        learner(folder / name)
    return class_page(folder)


CASES: dict[str, Callable[[], Display]] = {
    "explorer": lambda: explore(runs.both_targets_run(), others=[elsewhere()]),
    "explorer_breaks": lambda: explore(runs.broken_run()),
    "explorer_nothing": lambda: explore(runs.uncompiled_run()),
    "autotuning": lambda: views.autotuning(modes_given.TABLE, "decode", "max-autotune-no-cudagraphs"),
    "compare": lambda: views.compare(runs.broken_run(), runs.fused_run()),
    "compare_entries": lambda: views.compare_entries(*guarded_run().compiles),
    "contract_report": lambda: views.contract_report(*contracts()),
    "cuda_graphs": lambda: views.cuda_graphs(modes_given.TABLE, "decode"),
    "depth_cost": lambda: views.depth_cost(recorded_modes("depth")),
    "guard_tree": lambda: views.guard_tree(guarded_run()),
    "kernel_bars": lambda: views.kernel_bars(runs.fused_run()),
    "lane_plot": lambda: views.lane_plot({"eager": SPANS, "compiled": SPANS[1:]}, "clockwork"),
    "mode_frontier": lambda: views.mode_frontier(modes_given.TABLE),
    "placement_bars": lambda: views.placement_bars(recorded_placements()),
    "road": lambda: views.road(Run(runs.ORIGIN, phases=PHASES)),
    "saved_bars": lambda: views.saved_bars(saved()),
    "side_by_side": lambda: views.side_by_side(two_ranks()),
    "strips": lambda: views.strips({"shape": met()}, cures={"shape": ("mark_dynamic", met())}),
    "time_plot": lambda: views.time_plot(*times()),
    "timeline": lambda: views.timeline(calls()),
}
"""Name of the view, as `compilescope.views` exports it, to an example; the explorer has three."""
