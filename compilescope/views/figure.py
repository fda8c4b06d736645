"""A matplotlib figure as a view: one small SVG in an image, which needs no script, no network and no widget."""

from __future__ import annotations

import io
import re
from typing import Any

from compilescope.views.card import card, escape
from compilescope.views.display import Display, data_uri

COLORS = ("#2f66c9", "#b8540f", "#217a52", "#7a48bd", "#b32d67", "#6d6a00", "#007f8c", "#825532")
"""Those of the other views; each series has a mark of its own, too."""
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
_MOST_LINES = 3
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "inside-torch-compile",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "white",
}


def new_figure(width: float, height: float) -> tuple[Any, Any]:
    """A matplotlib figure of that many inches with one pair of axes, that no notebook shows by itself."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        return figure, figure.subplots()


def figure_card(figure: Any, title: str, text: str, origin: str) -> Display:
    """The figure under `title`, with `text` below it: what it shows, in words; more than a few lines of it folded."""
    from matplotlib import rc_context

    with rc_context(_STYLE):
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    svg = _compact(written.getvalue())
    body = f'<img alt="{escape(title)}" src="{data_uri(svg)}" style="max-width:100%;background:#fff;border-radius:4px">'
    lines = text.splitlines()
    words = "".join(f'<div style="white-space:pre-wrap">{escape(line)}</div>' for line in lines)
    body += f"<details><summary>in numbers</summary>{words}</details>" if len(lines) > _MOST_LINES else words
    return card(title, body, text, origin)


def _compact(svg: str) -> str:
    """The same picture in less text: no remarks, and single quotes, which a data URI need not escape."""
    svg = re.sub(r"<!--.*?-->\s*|<metadata>.*?</metadata>\s*", "", svg[svg.index("<svg") :], flags=re.S)
    svg = re.sub(r'"[^"]*"', lambda quoted: quoted[0].replace("'", ""), svg)  # font names need no quotes
    return re.sub(r"\s*\n\s*", " ", svg).replace("'", "&#39;").replace('"', "'")
