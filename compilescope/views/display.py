"""What every view returns: one picture as HTML that needs nothing, and its twin as text."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{title}</title>
<style>html{{color-scheme:light dark}}body{{margin:16px;font-family:system-ui,sans-serif}}</style></head>
<body><main>{body}</main></body></html>
"""

_LOADER = (
    "(async r=>{const t='PACKED',b=new Uint8Array(t.length/5*4);"
    "for(let i=0;i<t.length;i+=5){let n=0;for(let j=0;j<5;j++)n=n*85+'ALPHABET'.indexOf(t[i+j]);"
    "new DataView(b.buffer).setUint32(i/5*4,n)}"
    "const s=new Blob([b.slice(0,LENGTH)]).stream().pipeThrough(new DecompressionStream('gzip')),"
    "[run,css,data]=await new Response(s).json(),e=document.createElement('script');"
    "r.facts=[css,data];e.textContent=run;r.append(e)})(document.currentScript.parentElement)"
)
"""Unpacks script, style and data beside the picture; a browser that cannot (before 2023) keeps the picture."""


@dataclass(frozen=True)
class Display:
    """A view, ready to show: Jupyter takes `html`, a terminal and a test take `text`.

    `html` holds everything it needs: no network, no widget state, no file beside it.
    """

    title: str
    html: str
    text: str

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}

    def __repr__(self) -> str:
        return self.text

    def save_html(self, path: str | Path) -> Path:
        """Write the view as one page; returns its path."""
        target = Path(path)
        if not target.parent.is_dir():
            raise FileNotFoundError(f"There is no folder {str(target.parent)!r}: make it first, then save again.")
        target.write_text(_PAGE.format(title=html.escape(self.title), body=self.html), encoding="utf-8")
        return target


def show_display(view: Display) -> None:
    """Show `view` in the running notebook, or print its text where there is none."""
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        print(view.text)
        return
    if get_ipython() is None:
        print(view.text)
    else:
        display(view)


def compose(title: str, svg: str, text: str, *, package: str, names: tuple[str, ...], data: object) -> str:
    """HTML that shows `svg` as an image with `text` below, until a script swaps the interactive view in.

    The image is a data URI: JupyterLab's sanitizer keeps it in an untrusted notebook, where it drops an inline SVG but
    spills its texts; it is what a page without JavaScript shows, too. Styles travel inside the script, too.

    Args:
        title: alternative text of the image.
        svg: the static picture, a whole ``<svg>`` element.
        text: the text twin.
        package: package that holds the scripts ``{name}.js`` and the style.
        names: the scripts, in order; the last defines a function of its name taking ``(root, css, data)``, and beside
            it lies its ``.css``.
        data: handed to the script as JSON.
    """
    folder, main = files(package), names[-1]
    script = "\n".join(_shorter((folder / f"{name}.js").read_text(encoding="utf-8")) for name in names)
    css = (folder / f"{main}.css").read_text(encoding="utf-8")
    run = f"(()=>{{{script}\nconst r=document.currentScript.parentElement;{main}(r,...r.facts)}})()"
    return (
        f'<div class="compilescope"><img alt="{html.escape(title)}" src="{data_uri(svg)}" style="max-width:100%">'
        f"<details><summary>The same as text</summary><pre>{html.escape(text)}</pre></details>"
        f"<script>{_loader([run, css, data])}</script></div>"
    )


def _shorter(script: str) -> str:
    """The script without indentation and without lines that are a remark; no string of it goes over lines."""
    return re.sub(r"^\s*//.*\n|^\s+", "", script, flags=re.M)


_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz#%()*+-./:;=?@[]^_{|}~,"
"""85 characters that HTML, a script's string and JSON all take literally: no ``& < > " ' \\ ! $ ` ``."""
_TO_OURS = bytes.maketrans(
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~", _ALPHABET.encode()
)


def _loader(value: object) -> str:
    """A script that unpacks `value`: JSON, compressed to a third, in base 85, which takes 6 % less than base 64."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    packed = gzip.compress(text.encode(), mtime=0)
    padded = packed + bytes(-len(packed) % 4)
    ours = base64.b85encode(padded).translate(_TO_OURS).decode()
    script = _LOADER.replace("ALPHABET", _ALPHABET).replace("LENGTH", str(len(packed)))
    return script.replace("PACKED", ours)


def data_uri(svg: str) -> str:
    """`svg` as a data URI that may stand between double quotes; shorter than base64."""
    return "data:image/svg+xml," + quote(svg, safe=" =:/,;()'!*+?@[]^`{|}~$-_.<>")
