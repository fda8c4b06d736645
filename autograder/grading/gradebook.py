"""Lets nbgrader itself write what the referees ruled: one writer, nbgrader's own steps, only its execution left out.

`nbgrader autograde` runs with the course's own configuration, but where it would start a kernel, `PutRulings` puts
each ruling into its check cell as the check would have printed it. Grades, comments, late penalties and the files in
``autograded/`` are then nbgrader's own doing, and formgrader, feedback and export go on from there.
"""

from __future__ import annotations

import json
import logging
import textwrap
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.apps.baseapp import NbGrader
from nbgrader.converters import Autograde
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import NbGraderPreprocessor
from sqlalchemy.exc import SAWarning
from traitlets import Unicode

from autograder.build import Lesson
from autograder.errors import CourseError
from autograder.grading.gradebook_state import is_missing, known_trouble, trouble_with
from autograder.nbgrader_config import config_as_read
from autograder.preflight import SUBMITTED

STEPS = "PutRulings IgnorePattern LimitOutput SaveAutoGrades FlagSuspicions AssignLatePenalties CheckCellMetadata"
OURS = ("PutRulings", "FlagSuspicions")


class _Result(NbGraderPreprocessor):
    folder = Unicode("", help="Where the results are, one JSON file a student").tag(config=True)

    def result(self, resources: Any) -> dict[str, Any]:
        """The result of the student whose notebook this is."""
        path = Path(self.folder) / f"{resources['nbgrader']['student']}.json"
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found


class PutRulings(_Result):
    """In place of nbgrader's Execute: check cells get the output that their ruling would have printed."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Fill the check cells; what the cells of an exercise printed goes under its exercise cell."""
        result = self.result(resources)
        rulings = {ruling["exercise"]: ruling for ruling in result["rulings"]}
        for cell in nb.cells:
            marks = cell.metadata.get("nbgrader", {})
            name = str(marks.get("grade_id", ""))
            if marks.get("grade") and cell.cell_type == "code":
                cell.outputs = [check_output(name.removesuffix("_check"), rulings, result["problem"])]
            elif cell.cell_type == "code" and rulings.get(name, {}).get("output"):
                cell.outputs = [new_output("stream", name="stdout", text=rulings[name]["output"])]
        return nb, resources


class FlagSuspicions(_Result):
    """After SaveAutoGrades: where tampering is suspected, a person has to look, and reads why in the comment."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Mark the grades in the gradebook; the notebook stays."""
        names = resources["nbgrader"]
        place = (names["notebook"], names["assignment"], names["student"])
        suspicions = {one["exercise"]: one["suspicion"] for one in self.result(resources)["rulings"]}
        with Gradebook(names["db_url"]) as gradebook:
            for exercise, suspicion in suspicions.items():
                if suspicion:
                    gradebook.find_grade(f"{exercise}_check", *place).needs_manual_grade = True
                    gradebook.find_comment(exercise, *place).auto_comment = suspicion
            gradebook.db.commit()
        return nb, resources


def check_output(name: str, rulings: Mapping[str, dict[str, Any]], problem: str) -> NotebookNode:
    """What `check(name)` would have left in its cell."""
    ruling = rulings.get(name)
    if ruling is None:
        sentence = f"{problem or 'This exercise was not judged.'} Nothing in it could be checked."
        return _output("error", ename="CheckFailed", evalue=sentence, traceback=[f"✗ {name}", sentence])
    if ruling["passed"]:
        found = f" · {ruling['sentence']}" if ruling["sentence"] else ""
        text = f"✓ {name} · {ruling['points']} of {ruling['out_of']} points{found}\n"
        return _output("stream", name="stdout", text=text)
    sentence = f'{ruling["sentence"]} Stuck? hint("{name}")'
    lines = [f"✗ {name} · 0 of {ruling['out_of']} points", *textwrap.wrap(sentence, 100)]
    return _output("error", ename="CheckFailed", evalue=sentence, traceback=lines)


def _output(kind: str, **content: Any) -> NotebookNode:
    made: NotebookNode = new_output(kind, **content)
    return made


class Writer:
    """The one writer of a course's gradebook. `results` holds one JSON file a student."""

    def __init__(self, lesson: Lesson, results: Path) -> None:
        self.lesson = lesson
        self.config = config_as_read(lesson.root)
        self.config.Autograde.autograde_preprocessors = [
            f"autograder.grading.gradebook.{name}" if name in OURS else f"nbgrader.preprocessors.{name}"
            for name in STEPS.split()
        ]
        for name in OURS:
            self.config[name].folder = str(results)
        self.app = NbGrader(config=self.config)
        self.course = CourseDirectory(config=self.config)

    def require_assignment(self) -> None:
        """CourseError unless nbgrader knows the lesson's notebook as it was released."""
        lesson, url = self.lesson, str(self.config.CourseDirectory.db_url)
        missing = is_missing(url)  # to open it would make one
        if not missing:
            trouble = trouble_with(url)
            if trouble:
                raise CourseError(trouble)
            with Gradebook(url, "inside-torch-compile") as gradebook:
                try:
                    missing = not list(gradebook.find_notebook(lesson.topic, lesson.name).grade_cells)
                except MissingEntry:
                    missing = True
        if missing:
            raise CourseError(
                f"nbgrader does not know {lesson.name} yet. Run: nbgrader generate_assignment --force {lesson.name}"
            )

    def write(self, student: str) -> str:
        """Autograde one student's submission from its result; what nbgrader warned of, one line each."""
        course = self.course
        course.assignment_id, course.student_id, course.notebook_id = self.lesson.name, student, "*"
        folder = self.lesson.root / SUBMITTED / student / self.lesson.name
        plain = list(self.config.CourseDirectory.ignore)
        course.ignore = plain + [path.name for path in folder.rglob("*") if path.is_symlink()]
        converter = Autograde(coursedir=course, parent=self.app)
        converter.force = converter.create_student = True
        lines = _Lines()
        warnings.filterwarnings("ignore", category=SAWarning)  # nbgrader's own habits with its database
        converter.log = self.app.log = lines.logger
        try:
            converter.start()
        except (Exception, SystemExit) as error:
            words = f"nbgrader could not write {student}: {lines.last() or error}"
            raise CourseError(known_trouble(lines.said) or words) from error
        return "\n".join(lines.warnings)


class _Lines(logging.Handler):
    """A logger that keeps warnings in memory."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.warnings: list[str] = []
        self.said = ""
        self.logger = logging.Logger("nbgrader", logging.WARNING)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what is no routine."""
        text = record.getMessage()
        self.said += text
        if not text.startswith("Removing existing"):
            self.warnings.append(text)

    def last(self) -> str:
        """The last line of the last warning."""
        lines = [line for text in self.warnings for line in text.strip().splitlines() if line.strip()]
        return lines[-1][:200] if lines else ""
