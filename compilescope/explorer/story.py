"""A run as the explorer tells it: graphs in order, and between them why the one before ended."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from compilescope.facts import Call, Compile, Graph, GraphBreak, Refusal, Run, Source
from compilescope.text import count, describe_refusal


@dataclass(frozen=True)
class Seam:
    """What stands before a graph (or after the last one): a graph break or a recompile."""

    kind: str
    """``break`` or ``recompile``."""
    title: str
    reason: str
    detail: str = ""
    tag: str = ""
    """``GB0059``."""
    source: Source | None = None


@dataclass(frozen=True)
class Chapter:
    """One compile, the seams in front of it, and its name in the picture (``Graph 2``)."""

    compiled: Compile
    name: str
    before: tuple[Seam, ...] = ()
    after: tuple[Seam, ...] = ()
    part: int = 0
    """Of a Dynamo graph that the backend cut into several, `compiled` holds this one's graphs and code."""
    parts: int = 1

    @property
    def key(self) -> str:
        """``0/0``, or ``0/0, part 2 of 3``: no two chapters of a run have the same."""
        return self.compiled.compile_id + (f", part {self.part + 1} of {self.parts}" if self.parts > 1 else "")

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """Its own graphs: the first part shows the Dynamo graph for all of them."""
        return tuple(graph for graph in self.compiled.graphs if not (self.part and graph.stage == "dynamo"))


def chapters(run: Run) -> tuple[Chapter, ...]:
    """The compiles of `run` in order, part by part; each break stands once, before the graph that resumes after it."""
    known = {c.compile_id for c in run.compiles}
    last = run.compiles[-1].compile_id if run.compiles else ""
    resumed: dict[str, list[Seam]] = {}
    ended: dict[str, list[Seam]] = {}
    for stop in run.breaks:
        if stop.after in known:
            resumed.setdefault(str(stop.after), []).append(break_seam(stop))
        else:
            at = next((c for c in (stop.before, stop.compile_id) if c in known), last)
            ended.setdefault(at, []).append(break_seam(stop))
    found = []
    number = 0
    for compiled in run.compiles:
        number += 1 if compiled.graphs else 0
        name = f"Graph {number}" if compiled.graphs else f"Frame {compiled.compile_id}"
        again = tuple(refusal_seam(compiled, refusal) for refusal in compiled.refusals[:1])
        before = (*resumed.get(compiled.compile_id, ()), *again)
        found += _parts(Chapter(compiled, name, before, tuple(ended.get(compiled.compile_id, ()))))
    return tuple(found)


def _parts(whole: Chapter) -> list[Chapter]:
    """A chapter for each part that the backend compiled: DDP cuts the Dynamo graph at its buckets."""
    count = whole.compiled.parts
    if count < 2:
        return [whole]
    return [
        Chapter(
            whole.compiled.of_part(part),
            f"{whole.name} part {part + 1}",
            whole.before if part == 0 else (),
            whole.after if part == count - 1 else (),
            part,
            count,
        )
        for part in range(count)
    ]


def break_seam(stop: GraphBreak) -> Seam:
    """The seam of a graph break: the Python line and the numbered reason."""
    source = stop.source
    title = f"Back to Python at line {source.line}: {source.code.strip()}" if source else "Back to Python"
    title += " (in a function that it calls)" if stop.in_callee else ""
    detail = " ".join([stop.explanation.strip(), *(hint.strip() for hint in stop.hints[:2])]).strip()
    return Seam("break", title, stop.reason, detail, stop.gb or "", source)


def refusal_seam(compiled: Compile, refusal: Refusal) -> Seam:
    """The seam of a recompile: which guard refused, the value then and the value now."""
    title = f"{compiled.function or 'Frame'} compiled again"
    return Seam("recompile", title, describe_refusal(refusal), refusal.expression, "", refusal.source)


def graph_count(run: Run) -> int:
    """How many graphs were captured; compiles without a Dynamo graph, as in a trace cut short, count once each."""
    return len(run.graphs) or sum(bool(compiled.graphs) for compiled in run.compiles)


def headline(run: Run) -> str:
    """What a reader wants to know first: ``f: 2 graphs, 1 break, 3 kernels``."""
    if not graph_count(run):
        return "Nothing was compiled"
    names = list(dict.fromkeys(c.function for c in run.compiles if c.function and not c.is_resume))
    counts = [count(graph_count(run), "graph"), count(sum(not stop.in_callee for stop in run.breaks), "graph break")]
    counts += [count(len(run.recompiles), "recompile")] if run.recompiles else []
    counts += [count(sum(len(c.kernels) for c in run.code), "kernel")] if run.code else []
    return f"{', '.join(names[:3]) or 'this code'}: {', '.join(counts)}"


@dataclass(frozen=True)
class Nothing:
    """Why there is no graph to show, one function each, and what to do."""

    function: str
    reason: str
    remedy: str
    source: Source | None = None


def nothing(run: Run) -> tuple[Nothing, ...]:
    """What ran without being compiled; also says so when the run held no compile because all calls were hits."""
    found = [Nothing(n.function, n.reason, n.remedy, n.source) for n in run.not_compiled]
    if graph_count(run) or found:
        return tuple(found)
    if run.breaks:
        return tuple(_given_up(stop) for stop in run.breaks)
    outcomes = Counter(call.outcome for call in run.calls)
    name = _called(run.calls)
    if outcomes["hit"]:
        return (
            Nothing(
                name,
                f"{count(outcomes['hit'], 'call')} ran code that was compiled before you started to look.",
                "To see the compile, call torch.compiler.reset() first, then observe again.",
            ),
        )
    if errors := [c.error for c in run.compiles if c.error]:
        return (Nothing(name, f"The compile failed: {errors[0].strip().splitlines()[0]}", "Mend that line first."),)
    if run.calls:
        return (Nothing(name, f"The call ended as: {', '.join(outcomes)}.", "Look at run.calls for each of them."),)
    return (
        Nothing(
            "",
            "No compiled function was called while observe was looking.",
            "Wrap the function in torch.compile, and call it inside `with observe() as run:`.",
        ),
    )


def _given_up(stop: GraphBreak) -> Nothing:
    """A break that left no graph behind: in a loop, a ``with`` or a ``try`` it makes the whole frame plain Python."""
    name = stop.source.function if stop.source else ""
    reason = f"Dynamo gave the whole function up: {stop.explanation or stop.reason}"
    tag = f" ({stop.gb})" if stop.gb else ""
    remedy = "Move that line out of the loop, the with or the try; then only the graph breaks there."
    return Nothing(name, reason.rstrip(".") + tag + ".", remedy, stop.source)


def _called(calls: tuple[Call, ...]) -> str:
    return ", ".join(dict.fromkeys(call.function for call in calls))
