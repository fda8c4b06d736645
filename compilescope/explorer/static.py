"""The explorer as one still picture, for a page without JavaScript, an untrusted notebook, and paper."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Sequence

from compilescope.explorer import labels
from compilescope.explorer.code_pane import short_name, source_texts
from compilescope.explorer.coloring import CLOSE, MARKS
from compilescope.explorer.layout import Line
from compilescope.explorer.page import Page, stage_name, used_sources
from compilescope.explorer.picture import HEIGHT, Picture, Shape
from compilescope.explorer.story import Seam, headline, nothing
from compilescope.text import describe_missing, notes, size

COLORS = ("#2f66c9", "#b8540f", "#217a52", "#7a48bd", "#b32d67", "#6d6a00", "#007f8c", "#825532")
"""Of kernel 1, 2, …; then again from the first. Dark enough for text on white."""
MOST_SHAPES = 120
"""Larger graphs are only named in the still picture."""

_MOST_SOURCE = 40

_STYLE = (
    "text{white-space:pre;font:12px ui-monospace,Menlo,Consolas,monospace;fill:#222}"
    ".u{font-family:system-ui,sans-serif}"
    ".h{font-size:16px;font-weight:600}.b{font-weight:600}.g{fill:#666;font-size:11px}.t text{font-size:10px;fill:#555}"
    ".m text{text-anchor:middle}.w{fill:#fff;font-size:9px;font-weight:600;text-anchor:middle}"
    "path,rect{fill:#fff;stroke:#999;stroke-linejoin:round}.i path{stroke-dasharray:4 3}.e{fill:none}"
    "path.o{fill-opacity:.06;stroke-dasharray:none}.x text{font-size:10px}.s{fill:#fff4e0;stroke:#c77700}"
    ".k path{stroke:var(--k);stroke-width:1.5}.k path.o{fill:var(--k)}.k text{fill:var(--k);font-size:11px}"
    "circle{fill:var(--k)}"
) + "".join(f".c{i}{{--k:{ink}}}" for i, ink in enumerate(COLORS))
_PATTERN = re.compile(f"[{''.join(MARKS.values())}{CLOSE}]")


class _Canvas:
    """SVG in the making: pieces, and how far they reach."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.right = 0.0
        self.y = 0.0

    def text(self, x: float, y: float, value: str, kind: str = "", fill: str = "") -> None:
        style = f" style='fill:{fill}'" if fill else ""
        style += f" class='{kind}'" if kind else ""
        self.pieces.append(f"<text x='{x:.0f}' y='{y:.0f}'{style}>{html.escape(value, quote=False)}</text>")
        self.right = max(self.right, x + len(value) * (9.0 if "h" in kind.split() else 7.3))

    def dot(self, x: float, y: float, number: int) -> None:
        self.pieces.append(f"<circle cx='{x:.0f}' cy='{y:.0f}' r='7' class='c{number % len(COLORS)}'/>")
        self.pieces.append(f"<text x='{x:.0f}' y='{y + 3:.0f}' class='w'>{number + 1}</text>")


def color(number: int) -> str:
    """Of kernel `number`, counted from 0."""
    return COLORS[number % len(COLORS)]


def still(page: Page, others: Sequence[str] = ()) -> str:
    """SVG of a run: source lines, graphs with their kernels, the seams between them, and each of `others` as a line."""
    canvas = _Canvas()
    canvas.text(16, 28, headline(page.run), "u h")
    canvas.text(16, 46, page.run.origin.sentence(), "u g")
    canvas.y = 58
    for note in (*notes(page.run), *describe_missing(page.run)):
        for line in textwrap.wrap(note, 96)[:2]:
            canvas.y += 16
            canvas.text(16, canvas.y, line, "u g")
    for item in nothing(page.run):
        where = f" (line {item.source.line})" if item.source else ""
        for line in textwrap.wrap(f"{item.function or 'This code'}{where}: {item.reason} {item.remedy}", 96):
            canvas.y += 18
            canvas.text(16, canvas.y, line, "u b", "#9a3412")
        canvas.y += 8
    top = canvas.y + 12
    left_bottom = _source(canvas, page, top)
    left = canvas.right + 28 if left_bottom > top else 16
    _graphs(canvas, page, left, top)
    canvas.y = max(canvas.y, left_bottom) + 10
    _legend(canvas, page)
    for line in others:
        canvas.y += 19
        canvas.text(16, canvas.y, line[:120], "u")
    width, height = canvas.right + 16, canvas.y + 12
    extent = f"width='{width:.0f}' height='{height:.0f}'"
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' {extent} viewBox='0 0 {width:.0f} {height:.0f}'>"
        f"<style>{_STYLE}</style><rect {extent} style='stroke:none'/>{''.join(canvas.pieces)}</svg>"
    )


