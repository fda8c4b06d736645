"""``python -m autograder status LESSON``: who is graded, how fast, what failed; in the terminal or as a page."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from autograder.build import Lesson, lesson_named
from autograder.grading.command import submissions
from autograder.grading.journal import Event, Journal
from autograder.nbgrader_config import ROOT

WORDS = {"written": "graded", "judged": "judged, not written yet", "failed": "failed", "": "waits"}


def table(lesson: Lesson) -> Table:
    """One row a student, and a title with progress, rate and time left."""
    journal = Journal(lesson)
    students, events = submissions(lesson, None), journal.events()
    made = Table(title=progress_line(students, events), title_justify="left", box=None, header_style="bold")
    for column, justify in (("student", "left"), ("state", "left"), ("points", "right"), ("s", "right"), ("", "left")):
        made.add_column(column, justify=justify)  # type: ignore[arg-type]
    for student in students:
        event, result = events.get(student), journal.result(student)
        rulings = result["rulings"] if result else []
        points = f"{sum(one['points'] for one in rulings)} / {sum(one['out_of'] for one in rulings)}" if rulings else ""
        looks = [f"look at {one['exercise']}" for one in rulings if one["suspicion"]]
        note = "; ".join(filter(None, (event.note if event else "", result["problem"] if result else "", *looks)))
        seconds = f"{result['seconds']:.1f}" if result else ""
        made.add_row(student, WORDS[event.state if event else ""], points, seconds, note)
    return made


def progress_line(students: list[str], events: dict[str, Event]) -> str:
    """``12 of 40 graded, 20 a minute, 2 min left``: the rate is that of the last ten minutes of the journal."""
    done = sorted(event.at for student, event in events.items() if student in students and event.state == "written")
    line = f"{len(done)} of {len(students)} graded"
    recent = [at for at in done if done and at > done[-1] - 600]
    if len(recent) > 1 and recent[-1] > recent[0]:
        rate = 60 * (len(recent) - 1) / (recent[-1] - recent[0])
        line += f", {rate:.0f} a minute"
        if len(done) < len(students):
            line += f", {(len(students) - len(done)) / rate:.0f} min left"
    return line


def main(args: argparse.Namespace) -> int:
    """Print the table; with --watch again and again, with --page into an HTML file."""
    lesson = lesson_named(args.lesson, Path(args.course).resolve() if args.course else ROOT)
    console = Console(record=bool(args.page))
    while True:
        console.print(table(lesson))
        if args.page:
            Path(args.page).write_text(console.export_html(), encoding="utf-8")
        if not args.watch:
            return 0
        time.sleep(2)
        console.clear()
