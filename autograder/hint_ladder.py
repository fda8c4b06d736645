"""The three hints of an exercise as a ladder: one rung at a time, in a notebook with a button for the next."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Callable

import ipywidgets
from IPython.display import DisplayHandle, display

RUNGS = ("where to look", "which rule", "the shape of the code")


class Ladder:
    """The hints `first` to `last` of one exercise, counted from 0, and the button that climbs one further.

    What is shown is an ordinary output that the button updates: it stays in a saved, untrusted or exported notebook.
    """

    def __init__(self, name: str, hints: tuple[str, str, str], rung: int, climbed: Callable[[int], None]) -> None:
        self._name, self._hints, self._climbed = name, hints, climbed
        self.first = self.last = min(rung, len(hints) - 1)
        self._shown: DisplayHandle | None = None
        self.button = ipywidgets.Button(icon="lightbulb-o", layout={"width": "auto"})
        self.button.on_click(lambda _: self.climb())
        self._label()

    @property
    def text(self) -> str:
        """The rungs so far, in lines of at most 100 characters."""
        return "\n".join(
            line
            for rung in range(self.first, self.last + 1)
            for line in textwrap.wrap(f"Hint {rung + 1} of {len(self._hints)}: {self._hints[rung]}", 100)
        )

    @property
    def html(self) -> str:
        """The same, each rung with what it is about."""
        return "".join(
            f"<p><b>Hint {rung + 1} of {len(self._hints)}</b> ({RUNGS[rung]}): {html.escape(self._hints[rung])}</p>"
            for rung in range(self.first, self.last + 1)
        )

    def climb(self) -> None:
        """Show one hint more; the last one stays."""
        if self.last + 1 < len(self._hints):
            self.last += 1
            self._climbed(self.last)
        self._label()
        if self._shown is not None:
            self._shown.update(self._bundle(), raw=True)

    def show(self) -> None:
        """Display the hints in the running notebook, and the button while there is a further one."""
        self._shown = display(self._bundle(), raw=True, display_id=True)
        if self.last + 1 < len(self._hints):
            twin = f'The next one, {RUNGS[self.last + 1]}: hint("{self._name}")'
            display({**self.button._repr_mimebundle_(), "text/plain": twin}, raw=True)

    def _bundle(self) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}

    def _label(self) -> None:
        further = self.last + 1
        if further < len(self._hints):
            self.button.description = f"Hint {further + 1} of {len(self._hints)}: {RUNGS[further]}"
        else:
            self.button.layout.display = "none"
