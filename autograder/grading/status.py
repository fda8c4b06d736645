"""``python -m autograder status LESSON``: who is graded, how fast, what failed; in the terminal or as a page."""

from __future__ import annotations

import argparse
import html
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from autograder.build import Lesson, lesson_named
from autograder.grading.command import submissions
from autograder.grading.journal import Event, Journal
from autograder.nbgrader_config import ROOT

WORDS = {"written": "graded", "judged": "judged, not written yet", "failed": "failed", "": "waits"}
COLUMNS = ("student", "state", "points", "s", "")
RECENT = 600
"""Seconds of the journal that the rate is taken from."""


@dataclass(frozen=True)
class Standing:
    """Where the grading of a lesson stands; `rows` has one line a student, as `COLUMNS` names them."""

    lesson: str
    line: str
    done: int
    of: int
    rows: tuple[tuple[str, ...], ...]

    @property
    def ended(self) -> bool:
        """Whether nobody waits any more; what failed waits for ``--retry failed`` only."""
        return not any(row[1] in (WORDS[""], WORDS["judged"]) for row in self.rows)


def standing(lesson: Lesson) -> Standing:
    """From the journal, while a grader writes it or after."""
    journal = Journal(lesson)
    students, events = submissions(lesson, None), journal.events()
    rows = tuple(_row(student, events.get(student), journal) for student in students)
    done = sum(1 for student in students if student in events and events[student].state == "written")
    return Standing(lesson.name, progress_line(students, events), done, len(students), rows)


def _row(student: str, event: Event | None, journal: Journal) -> tuple[str, ...]:
    result = journal.result(student)
    rulings = result["rulings"] if result else []
    points = f"{sum(one['points'] for one in rulings)} / {sum(one['out_of'] for one in rulings)}" if rulings else ""
    looks = [f"look at {one['exercise']}" for one in rulings if one["suspicion"]]
    note = "; ".join(filter(None, (event.note if event else "", result["problem"] if result else "", *looks)))
    return student, WORDS[event.state if event else ""], points, f"{result['seconds']:.1f}" if result else "", note


def progress_line(students: list[str], events: dict[str, Event]) -> str:
    """``12 of 40 graded, 20 a minute, 2 min left``: the rate is that of the last ten minutes of the journal."""
    known = [event for student, event in events.items() if student in students]
    done = sorted(event.at for event in known if event.state == "written")
    failed = sum(event.state == "failed" for event in known)
    line = f"{len(done)} of {len(students)} graded" + (f", {failed} failed" if failed else "")
    recent = [at for at in done if at > done[-1] - RECENT]
    if len(recent) > 1 and recent[-1] > recent[0]:
        rate = 60 * (len(recent) - 1) / (recent[-1] - recent[0])
        line += f", {rate:.0f} a minute"
        if left := len(students) - len(done) - failed:
            line += f", {left / rate:.0f} min left"
    return line


def shown(now: Standing) -> Group:
    """For the terminal."""
    made = Table(box=None, header_style="bold")
    for column in COLUMNS:
        made.add_column(column, justify="right" if column in ("points", "s") else "left")
    for row in now.rows:
        made.add_row(*(Text(cell) for cell in row))  # a student's name is no markup
    return Group(Text(f"{now.lesson}: {now.line}"), ProgressBar(total=now.of, completed=now.done, width=60), made)


def as_page(now: Standing) -> str:
    """As a page without scripts; while somebody waits, a browser that has it open reads it again every five seconds."""
    again = "" if now.ended else '<meta http-equiv="refresh" content="5">'
    head = "".join(f"<th scope=col>{name}</th>" for name in COLUMNS)
    rows = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in now.rows)
    title, line = html.escape(now.lesson), html.escape(now.line)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{again}<title>{title}: {line}</title><style>'
        "html{color-scheme:light dark}body{font-family:system-ui,sans-serif;margin:16px}progress{width:30em}"
        "table{border-collapse:collapse}th,td{border-bottom:1px solid #8888;padding:3px 12px;text-align:left}"
        f"</style></head><body><main><h1>{title}</h1><p>{line}</p>"
        f'<progress max="{now.of}" value="{now.done}" aria-label="{line}"></progress>'
        f"<table><tr>{head}</tr>{rows}</table></main></body></html>\n"
    )


def main(args: argparse.Namespace) -> int:
    """Print the table; with --watch keep it up to date until nobody waits; with --page also as an HTML file."""
    lesson = lesson_named(args.lesson, Path(args.course).resolve() if args.course else ROOT)
    console = Console()
    now = standing(lesson)
    with Live(shown(now), console=console, auto_refresh=False, vertical_overflow="visible") as live:
        while True:
            if args.page:
                Path(args.page).write_text(as_page(now), encoding="utf-8")
            if now.ended or not args.watch:
                return 0
            time.sleep(2)
            now = standing(lesson)
            live.update(shown(now), refresh=True)
