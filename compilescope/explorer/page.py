"""Run → the data that the explorer's script draws: each text and each picture once, short keys, whole pixels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from compilescope.explorer import code_pane, labels
from compilescope.explorer.code_pane import Text
from compilescope.explorer.links import Links, link
from compilescope.explorer.nested import opened
from compilescope.explorer.picture import Picture, draw
from compilescope.explorer.story import Chapter, Seam, chapters, graph_count, headline, nothing
from compilescope.explorer.targets import Learner, target_name
from compilescope.facts import STAGES, Kernel, Run, Source
from compilescope.text import describe_missing, notes, size

STAGE_NAMES = {
    "dynamo": "Dynamo",
    "joint": "joint",
    "forward": "forward",
    "backward": "backward",
    "inference": "inference",
    "post_grad": "post-grad",
    "post_grad_backward": "post-grad backward",
}
_FIRST_CHOICE = ("post_grad", "inference", "forward", "dynamo")


@dataclass
class Page:
    """What is drawn of one run: its chapters with links and pictures, for the static picture and for the script."""

    run: Run
    chapters: tuple[Chapter, ...]
    name: str
    """Of its target's tab."""
    links: dict[str, Links] = field(default_factory=dict)
    pictures: dict[tuple[str, str], Picture] = field(default_factory=dict)

    @staticmethod
    def of(run: Run, name: str = "", *, fold: bool = True) -> Page:
        """Lay out every graph of `run`; without a `name`, the target is called after the run's origin."""
        page = Page(run, chapters(run), name or target_name(run.origin))
        for chapter in page.chapters:
            page.links[chapter.key] = link(chapter.compiled)
            for graph in (g for g in chapter.graphs if page.shows(g.stage)):
                key = chapter.key, graph.stage
                page.pictures[key] = draw(graph, chapter.compiled, page.links[chapter.key], fold=fold)
        return page

    def first_stage(self) -> str:
        """The stage to show first: the one that the kernels were made from, if there are kernels."""
        there = {stage for _, stage in self.pictures}
        order = _FIRST_CHOICE if self.run.code else ("dynamo", *_FIRST_CHOICE)
        return next((stage for stage in (*order, *sorted(there)) if stage in there), "dynamo")

    def shows(self, stage: str) -> bool:
        """Whether that stage is a tab: for a pretended GPU only those that differ from this machine's."""
        alike = ("joint", "forward", "backward", "inference")
        return not (self.run.origin.kind == "pretended" and self.run.code and stage in alike)

    def picture(self, key: str, stage: str) -> Picture | None:
        """The picture of that stage of the chapter with this key; None if it has no such stage."""
        return self.pictures.get((key, stage))


def used_sources(run: Run) -> Iterator[Source]:
    """Every line of the learner that a fact of `run` points to."""
    for compiled in run.compiles:
        if compiled.file:
            text = run.sources.get(compiled.file, "").split("\n")
            code = text[compiled.line - 1] if 0 < compiled.line <= len(text) else ""
            yield Source(compiled.file, compiled.line, compiled.function, code)
        for graph in compiled.graphs:
            yield from (node.source for node in opened(graph).graph.nodes if node.source)
        yield from (r.source for r in compiled.refusals if r.source)
    yield from (stop.source for stop in run.breaks if stop.source)
    yield from (missed.source for missed in run.not_compiled if missed.source)


def data(pages: list[Page], *, ptx: bool = False) -> dict[str, Any]:
    """Everything the script needs, as plain JSON values; the first page is the run itself, the others its targets."""
    run = pages[0].run
    lines = Lines(pages)
    store = _Store()
    targets = [
        {
            "name": page.name,
            "origin": page.run.origin.sentence(),
            "head": headline(page.run),
            "notes": [*notes(page.run), *describe_missing(page.run)],
            "stage": page.first_stage(),
            "parts": [_part(page, chapter, lines, store, ptx) for chapter in page.chapters],
        }
        for page in pages
    ]
    values, places = store.laid_out()
    return {
        "none": [_nothing(item, lines) for item in nothing(run)],
        "empty": not graph_count(run),
        "src": [_text(text) for text in lines.texts],
        "targets": targets,
        "stages": {stage: stage_name(stage) for stage in (*STAGES, *_strange_stages(pages))},
        "pics": values,
        "at": places,
    }


def stage_name(stage: str) -> str:
    """``post-grad`` for ``post_grad``; a stage that a later torch made up is called as it is."""
    return STAGE_NAMES.get(stage, stage)


def _strange_stages(pages: Iterable[Page]) -> list[str]:
    return sorted({stage for page in pages for _, stage in page.pictures} - set(STAGES))


class Lines:
    """The files of the source pane, and where in them a line is: those of the run, then others' that are not its."""

    def __init__(self, pages: list[Page]) -> None:
        run = pages[0].run
        self._learner = Learner(run)
        used = list(self._learner.lines(source for page in pages for source in used_sources(page.run)))
        found = code_pane.source_texts(run, used)
        for page in pages[1:]:
            strange = [source for source in used if source.file not in found and source.file in page.run.sources]
            if strange:
                found |= code_pane.source_texts(page.run, strange)
        self.texts = tuple(found.values())
        self._number = {file: i for i, file in enumerate(found)}

    def at(self, source: Source | None) -> list[int] | int:
        """[number of its file, line]; 0 for a line that is not shown."""
        here = self._learner.line(source)
        return [self._number[here.file], here.line] if here and here.file in self._number else 0


