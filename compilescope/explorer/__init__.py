"""The explorer: source, graph and generated code of one run, linked."""

from __future__ import annotations

from pathlib import Path

from compilescope.explorer.packing import packed
from compilescope.explorer.page import Page, data
from compilescope.explorer.static import still
from compilescope.explorer.story import headline
from compilescope.explorer.targets import Others, describe_targets, summary, targets
from compilescope.facts import Run
from compilescope.views.display import Display, compose, show_display

_SCRIPTS = ("markup", "unfold", "explorer")

__all__ = ["explore", "save_html", "show"]


def explore(run: Run, *, fold: bool = True, ptx: bool = False, others: Others = ()) -> Display:
    """The explorer of `run` as a display object: HTML for a notebook or a file, text for a terminal.

    Args:
        run: what ``observe`` gave, or a recorded one.
        fold: show equal blocks once; False draws each node.
        ptx: add the PTX of kernels that have it (several kB a kernel).
        others: the same code elsewhere, each run to choose like a target: ``recorded("relu_chain")``, the other ranks
            of a job. One run, several, or a dict that names them; lines of the same text are one line.
    """
    if not isinstance(run, Run):
        raise TypeError(f"show wants the run that observe gave, but got {type(run).__name__}: show(run).")
    found = targets(run, others)
    pages = [Page.of(one, name, fold=fold) for name, one in found.items()]
    text = describe_targets(found)
    picture = still(pages[0], [summary(page.name, page.run) for page in pages[1:]])
    content = packed(data(pages, ptx=ptx))
    html = compose(headline(run), picture, text, package=__name__, names=_SCRIPTS, data=content)
    return Display(headline(run), html, text)


def show(run: Run | Display, *, fold: bool = True, ptx: bool = False, others: Others = ()) -> None:
    """Show what the compiler did: your source, its graphs and the generated code, linked.

    Point at a line, a node or a kernel, and the other panes follow. In a terminal it prints the same as text.
    Takes another view, too: ``show(timeline(run))``. Arguments as in `explore`.
    """
    show_display(run if isinstance(run, Display) else explore(run, fold=fold, ptx=ptx, others=others))


def save_html(run: Run, path: str | Path, *, fold: bool = True, ptx: bool = True, others: Others = ()) -> Path:
    """Write the explorer of `run` as one page that needs no network, to send to a colleague; returns its path."""
    return explore(run, fold=fold, ptx=ptx, others=others).save_html(path)
