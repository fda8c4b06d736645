"""The picture for a student: the graph of their own call, and its facts beside those of a right answer.

Drawn outside the sandbox from the facts that crossed the wire. These come from the student's process, so nothing of
them is trusted: they are cut to a size that is quickly drawn, every text is escaped, and the graph is an image, in
which no script runs.
"""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Iterator, Mapping
from typing import Any

from compilescope.explorer.page import Page
from compilescope.explorer.static import still
from compilescope.facts import Compile, Graph, Run
from compilescope.views.display import data_uri

Facts = dict[str, str]
"""What can be counted in a run, by its name in the table."""

LARGEST = 60_000
"""Bytes of one picture in the feedback; a larger one is left out, and said to be."""
MOST_NODES, MOST_EDGES, MOST_COMPILES, MOST_LINES, MOST_TEXT = 100, 300, 8, 80, 300
"""Of a run, what is drawn: of each graph, of each run, of each source, of each text."""

_TABLE = "border-collapse:collapse;margin:6px 0"
_CELL = "border:1px solid #bbb;padding:2px 10px;text-align:left"


def picture_of(found: Any, wanted: Mapping[str, Facts]) -> str:
    """HTML of one run in what a probe reported: the first that differs from `wanted`; empty if no run crossed."""
    runs = dict(walk_runs(found))
    if not runs:
        return ""
    try:
        seen = {path: facts_of(run) for path, run in runs.items()}
        path = next((path for path in runs if path in wanted and wanted[path] != seen[path]), next(iter(runs)))
        of_many = f", call {list(runs).index(path) + 1} of {len(runs)}" if len(runs) > 1 else ""
        return _table(seen[path], wanted.get(path, {}), of_many) + _image(runs[path])
    except Exception:  # facts that no compiler reports; the sentence above says what is wrong
        return "<p>Your process reported facts that cannot be drawn.</p>"


def walk_runs(values: Any, path: str = "") -> Iterator[tuple[str, Run]]:
    """Each Run in what a probe reported, in order, with its place: ``cases.0.run``."""
    if isinstance(values, Run):
        yield path, values
    elif isinstance(values, (dict, list)):
        pairs = values.items() if isinstance(values, dict) else enumerate(values)
        for key, value in pairs:
            yield from walk_runs(value, f"{path}.{key}" if path else str(key))


def facts_of(run: Run) -> Facts:
    """Graphs, breaks and recompiles of a run, the operations in its graphs, and its kernels where it has any."""
    gave_up = list(dict.fromkeys(stop.gb for stop in run.breaks if stop.gb))
    names = f" ({', '.join(gave_up[:4])})"[:MOST_TEXT] if gave_up else ""
    found = {
        "graphs": str(len(run.graphs)),
        "graph breaks": f"{sum(not stop.in_callee for stop in run.breaks)}{names}",
        "recompiles": str(len(run.recompiles)),
        "operations in graphs": str(sum(len(graph.calls()) for graph in run.graphs)),
    }
    return found | ({"kernels": str(len(run.kernels))} if run.code else {})


def _table(yours: Facts, wanted: Facts, of_many: str) -> str:
    heads = ["", f"Your answer{of_many}", *(["A right answer", ""] if wanted else [])]
    rows = ["".join(f"<th style='{_CELL}'>{html.escape(head)}</th>" for head in heads)]
    for name in dict.fromkeys([*yours, *wanted]):
        mine, its = yours.get(name, "0"), wanted.get(name, "0")
        cells = [name, mine, *([its, "≠" if mine != its else "="] if wanted else [])]
        rows.append("".join(f"<td style='{_CELL}'>{html.escape(cell)}</td>" for cell in cells))
    made = f"<table style='{_TABLE}'>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
    return made + ("<p>Other right answers may differ in what the exercise leaves open.</p>" if wanted else "")


def _image(run: Run) -> str:
    drawn, left_out = _cut(run)
    svg = still(Page.of(drawn))
    uri = data_uri(svg)
    if len(uri) > LARGEST:
        return "<p>The picture of your graphs is too large for this page: draw it yourself with show(run).</p>"
    note = f"<p>Not drawn: {html.escape(', '.join(left_out))}.</p>" if left_out else ""
    words = "; ".join(f"{name}: {count}" for name, count in facts_of(run).items())
    alt = html.escape(f"What torch.compile made of your answer. {words}.", quote=True)
    return f'<img alt="{alt}" src="{uri}" style="max-width:100%">{note}'


def _cut(run: Run) -> tuple[Run, list[str]]:
    """The run as far as it is drawn, and what is not: too many compiles, or graphs too large to lay out quickly."""
    left_out = []
    if len(run.compiles) > MOST_COMPILES:
        left_out.append(f"{len(run.compiles) - MOST_COMPILES} more compiles")
    compiles = []
    for compiled in run.compiles[:MOST_COMPILES]:
        graphs = [graph for graph in compiled.graphs if graph.stage == "dynamo"]
        small = tuple(dataclasses.replace(graph, text="") for graph in graphs if _is_small(graph))
        left_out += [f"a graph of {len(graph.nodes)} nodes" for graph in graphs if not _is_small(graph)]
        compiles.append(_drawn(compiled, small))
    cells = [file for file in run.sources if re.fullmatch(r"cell \d{1,4}", file)]  # not the check's own file
    sources = {file: _lines(run.sources[file]) for file in cells[:2]}
    kept = dataclasses.replace(
        run, compiles=tuple(compiles), breaks=run.breaks[:MOST_COMPILES], calls=run.calls[:MOST_COMPILES],
        not_compiled=run.not_compiled[:3], sources=sources, phases=(), autotuning=(), pretended=(), notes=(),
    )  # fmt: skip
    return _clipped(kept), left_out


def _drawn(compiled: Compile, graphs: tuple[Graph, ...]) -> Compile:
    """A compile with its Dynamo graphs only: they are what the exercises speak of, and small."""
    return dataclasses.replace(
        compiled, graphs=graphs, code=(), guards=(), guards_text="", refusals=compiled.refusals[:1], symbols=(),
        saved=(), provenance={}, bytecode_before="", bytecode_after="",
    )  # fmt: skip


def _is_small(graph: Graph) -> bool:
    """Whether it is laid out in well under a second: few nodes and edges, bodies of ``torch.cond`` one level deep."""
    nodes = [node for one in (graph, *graph.inner) for node in one.nodes]
    edges = sum(len(node.inputs) for node in nodes)
    return len(nodes) <= MOST_NODES and edges <= MOST_EDGES and not any(inner.inner for inner in graph.inner)


def _lines(text: str) -> str:
    return "\n".join(line[:MOST_TEXT] for line in text[: MOST_LINES * MOST_TEXT].splitlines()[:MOST_LINES])


def _clipped(value: Any, longest: int = MOST_TEXT) -> Any:
    """`value` with every text in it cut to `longest` characters; sources are cut before, line by line."""
    if isinstance(value, str):
        return value[:longest]
    if isinstance(value, tuple):
        return tuple(_clipped(one, longest) for one in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {
            field.name: _clipped(getattr(value, field.name), longest)
            for field in dataclasses.fields(value)
            if field.name not in ("sources", "result")
        }
        return dataclasses.replace(value, **changed)
    return value
