"""Grades as the files that Canvas and Moodle import: ``nbgrader export --exporter=autograder.grading.export.Canvas``.

Both take the score after late penalties. Who handed nothing in has an empty cell, which an import leaves as it is; and
a grade that still waits for a person stops the export, unless ``--Canvas.waiting=True`` lets it pass.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nbgrader.api import Assignment, Gradebook, MissingEntry, Student
from nbgrader.plugins import ExportPlugin
from traitlets import Bool


class _LmsExport(ExportPlugin):
    file = "grades.csv"

    waiting = Bool(False, help="also export submissions in which a grade waits for a person").tag(config=True)

    def export(self, gradebook: Gradebook) -> None:
        """Write the file that ``--to`` names; one sentence and no file if a grade still waits for a person."""
        wanted = [str(name) for name in self.assignment]
        assignments = [one for one in gradebook.assignments if not wanted or one.name in wanted]
        known = [str(name) for name in self.student]
        students = sorted(
            (one for one in gradebook.students if not known or one.id in known), key=lambda one: str(one.id)
        )
        lines = list(self.lines(gradebook, assignments, students))
        to = Path(self.to or self.file)
        with to.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([_harmless(value) for value in line] for line in lines)
        self.log.info("Exported %d students to %s", len(students), to)

    def lines(self, book: Gradebook, lessons: list[Assignment], students: list[Student]) -> Iterator[list[Any]]:
        """The lines of the file, heads first."""
        raise NotImplementedError

    def score(self, gradebook: Gradebook, assignment: Assignment, student: Student) -> float | str:
        """Points after penalties; empty if nothing was handed in."""
        try:
            submission = gradebook.find_submission(assignment.name, student.id)
        except MissingEntry:
            return ""
        if submission.needs_manual_grade and not self.waiting:
            self.parent.fail(
                f"A grade of {student.id} in {assignment.name} waits for a person: look in formgrader, or add "
                f"--{type(self).__name__}.waiting=True"
            )
        return max(0.0, float(submission.score) - float(submission.late_submission_penalty or 0))


class Canvas(_LmsExport):
    """For Canvas: Grades, Import. Students are found by ``lms_user_id`` of the gradebook, else by their login."""

    file = "canvas.csv"

    def lines(self, book: Gradebook, lessons: list[Assignment], students: list[Student]) -> Iterator[list[Any]]:
        """A line of heads, a line of points possible, a line a student."""
        yield ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *(one.name for one in lessons)]
        yield ["    Points Possible", "", "", "", "", *(float(one.max_score) for one in lessons)]
        for student in students:
            name = ", ".join(filter(None, (student.last_name, student.first_name))) or student.id
            scores = [self.score(book, lesson, student) for lesson in lessons]
            yield [name, student.lms_user_id or "", "", student.id, "", *scores]


class Moodle(_LmsExport):
    """For Moodle: Grades, Import, CSV file; map "Username" or "Email address" to the user, each lesson to its item."""

    file = "moodle.csv"

    def lines(self, book: Gradebook, lessons: list[Assignment], students: list[Student]) -> Iterator[list[Any]]:
        """A line of heads, a line a student."""
        yield ["Username", "Email address", *(one.name for one in lessons)]
        for student in students:
            scores = [self.score(book, lesson, student) for lesson in lessons]
            yield [student.id, student.email or "", *scores]


def _harmless(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: names come from students."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t")) else value