def _numbered(page: Page) -> dict[str, int]:
    """Key of a chapter to the number of its first kernel."""
    first, found = 0, {}
    for chapter in page.chapters:
        found[chapter.key] = first
        first += len(page.links[chapter.key].kernels)
    return found


def _source(canvas: _Canvas, page: Page, top: float) -> float:
    """Draw the learner's lines; returns where they end."""
    kernels = _kernels_of_lines(page)
    breaks = {(s.source.file, s.source.line) for c in page.chapters for s in (*c.before, *c.after) if s.source}
    y = top
    for file, text in source_texts(page.run, used_sources(page.run)).items():
        canvas.text(16, y + 4, short_name(file), "u g b")
        y += 20
        marked = {line for at, line in {*kernels, *breaks} if at == file}
        for first, lines in text.chunks:
            for number, line in _near(marked, first, lines):
                plain = _PATTERN.sub("", line)[:64]
                if (file, number) in breaks:
                    canvas.pieces.append(
                        f"<rect x='12' y='{y - 12:.0f}' width='{len(plain) * 7.3 + 90:.0f}' height='17' class='s'/>"
                    )
                canvas.text(16, y, f"{number:>3}", "g")
                for i, kernel in enumerate(sorted(kernels.get((file, number), ()))[:2]):
                    canvas.dot(50 + 15 * i, y - 4, kernel)
                canvas.text(78, y, plain)
                y += 17
            y += 6
    return y


def _near(marked: set[int], first: int, lines: tuple[str, ...]) -> list[tuple[int, str]]:
    """The numbered lines; of a long text those around the marked ones."""
    numbered = list(enumerate(lines, first))
    if len(numbered) <= _MOST_SOURCE or not marked:
        return numbered[:_MOST_SOURCE]
    return [(n, line) for n, line in numbered if min(marked) - 4 <= n <= max(marked) + 3][:_MOST_SOURCE]


def _kernels_of_lines(page: Page) -> dict[tuple[str, int], set[int]]:
    first = _numbered(page)
    found: dict[tuple[str, int], set[int]] = {}
    for (key, stage), picture in page.pictures.items():
        if stage in ("backward", "post_grad_backward"):
            continue
        for shape in picture.shapes:
            if shape.source and shape.kernels:
                at = shape.source.file, shape.source.line
                found.setdefault(at, set()).update(first[key] + k for k in shape.kernels)
    return found


def _graphs(canvas: _Canvas, page: Page, left: float, top: float) -> None:
    stage = page.first_stage()
    first = _numbered(page)
    y = top
    for chapter in page.chapters:
        for seam in chapter.before:
            y = _seam(canvas, seam, left, y)
        picture = page.picture(chapter.key, stage)
        name = f"{chapter.name}  {chapter.compiled.function}  {stage_name(stage) if picture else ''}"
        canvas.text(left, y + 4, name, "u b")
        y += 12
        if picture and len(picture.shapes) <= MOST_SHAPES:
            canvas.pieces.append(
                f"<g transform='translate({left:.0f} {y:.0f})'>{_picture(picture, first[chapter.key])}</g>"
            )
            canvas.right = max(canvas.right, left + picture.width)
            y += picture.height
        elif picture:
            canvas.text(left, y + 14, f"{len(picture.shapes)} nodes: open the interactive view to see them", "u g")
            y += 30
        for seam in chapter.after:
            y = _seam(canvas, seam, left, y)
    canvas.y = max(canvas.y, y)


