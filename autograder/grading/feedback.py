"""What `nbgrader generate_feedback` and formgrader make of a course: pages that need no network and trust nobody.

A student's notebook is shown to instructors, logged in to a server that runs code: no script of a submission may run
there. Feedback gains, under each check that failed, the picture that the grader drew, and the exercise's hints.
"""

from __future__ import annotations

import html
import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import bleach
from nbconvert.filters import markdown2html
from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Unicode

from autograder.exercise import Exercise
from autograder.exercises import find

LARGEST_PAGE = 1_500_000
"""Bytes that a feedback page of a lesson stays under; nbgrader's own style sheets take a third of it."""

_MORE = "p br hr pre h1 h2 h3 h4 h5 h6 table thead tbody tr th td div span details summary dl dt dd del sub sup img"
_TAGS = bleach.ALLOWED_TAGS | frozenset(_MORE.split())
_ATTRIBUTES = {"*": ["class", "title", "id"], "a": ["href"], "img": ["src", "alt"], "td": ["align"], "th": ["align"]}
_SHOWN = ("text/plain", "image/png", "image/jpeg")
"""What is shown of a student's outputs: nothing that a browser runs."""


def safe_markdown(source: str) -> str:
    """Markdown as HTML without scripts, styles and pictures from elsewhere; nbconvert's filter of that name."""
    return str(bleach.clean(markdown2html(source), tags=_TAGS, attributes=_may_stay, protocols=("http", "https")))


def _may_stay(tag: str, name: str, value: str) -> bool:
    if tag == "img" and name == "src":  # a picture from elsewhere tells its owner who looks, and when
        return value.startswith(("data:image/png", "data:image/jpeg"))
    return name in _ATTRIBUTES["*"] or name in _ATTRIBUTES.get(tag, ())


class SafeOutputs(Preprocessor):
    """Outputs of a student's cells as text and pixels only."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Drop every other form of each output."""
        for cell in nb.cells:
            for output in cell.get("outputs", ()):
                if "data" in output:
                    output.data = NotebookNode({kind: output.data[kind] for kind in _SHOWN if kind in output.data})
        nb.metadata.pop("widgets", None)
        return nb, resources


class AddPictures(NbGraderPreprocessor):
    """Under each check that failed: what the answer compiled, as the grader drew it, and the exercise's hints."""

    graded = Unicode("", help="Where the grader keeps its results: one folder a lesson").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Add one output to each failed check."""
        names = resources["nbgrader"]
        rulings = _rulings(Path(self.graded) / names["assignment"] / "results" / f"{names['student']}.json")
        for cell in nb.cells:
            marks = cell.metadata.get("nbgrader", {})
            failed = next((one for one in cell.get("outputs", ()) if one.output_type == "error"), None)
            if marks.get("grade") and failed is not None:
                name = str(marks["grade_id"]).removesuffix("_check")
                page = _below(name, failed, rulings.get(name, {}))
                cell.outputs += [new_output("display_data", data={"text/html": page})] if page else []
        return nb, resources


def after_feedback(assignment: str, student: str, notebooks: list[str]) -> None:
    """Let `nbgrader release_feedback` pass over what did not come through the exchange (nbgrader's post_convert_hook).

    It stops the whole class at a submission without the two files that ``nbgrader submit`` leaves, as an LMS's have
    none. They are made up here: nobody knows the secret, so nobody can fetch that feedback; send the page itself.
    """
    for notebook in map(Path, notebooks):
        folder = Path.cwd() / "work" / "feedback" / notebook.parents[1].name / notebook.parent.name
        for name, text in (("timestamp.txt", ""), ("submission_secret.txt", secrets.token_hex(32))):
            if folder.is_dir() and not (folder / name).exists():
                (folder / name).write_text(text, encoding="utf-8")


def _rulings(path: Path) -> dict[str, Mapping[str, Any]]:
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {ruling["exercise"]: ruling for ruling in result["rulings"]}


def _below(name: str, failed: NotebookNode, ruling: Mapping[str, Any]) -> str:
    """HTML to stand below a failed check; the picture only if it belongs to this very verdict."""
    try:
        exercise = find(name)
    except LookupError:
        return ""
    same = bool(ruling) and failed.evalue.startswith(ruling["sentence"])
    picture = str(ruling.get("picture", "")) if same else ""
    title = "<p><b>What your answer compiled</b></p>" if picture else ""
    return f'<div class="course-feedback">{title}{picture}{_hints(exercise)}</div>'


def _hints(exercise: Exercise) -> str:
    words = ("where to look", "which rule", "the shape of the code")
    return "".join(
        f"<details><summary>Hint {number}: {about}</summary><p>{html.escape(hint)}</p></details>"
        for number, (about, hint) in enumerate(zip(words, exercise.hints, strict=True), 1)
    )
