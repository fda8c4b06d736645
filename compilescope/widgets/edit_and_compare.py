"""Break it, fix it: edit a function in place, run it again, and see what the compiler now does differently."""

from __future__ import annotations

import html
import inspect
import itertools
import linecache
import textwrap
from collections.abc import Callable
from typing import Any

import ipywidgets
import torch
from IPython.display import display

from compilescope.explorer import explore
from compilescope.facts import Run
from compilescope.observe import observe
from compilescope.text import describe
from compilescope.views import compare

_edition = itertools.count(1)


def break_it(fn: Callable[..., Any], /, *args: Any, backend: str = "aot_eager") -> None:
    """Display the source of the plain function `fn` to edit; *Run* compiles and calls it with `args`, and redraws.

    `args` are used again in each run, so `fn` should not change them. The function sees the globals it was defined
    with. TypeError if `fn` has no source: define it in a cell.
    """
    editor = Editor(fn, *args, backend=backend)
    display({**editor.box._repr_mimebundle_(), "text/plain": editor.text}, raw=True)


class Editor:
    """The widget. `first` is the Run of the function as it was, `run` that of the last edition that worked."""

    def __init__(self, fn: Callable[..., Any], *args: Any, backend: str = "aot_eager") -> None:
        self._globals, self._name, self._args, self._backend = _globals_of(fn), fn.__name__, args, backend
        self.source = ipywidgets.Textarea(value=_source_of(fn), layout={"width": "100%", "height": "11em"})
        self.source.add_class("compilescope-editor")
        self.button = ipywidgets.Button(description="Run", icon="play", tooltip="compile, call and draw it again")
        self.said = ipywidgets.HTML()
        self.picture = ipywidgets.Output()
        self.button.on_click(lambda _: self.go())
        style = ipywidgets.HTML("<style>.compilescope-editor textarea{font-family:var(--jp-code-font-family)}</style>")
        self.box = ipywidgets.VBox([style, self.source, self.button, self.said, self.picture])
        self._words = ""
        self.first: Run | None = None
        self.run: Run | None = None
        self.go()

    @property
    def text(self) -> str:
        """What the editor shows, as text: the source, what became of it, and the compile in words."""
        return f"{self.source.value.rstrip()}\n\n{self._words}" + (f"\n{describe(self.run)}" if self.run else "")

    def go(self) -> None:
        """Compile and call what the text area holds; an error in it becomes one sentence, and the picture stays."""
        self.button.disabled = True
        try:
            self._draw(self._observed())
        except Exception as error:
            first = (str(error).strip().splitlines() or [""])[0]
            self._words = f"✗ {type(error).__name__} {first} Mend it and press Run again."
            self.said.value = f"✗ <b>{type(error).__name__}</b> {html.escape(first)} Mend it and press Run again."
        finally:
            self.button.disabled = False

    def _observed(self) -> Run:
        title = f"edition {next(_edition)}"
        text = self.source.value
        linecache.cache[title] = (len(text), None, text.splitlines(keepends=True), title)
        scope = {name: value for name, value in self._globals.items() if name != self._name}
        exec(compile(text, title, "exec"), scope)
        if self._name not in scope:
            raise NameError(f"the text must still define {self._name}.")
        torch.compiler.reset()
        return observe(torch.compile(scope[self._name], backend=self._backend), *self._args)

    def _draw(self, run: Run) -> None:
        self.run = run
        changed = self.first is not None
        self.first = self.first or run
        said = compare(self.first, run, ("as it was", "as it is")).title if changed else "Edit a line, then press Run."
        self._words = said
        self.said.value = html.escape(said)
        view = explore(run)
        self.picture.outputs = (
            {
                "output_type": "display_data",
                "data": {"text/html": view.html, "text/plain": view.text},
                "metadata": {},
            },
        )


def _source_of(fn: Callable[..., Any]) -> str:
    try:
        return textwrap.dedent(inspect.getsource(fn))
    except (OSError, TypeError):
        raise TypeError(f"{getattr(fn, '__name__', fn)} has no source to edit: define it in a cell.") from None


def _globals_of(fn: Callable[..., Any]) -> dict[str, Any]:
    found = getattr(fn, "__globals__", None)
    if found is None or hasattr(fn, "_torchdynamo_orig_callable"):
        raise TypeError("break_it wants the plain function: it compiles each edition itself.")
    return dict(found)