def _seam(canvas: _Canvas, seam: Seam, left: float, y: float) -> float:
    lines = textwrap.wrap(" ".join(filter(None, (seam.tag, seam.reason))), 60)[:3]
    height = 24 + 15 * len(lines)
    canvas.pieces.append(f"<rect x='{left:.0f}' y='{y:.0f}' width='460' height='{height}' class='s'/>")
    sign = "✂" if seam.kind == "break" else "↻"
    canvas.text(left + 10, y + 17, f"{sign} {seam.title}"[:60], "u b")
    for i, line in enumerate(lines):
        canvas.text(left + 10, y + 33 + 15 * i, line, "u g")
    canvas.right = max(canvas.right, left + 460)
    return y + height + 18


def _picture(picture: Picture, first: int) -> str:
    """The graph; boxes of one color and all edges are one path each, because the picture travels in every output."""
    pieces = [f"<path class='e' d='{''.join(_line(line) for _, _, line in picture.edges)}'/>"]
    groups: dict[str, list[Shape]] = {}
    for shape in picture.shapes:
        other = "x" if shape.node.op == "call" else "i"
        kind = f"k c{(first + shape.kernels[0]) % len(COLORS)}" if shape.kernels else other
        groups.setdefault(kind, []).append(shape)
    for outline in picture.outlines:
        number = None if outline.kernel is None else first + outline.kernel
        kind = "x" if number is None else f"k c{number % len(COLORS)}"
        title = outline.title if number is None else f"{_circled(number)} {outline.title}"
        pieces.append(
            f"<g class='{kind}'><path class='o' d='{_box(outline.x, outline.y, outline.width, outline.height)}'/>"
            f"<text x='{outline.x + 6}' y='{outline.y + 14}'>{html.escape(title, quote=False)}</text></g>"
        )
    for kind, shapes in groups.items():
        boxes = "".join(_box(s.x - s.width // 2, s.y - HEIGHT // 2, s.width, HEIGHT) for s in shapes)
        marks = "".join(_marks(s, first) for s in shapes)
        pieces.append(f"<g class='{kind}'><path d='{boxes}'/>{marks}</g>")
    names = "".join(_text(s.x, s.y - (2 if s.size else -4), s.label) for s in picture.shapes)
    sizes = "".join(_text(s.x, s.y + 11, s.size) for s in picture.shapes if s.size)
    return f"{''.join(pieces)}<g class='m'>{names}<g class='t'>{sizes}</g></g>"


def _line(points: Line) -> str:
    return "M" + " ".join(f"{x} {y}" for x, y in points)


def _box(x: int, y: int, width: int, height: int) -> str:
    return f"M{x} {y}h{width}v{height}h-{width}z"


def _text(x: int, y: int, value: str) -> str:
    return f"<text x='{x}' y='{y}'>{html.escape(value, quote=False)}</text>"


def _marks(shape: Shape, first: int) -> str:
    """Numbers of the kernels on the right above the box, and what is kept for backward on the left."""
    top = shape.y - HEIGHT // 2 - 3
    numbers = "".join(_circled(first + kernel) for kernel in shape.kernels[:3])
    marks = _text(shape.x + shape.width // 2 - 12 * len(shape.kernels[:3]), top, numbers) if numbers else ""
    return marks + (_text(shape.x - shape.width // 2, top, "saved") if shape.saved else "")


def _circled(number: int) -> str:
    """Number of a kernel, counted from 1: ① to ⑳, then (21)."""
    return chr(0x2460 + number) if number < 20 else f"({number + 1})"


def _legend(canvas: _Canvas, page: Page) -> None:
    first = _numbered(page)
    for chapter in page.chapters:
        for i, (_, kernel) in enumerate(page.links[chapter.key].kernels[:12]):
            moved = ""
            if kernel.bytes_read is not None and kernel.bytes_written is not None:
                moved = f", reads {size(kernel.bytes_read)}, writes {size(kernel.bytes_written)}"
            number = first[chapter.key] + i
            canvas.y += 19
            canvas.dot(24, canvas.y - 4, number)
            canvas.text(40, canvas.y, f"{kernel.name}: {labels.fused(kernel)}{moved}", "u")
