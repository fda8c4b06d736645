"""The frame of the smaller views: plain HTML with a style, no script.

Untrusted, without JavaScript and on paper it is the same list or table, only plainer.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from importlib.resources import files

from compilescope.facts import Source
from compilescope.views.display import Display

COLORS = 8
"""Colors of the style, ``--c0`` to ``--c7``."""


def card(title: str, body: str, text: str, origin: str) -> Display:
    """A view from its `body` (HTML, already escaped) and its twin `text`."""
    css = (files(__package__) / "card.css").read_text(encoding="utf-8")
    head = f"<header><b>{escape(title)}</b> <span>{escape(origin)}</span></header>"
    frame = f'<div class="cv" role="group" tabindex="0" aria-label="{escape(title)}">'  # a narrow page scrolls in it
    return Display(title, f"{frame}<style>{css}</style>{head}{body}</div>", f"{title}\n{text}\n({origin})")


def escape(value: object) -> str:
    """`value` as text that HTML takes literally."""
    return html.escape(str(value))


def color(number: int) -> str:
    """A style attribute that gives an element the color `number`."""
    return f'style="--c:var(--c{number % COLORS})"'


def table(heads: list[str], rows: list[list[str]], numbers: tuple[int, ...] = ()) -> str:
    """A table of cells that are HTML already; the columns in `numbers` are set flush right."""
    head = "".join(f"<th scope=col>{escape(name)}</th>" for name in heads)
    body = "".join(
        "<tr>"
        + "".join(f"<td{' class=num' if i in numbers else ''}>{cell}</td>" for i, cell in enumerate(row))
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def place(source: Source | None, sources: Mapping[str, str]) -> str:
    """``line 4: y = torch.relu(x)`` as HTML, with the file in front where it is not the learner's; empty for None."""
    if source is None or not source.line:
        return ""
    file = "" if source.file in sources else f"{re.split(r'[/]', source.file)[-1]}, "
    code = f": <code>{escape(source.code.strip())}</code>" if source.code.strip() else ""
    return f'<span class="mute">{escape(file)}line {source.line}{code}</span>'