class _Store:
    """Values, each kept once; targets share most of their graphs and some of their texts."""

    def __init__(self) -> None:
        self._values: list[tuple[str, Any]] = []
        self._places: dict[str, int] = {}

    def keep(self, kind: str, value: Any) -> int:
        """Where `value` is kept; values of one `kind` resemble each other."""
        key = json.dumps(value)
        if key not in self._places:
            self._places[key] = len(self._values)
            self._values.append((kind, value))
        return self._places[key]

    def laid_out(self) -> tuple[list[Any], list[int]]:
        """The values, those of a kind side by side so that they compress well, and where each number now lies."""
        order = sorted(range(len(self._values)), key=lambda i: (self._values[i][0], i))
        places = {old: new for new, old in enumerate(order)}
        return [self._values[i][1] for i in order], [places[i] for i in range(len(order))]


def _part(page: Page, chapter: Chapter, lines: Lines, store: _Store, ptx: bool) -> dict[str, Any]:
    compiled = chapter.compiled
    links = page.links[chapter.key]
    texts = [code_pane.code_text(compiled, i, links) for i in range(len(compiled.code))]
    owner: list[str] = [code.which for code in compiled.code]
    if not texts:
        graphs = [graph for graph in chapter.graphs if graph.text]
        texts, owner = [code_pane.graph_text(graph) for graph in graphs], [graph.stage for graph in graphs]
    if ptx:
        found = [code_pane.ptx_text(i, kernel) for i, (_, kernel) in enumerate(links.kernels) if kernel.ptx]
        texts, owner = texts + found, owner + ["ptx"] * len(found)
    return {
        "name": chapter.name,
        "fn": compiled.function,
        "id": chapter.key,
        "of": chapter.parts if chapter.parts > 1 else 0,
        "cut": _cut(chapter),
        "error": compiled.error,
        "backend": compiled.backend,
        "before": [_seam(seam, lines) for seam in chapter.before],
        "after": [_seam(seam, lines) for seam in chapter.after],
        "pics": {
            graph.stage: store.keep(graph.stage, _picture(page.pictures[chapter.key, graph.stage], lines))
            for graph in chapter.graphs
            if page.shows(graph.stage)
        },
        "k": [
            [k.name, labels.fused(k), _time(k), _bytes(k.bytes_read), _bytes(k.bytes_written), module, k.launches]
            for module, k in links.kernels
        ],
        "which": [code.which for code in compiled.code],
        "docs": [[which, store.keep(f"text {which}", _text(text))] for which, text in zip(owner, texts, strict=True)],
    }


def _cut(chapter: Chapter) -> str:
    """Why a later part has no Dynamo graph of its own."""
    return f"the backend cut the Dynamo graph above into {chapter.parts} parts" if chapter.part else ""


def _time(kernel: Kernel) -> str:
    return "" if kernel.time_us is None else f"{kernel.time_us:.3g} µs"


def _bytes(count: int | None) -> str:
    return "" if count is None else size(count)


def _picture(picture: Picture, lines: Lines) -> dict[str, Any]:
    index = {shape.node.name: i for i, shape in enumerate(picture.shapes)}
    nodes = []
    for s in picture.shapes:
        op = {"call": "c", "output": "o"}.get(s.node.op, "i")
        name = s.node.name if s.node.name != s.label else 0
        nodes.append([name, s.label, s.size, s.x, s.y, s.width, op, list(s.kernels), lines.at(s.source), int(s.saved)])
    return {
        "w": picture.width,
        "h": picture.height,
        "ops": sum(s.node.op == "call" for s in picture.shapes) + len(picture.hidden),
        "n": nodes,
        "e": [[index[a], index[b], [step for point in line for step in point]] for a, b, line in picture.edges],
        "o": [[o.x, o.y, o.width, o.height, o.title, -1 if o.kernel is None else o.kernel] for o in picture.outlines],
        "f": [[[index[name] for name in fold.shown], list(fold.hidden)] for fold in picture.folds],
    }


def _text(text: Text) -> dict[str, Any]:
    return {
        "t": text.title,
        "c": [[first, "\n".join(lines)] for first, lines in text.chunks],
        "k": [[number, _runs(lines)] for number, lines in text.kernels],
        "n": {line: list(names) for line, names in text.nodes},
        "x": text.left_out,
        "g": text.language,
    }


def _runs(lines: Iterable[int]) -> list[list[int]]:
    """[1, 2, 3, 7] as [[1, 3], [7, 7]]."""
    runs: list[list[int]] = []
    for line in lines:
        if runs and runs[-1][1] == line - 1:
            runs[-1][1] = line
        else:
            runs.append([line, line])
    return runs


def _seam(seam: Seam, lines: Lines) -> dict[str, Any]:
    at = lines.at(seam.source)
    return {"kind": seam.kind, "t": seam.title, "r": seam.reason, "d": seam.detail, "tag": seam.tag, "at": at}


def _nothing(item: Any, lines: Lines) -> dict[str, Any]:
    source = item.source
    line = f"line {source.line}: {source.code.strip()}" if source else ""
    return {"fn": item.function, "r": item.reason, "do": item.remedy, "at": lines.at(source), "line": line}
