"""Texts of the explorer: the learner's source and the generated code, cut to what a reader needs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from compilescope.explorer.coloring import color_lines
from compilescope.explorer.links import Links, code_lines, first_lines, line_links
from compilescope.explorer.nested import opened
from compilescope.facts import Code, Compile, Graph, Kernel, Run, Source

MOST_LINES = 700
"""Lines shown of one text; the rest is named, and whole in ``run``."""
_CONTEXT = 3
_SETTINGS = 160
_SETTING = re.compile(r"^\s*(triton_meta|inductor_meta)=")
_IMPORTS = re.compile(r"^(import triton|from torch\._inductor\.|triton_helpers\.set_driver)")
_TAIL = re.compile(r"^(def get_args\(|def benchmark_compiled_module|if __name__ ==|runner = Runner)")


@dataclass(frozen=True)
class Text:
    """A text to show: runs of marked lines with the number of their first line, and what each line belongs to."""

    title: str
    chunks: tuple[tuple[int, tuple[str, ...]], ...]
    kernels: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """(kernel number, its 1-based lines)."""
    nodes: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """(1-based line, names of the nodes it computes)."""
    left_out: str = ""
    language: str = ""
    """``C++``, ``Triton``…, for the pane's title."""


def code_text(compiled: Compile, module: int, links: Links) -> Text:
    """The generated module without its imports and its benchmark, kernels colored in their own language."""
    code = compiled.code[module]
    lines = tuple(_short_settings(line) for line in first_lines(code.text))
    first, last = _range_of_interest(code, lines)
    shown = min(last, len(lines), first + MOST_LINES - 1)
    chunks = _without_remarks(code, first, _marked(code, lines, first, shown))
    mine = [(number, kernel) for number, (at, kernel) in enumerate(links.kernels) if at == module]
    spans = tuple(
        (number, tuple(n for n in code_lines(code, kernel) if first <= n <= shown)) for number, kernel in mine
    )
    nodes = tuple(
        (line, names) for _, k in mine for line, names in line_links(code, k).items() if first <= line <= shown
    )
    cut = [f"{first - 1} lines of imports"] if first > 1 else []
    cut += [f"{last - shown} lines of code"] if last > shown else []
    left = f"Left out: {' and '.join(cut)}. The whole text is code.text." if cut else ""
    return Text(code.which, chunks, spans, nodes, left, _language(code))


def graph_text(graph: Graph) -> Text:
    """The graph as PyTorch prints it, each line tied to the node it makes."""
    lines = first_lines(graph.text)
    marked = color_lines("\n".join(lines[:MOST_LINES]), "python")
    nodes = tuple((n.line, (n.name,)) for n in opened(graph).graph.nodes if 0 < n.line <= MOST_LINES)
    more = graph.text.count("\n") + 1 - len(marked)
    left = f"Left out: {more} lines." if more > 0 else ""
    return Text(f"{graph.stage.replace('_', '-')} graph", ((1, tuple(marked)),), (), nodes, left)


def ptx_text(number: int, kernel: Kernel) -> Text:
    """A kernel's PTX without its debugging sections."""
    kept = (kernel.ptx or "").split("\t.section", 1)[0].rstrip().split("\n")
    marked = color_lines("\n".join(kept[:MOST_LINES]), "ptx")
    return Text(f"PTX of kernel {number + 1}", ((1, tuple(marked)),), ((number, tuple(range(1, len(marked) + 1))),))


def source_texts(run: Run, used: Iterable[Source]) -> dict[str, Text]:
    """Each file of the learner that a fact points to: whole if short, else the parts around those lines."""
    wanted: dict[str, set[int]] = {file: set() for file in run.sources}
    for source in used:
        if source.file in wanted:
            wanted[source.file].add(source.line)
    pointed = {file: lines for file, lines in wanted.items() if lines} or dict(list(wanted.items())[:1])
    return {file: _excerpt(file, run.sources[file], lines) for file, lines in pointed.items()}


