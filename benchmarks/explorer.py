"""What the explorer costs: seconds from facts to HTML and to a picture, and bytes, for graphs of 30 to 5000 nodes.

Run: ``python benchmarks/explorer.py -o benchmarks/explorer.md``. The graphs are made up like a transformer's post-grad
graph; fused kernels of four ops.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from compilescope.explorer import explore
from compilescope.explorer.links import Links, link
from compilescope.explorer.picture import Picture, draw
from compilescope.explorer.pieces import _place_large
from compilescope.facts import Code, Compile, Graph, Kernel, Node, Origin, Run, Source

_BLOCK = (
    ("mean", (0,)), ("sub", (0, 1)), ("pow", (2,)), ("rsqrt", (3,)), ("mul", (2, 4)),
    ("mm", (5, "w")), ("view", (6,)), ("mm", (5, "w")), ("view", (8,)), ("mm", (5, "w")), ("view", (10,)),
    ("bmm", (7, 9)), ("amax", (12,)), ("sub", (12, 13)), ("exp", (14,)), ("sum", (15,)), ("div", (15, 16)),
    ("bmm", (17, 11)), ("view", (18,)), ("mm", (19, "w")), ("add", (0, 20)),
    ("mean", (21,)), ("sub", (21, 22)), ("rsqrt", (22,)), ("mul", (23, 24)), ("mm", (25, "w")), ("erf", (26,)),
    ("mul", (26, 27)), ("mm", (28, "w")), ("add", (21, 29)),
)  # fmt: skip
"""Op and its inputs: 0 is the block's input, n the block's n-th op, w a weight."""


def transformer(blocks: int) -> Run:
    """A run whose graph has `blocks` equal blocks of 30 ops and 6 weights."""
    nodes = [Node("x", "placeholder", "x", (), "float32", (8, 128, 512))]
    last = "x"
    for b in range(blocks):
        names = [last]
        for i, (op, inputs) in enumerate(_BLOCK):
            name = f"{op}_{b}_{i}"
            if "w" in inputs:
                nodes.append(Node(f"w_{b}_{i}", "placeholder", f"w_{b}_{i}", (), "float32", (512, 512)))
            found = tuple(f"w_{b}_{i}" if j == "w" else names[int(j)] for j in inputs)
            source = Source("model.py", 3 + i, "forward")
            shape = (8, 128, 512)
            nodes.append(
                Node(name, "call", f"aten.{op}.default", found, "float32", shape, source=source, module=f"layers.{b}")
            )
            names.append(name)
        last = names[-1]
    nodes.append(Node("output", "output", "output", (last,)))
    calls = [n.name for n in nodes if n.op == "call" and not n.target.startswith(("aten.mm", "aten.bmm", "aten.view"))]
    kernels = tuple(
        Kernel(f"triton_poi_fused_{i}", "triton", nodes=tuple(calls[i : i + 4]), call_lines=(i + 1,))
        for i in range(0, len(calls), 4)
    )
    code = Code("0/0", "inference", "\n".join(f"triton_poi_fused_{i}.run(buf{i})" for i in range(len(calls))), kernels)
    compiled = Compile("0/0", "forward", "model.py", 1, "inductor", (Graph("post_grad", "0/0", tuple(nodes)),), (code,))
    text = "\n".join(f"    x{i} = op(x)" for i in range(40))
    return Run(Origin("live", "CPU", "2.13.0"), (), (compiled,), sources={"model.py": text})


def best(task: Callable[[], object], times: int = 3) -> float:
    """CPU seconds of the cheapest of `times` runs, of all threads: a busy machine does not count."""
    spent = []
    for _ in range(times):
        start = time.process_time()
        task()
        spent.append(time.process_time() - start)
    return min(spent)


POINT = """async () => {
  const all = [...document.querySelectorAll("g.n.c")], times = [];
  for (let i = 0; i < 60; i++) {
    const g = all[i * 31 % all.length], t = performance.now();
    g.dispatchEvent(new PointerEvent("pointerover", {bubbles: true, pointerType: "mouse"}));
    document.body.getBoundingClientRect();
    times.push(performance.now() - t);
    await new Promise(requestAnimationFrame);
  }
  return times.sort((a, b) => a - b)[30];
}"""
"""Median milliseconds from pointing at a node until all panes are laid out anew, over 60 nodes of one page."""


def pointing(page: Path) -> float | None:
    """The best of three `POINT` in headless Chromium; None where there is none."""
    program = shutil.which("chromium")
    if program is None:
        return None
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--headless", "--no-sandbox"])
        opened = browser.new_page()
        opened.goto(page.as_uri())
        opened.wait_for_selector(".cs svg g.n")
        found = min(float(opened.evaluate(POINT)) for _ in range(3))
        browser.close()
    return found


def figures() -> list[str]:
    """The rows of the table: what, measured, limit, whether it holds."""
    explore(transformer(1))
    whole, many, large = transformer(8), transformer(24), transformer(55)
    huge = transformer(140)

    def drawn(run: Run, fold: bool) -> float:
        links = link(run.compiles[0])
        return best(lambda: _placed_anew(run, links, fold))

    with tempfile.TemporaryDirectory() as folder:
        page = explore(large, fold=False).save_html(Path(folder) / "page.html")
        frame = pointing(page)
    rows = [
        row(f"picture of {count_of(whole)} nodes, from facts", drawn(whole, False), 0.4, "s"),
        row(f"24 blocks folded, {count_of(many)} nodes", drawn(many, True), 0.5, "s"),
        row(f"{count_of(large)} nodes unfolded", drawn(large, False), 3, "s"),
        row(f"page of {count_of(large)} nodes unfolded", len(explore(large, fold=False).html) / 1e3, 1000, "kB"),
        row(f"page of {count_of(huge)} nodes folded", len(explore(huge).html) / 1e3, 1000, "kB"),
        row(f"… from facts to page, {count_of(huge)} nodes", best(lambda: explore(huge), 1), None, "s"),
    ]
    if frame is not None:
        rows.append(row(f"pointing at one of {count_of(large)} nodes, all panes laid out (median)", frame, 16.7, "ms"))
    return rows


def _placed_anew(run: Run, links: Links, fold: bool) -> Picture:
    _place_large.cache_clear()
    compiled = run.compiles[0]
    return draw(compiled.graphs[0], compiled, links, fold=fold)


def count_of(run: Run) -> str:
    """``2,036``."""
    return f"{len(run.compiles[0].graphs[0].nodes):,}"


def row(what: str, measured: float, limit: float | None, unit: str) -> str:
    """A line of the table."""
    held = "" if limit is None else "holds" if measured < limit else "**does not hold**"
    return f"| {what} | {measured:,.2f} {unit} | {'' if limit is None else f'{limit:g} {unit}'} | {held} |"


def write_section(page: Path, title: str, lines: list[str]) -> None:
    """Replace the section called `title` of a Markdown page, or append it."""
    text = (
        page.read_text(encoding="utf-8")
        if page.is_file()
        else "# What the explorer costs, alone and beside its peers\n"
    )
    section = f"## {title}\n\n" + "\n".join(lines) + "\n"
    parts = re.split(r"(?m)^(?=## )", text)
    head, *others = [part for part in parts if not part.startswith(f"## {title}\n")]
    page.write_text("\n".join(part.strip() + "\n" for part in [head, *sorted([*others, section])]), encoding="utf-8")


def main() -> None:
    """Print the table, and write it into a page where asked: ``python benchmarks/explorer.py -o PAGE``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--out", type=Path)
    args = parser.parse_args()
    made = f"Made by `python benchmarks/explorer.py` on {datetime.date.today()}: {os.cpu_count()} cores "
    made += f"({platform.machine()}). CPU seconds of all threads, best of three."
    lines = [made, "", "| what | measured | limit | |", "|---|---|---|---|", *figures()]
    print("\n".join(lines))
    if args.out:
        write_section(args.out, "Alone", lines)


if __name__ == "__main__":
    main()
