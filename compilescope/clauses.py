"""From what a compiled model did to the clauses of its contract. No torch here: an examiner may decide elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from compilescope.facts import GraphBreak, Run
from compilescope.facts_contract import Clause
from compilescope.text import count, describe_refusal

WARM_UP = 2
"""Calls of the stream in which a compile is allowed."""
ERROR = 1e-4
"""By how much a loss may differ from eager's in float64, relative to it; the same for weights on two ranks."""
SHARE = 0.5
"""At most that part of the operations of a whole-model compile may be traced in the first call."""
SPEED = 0.7
"""Of the tokens per second that reduce-overhead reaches, on a GPU."""


def frames(run: Run) -> int:
    """Frames that a call compiled; -1 where none of it ran compiled."""
    made = sum(bool(one.graphs) for one in run.compiles)
    plain = not run.calls or any(one.outcome in ("gave up", "never compiled", "error") for one in run.calls)
    return -1 if plain and not made else made


def operations(run: Run) -> int:
    """How many operations Dynamo traced in a run: what the first call's time grows with."""
    return sum(len(graph.calls()) for graph in run.graphs)


def of_capture(first: Run) -> list[Clause]:
    """One graph in the first call; no break, nothing in plain Python, and more than captured."""
    stops = [one for one in first.breaks if not one.in_callee]
    graphs = len(first.graphs)
    python = [one for one in first.not_compiled if one.kind != "disabled"]
    found = count(len(stops), "break") + (f", {python[0].function} in plain Python" if python else "")
    said = _stop(stops[0]) if stops else " ".join(python[0].reason.split()[:12]) if python else ""
    only = [one for one in first.compiles if one.graphs and not any(one.graph(s) for s in ("forward", "inference"))]
    why = "nothing was compiled" if not graphs else 'backend="eager" compiles nothing of it' if only else ""
    return [
        Clause("graphs", "1 in the first call", str(graphs), graphs == 1 and not only, why),
        Clause("breaks", "none", found if stops or python else "none", bool(graphs) and not stops and not python, said),
    ]


def _stop(stop: GraphBreak) -> str:
    """``GB0170, if x.sum() > 0:``: the number, and the line if there is one."""
    return ", ".join(filter(None, (stop.gb, stop.source.code.strip() if stop.source else stop.reason)))


def of_stream(runs: Sequence[Run]) -> list[Clause]:
    """At most two calls compile, and none after the warm-up; each runs compiled."""
    made = [frames(run) for run in runs]
    late = [run for run, one in zip(runs[WARM_UP:], made[WARM_UP:], strict=True) if one]
    compiling, python = sum(one > 0 for one in made), sum(one < 0 for one in made)
    why = _refused(late) or _refused(runs)
    found = f"{compiling} of {len(made)}" + (f", {python} in plain Python" if python else "")
    few = made[0] > 0 and compiling <= WARM_UP and not python
    still = made[0] > 0 and not late
    return [
        Clause("calls that compile", f"at most {WARM_UP} of {len(made)}", found, few, "" if few else why),
        Clause("after warm-up", "none", str(len(late)) if late else "none", still, "" if still else why),
    ]


def _refused(runs: Sequence[Run]) -> str:
    """Why the first of these runs that had to compile again did so; empty if none had to."""
    return next((said for run in runs if (said := refused(run))), "")


def refused(run: Run) -> str:
    """The guard of the newest entry that refused, in at most 16 words: that entry knew most. Empty if none did."""
    met = [*(r for c in run.compiles for r in c.refusals), *(r for c in run.calls for r in c.refusals)]
    newest = max(met, key=lambda one: int(one.compile_id.rpartition("/")[2] or 0), default=None)
    return " ".join(describe_refusal(newest).split()[:16]).rstrip(".") if newest else ""


def of_keys(keys: Sequence[str], plain: Sequence[str]) -> Clause:
    """The keys of a checkpoint are those of the plain model."""
    odd = [key for key in keys if key not in plain] + [f"{key} is missing" for key in plain if key not in keys]
    found = f"{len(odd)} too many or missing" if odd else "the same"
    return Clause("checkpoint keys", "those of the plain model", found, not odd, odd[0] if odd else "")


def of_curve(losses: Sequence[float], exact: Sequence[float]) -> Clause:
    """Each loss as eager has it in float64, up to the stated error."""
    pairs = list(zip(losses, exact, strict=True))
    off = max((abs(a - b) / max(abs(b), 1e-12) for a, b in pairs), default=float("nan"))
    return Clause("loss curve", f"within {ERROR:.0e} of float64 eager", f"off by {off:.0e}", off <= ERROR)


def of_start(first: Run, whole: Run) -> Clause:
    """The first call traces a part of what the whole model in one graph would."""
    traced, all_of_it = operations(first), operations(whole)
    share = traced / all_of_it if all_of_it else float("inf")
    wanted = f"at most {SHARE:.0%} of the whole model's operations"
    return Clause("first call traces", wanted, f"{traced} of {all_of_it}, {share:.0%}", 0 < share <= SHARE)


def of_ranks(runs: Sequence[Run], off: float, failed: str = "") -> Clause:
    """No break on either rank, and the weights of one process; `off` is the largest relative difference."""
    name, wanted = "two ranks", "no break, the weights of one process"
    if failed:
        return Clause(name, wanted, "a rank failed", False, failed)
    stops = max(([one for one in run.breaks if not one.in_callee] for run in runs), key=len, default=[])
    graphs = min((len(run.graphs) for run in runs), default=0)
    found = f"{count(len(stops), 'break')}, {count(graphs, 'graph')} a rank, weights off by {off:.0e}"
    return Clause(name, wanted, found, bool(graphs) and not stops and off <= ERROR, _stop(stops[0]) if stops else "")