def short_name(file: str) -> str:
    """``model.py`` for a path, ``cell`` for a notebook cell."""
    base = re.split(r"[\\/]", file)[-1]
    if file.startswith("<ipython-input") or re.fullmatch(r"\d+\.py", base):
        return "your cell"
    return base


def _excerpt(file: str, text: str, lines: set[int]) -> Text:
    marked = color_lines(text.rstrip("\n"), "python")
    if len(marked) <= 120 or not lines:
        return Text(short_name(file), ((1, tuple(marked[:MOST_LINES])),))
    shown = sorted({i for line in lines for i in range(line - _CONTEXT, line + _CONTEXT + 1) if 0 < i <= len(marked)})
    chunks: list[tuple[int, tuple[str, ...]]] = []
    start = previous = shown[0]
    for i in [*shown[1:], 0]:
        if i - previous > 4 or i == 0:
            chunks.append((start, tuple(marked[start - 1 : previous])))
            start = i
        previous = i
    return Text(short_name(file), tuple(chunks))


def _range_of_interest(code: Code, lines: tuple[str, ...]) -> tuple[int, int]:
    starts = [kernel.lines[0] for kernel in code.kernels if kernel.lines]
    starts += [i for i, line in enumerate(lines, 1) if re.match(r"class Runner|def call\(", line)][:1]
    first = min(*starts, len(lines)) if starts else 1
    while first > 1 and (lines[first - 2].startswith(("#", "@")) or "async_compile." in lines[first - 2]):
        first -= 1
    whole = code.text.count("\n") + 1
    last = next((i - 1 for i, line in enumerate(lines, 1) if i > first and _TAIL.match(line)), whole)
    while first < last <= len(lines) and not lines[last - 1].strip():
        last -= 1
    return first, last


def _marked(code: Code, lines: tuple[str, ...], first: int, last: int) -> list[str]:
    """Lines first to last, each stretch lexed in its own language: a kernel is a string to Python, code to a reader."""
    language = ["python"] * (last + 2)
    for kernel in code.kernels:
        if kernel.lines and kernel.language == "cpp":
            for i in range(kernel.lines[0], min(kernel.lines[1], last) + 1):
                language[i] = "cpp"
    for i in range(first, last + 1):
        if re.search(r"async_compile\.|^('''|\"\"\")", lines[i - 1]):
            language[i] = "text"
    marked: list[str] = []
    start = first
    for i in range(first, last + 1):
        if i == last or language[i + 1] != language[i]:
            marked += color_lines("\n".join(lines[start - 1 : i]), language[i])
            start = i + 1
    return marked


def _without_remarks(code: Code, first: int, marked: list[str]) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """The lines without what says nothing here: Inductor's longer remarks, which repeat the graph, kernels' imports."""
    inside = {i for k in code.kernels if k.lines for i in range(k.lines[0], k.lines[1] + 1)}
    text = first_lines(code.text)
    chunks: list[tuple[int, list[str]]] = []
    for i, line in enumerate(marked, first):
        plain = text[i - 1]
        if i in inside and _IMPORTS.match(plain):
            continue
        if i not in inside and plain.startswith("#") and not plain.startswith("# Topologically"):
            continue
        if not chunks or chunks[-1][0] + len(chunks[-1][1]) != i:
            chunks.append((i, []))
        chunks[-1][1].append(line)
    return tuple((start, tuple(found)) for start, found in chunks)


def _short_settings(line: str) -> str:
    """What a Triton kernel is told of its device and of autotuning fills several screens: its beginning will do."""
    return line[:_SETTINGS] + " …" if len(line) > _SETTINGS and _SETTING.match(line) else line


def _language(code: Code) -> str:
    kinds = {kernel.language for kernel in code.kernels} - {"extern"}
    return " and ".join({"cpp": "C++", "triton": "Triton"}[kind] for kind in sorted(kinds))
