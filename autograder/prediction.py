"""The widget of `predict`: choose first, then the code runs and answers."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence

import ipywidgets
from IPython import get_ipython
from IPython.display import display

from autograder.quiet import quiet


def show_prediction(question: str, choices: Sequence[str], compute: Callable[[], object]) -> None:
    """Display the question with one button a choice; the first click runs `compute` and shows its answer."""
    if len(set(choices)) < 2:
        raise ValueError("predict() needs at least two different choices.")
    text = f"Predict: {question}\nChoices: {' · '.join(choices)}"
    if get_ipython() is None:
        print(text)
        return
    # Where no widget can be drawn (an export, a screen reader's text view) the text stands in for it.
    bundle = Prediction(question, choices, compute).box._repr_mimebundle_()
    display({**bundle, "text/plain": text}, raw=True)


class Prediction:
    """One question. `answer` is None until a choice was made and the code has run."""

    def __init__(self, question: str, choices: Sequence[str], compute: Callable[[], object]) -> None:
        self.answer: str | None = None
        self._compute = compute
        self._said = ipywidgets.HTML()
        self.buttons = [ipywidgets.Button(description=choice, tooltip=f"I predict: {choice}") for choice in choices]
        for button in self.buttons:
            button.layout.width = "auto"
            button.layout.min_width = "5em"
            button.on_click(self._choose)
        title = ipywidgets.HTML(f"<b>Predict:</b> {html.escape(question)}")
        self.box = ipywidgets.VBox([title, ipywidgets.HBox(self.buttons, layout={"flex_flow": "wrap"}), self._said])

    def _choose(self, chosen: ipywidgets.Button) -> None:
        if self.answer is None:
            self._said.value = "Running it …"
            try:
                with quiet():
                    self.answer = str(self._compute())
            except Exception as error:
                name = html.escape(type(error).__name__)
                self._said.value = f"The code raised {name}: run the cells above first, then choose again."
                return
        for button in self.buttons:
            button.button_style = ""
            button.icon = ""
        right = chosen.description == self.answer
        chosen.button_style, chosen.icon = ("success", "check") if right else ("warning", "times")
        verdict = "Yes" if right else "Not this time"
        self._said.value = f"{verdict}: it ran, and the answer is <b>{html.escape(self.answer)}</b>. Go on to see why."
