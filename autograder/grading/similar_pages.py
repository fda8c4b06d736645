"""The report of near-identical answers as a table in the terminal, as CSV, and as a page with both answers."""

from __future__ import annotations

import csv
import html
import io
import textwrap

from rich.console import Console
from rich.table import Table

from autograder.build import Lesson
from autograder.grading.similar import SHORTEST, Pair, Report

HINT = (
    "A hint, not a verdict: people who learn together write alike, and so do people with one teacher. Look at both "
    "answers, and talk to both students, before you think anything."
)
_STYLE = (
    "body{font-family:system-ui,sans-serif;margin:16px;color-scheme:light dark}table{border-collapse:collapse}"
    "th,td{border:1px solid #8888;padding:4px 10px;text-align:left;vertical-align:top}pre{font-size:12px;margin:0}"
    "td.code{max-width:46vw;overflow:auto}"
)


def show(lesson: Lesson, report: Report) -> None:
    """Print the table and what was not compared."""
    console = Console()
    if report.pairs:
        made = Table(box=None, header_style="bold")
        for column in ("exercise", "alike", "one", "other"):
            made.add_column(column, justify="right" if column == "alike" else "left")
        for pair in report.pairs:
            made.add_row(pair.exercise, f"{pair.likeness:.0%}", pair.one.student, pair.other.student)
        console.print(made)
    else:
        console.print(f"No two answers in {lesson.name} are nearly the same.")
    for sentence in (HINT, *left_out(report)):
        console.print(sentence, markup=False, highlight=False)


def left_out(report: Report) -> list[str]:
    """What was not compared, or only counted, one sentence each."""
    said = [
        f"{name}: {count} answers are too short to compare (under {SHORTEST} parts)."
        for name, count in report.short.items()
        if count
    ]
    said += [
        f"{name}: {count} pairs are left out, for both answers are near one right answer of the course."
        for name, count in report.known.items()
    ]
    return said + ([f"Not readable: {', '.join(report.unread)}."] if report.unread else [])


def as_csv(report: Report) -> str:
    """One line a pair: exercise, likeness between 0 and 1, both students."""
    made = io.StringIO()
    lines = csv.writer(made)
    lines.writerow(["exercise", "alike", "student", "other"])
    lines.writerows(
        [pair.exercise, f"{pair.likeness:.3f}", pair.one.student, pair.other.student] for pair in report.pairs
    )
    return made.getvalue()


def as_page(lesson: Lesson, report: Report) -> str:
    """The table as a page without scripts, with the two answers of each pair side by side."""
    rows = "".join(_row(pair) for pair in report.pairs)
    heads = "<tr><th scope=col>exercise</th><th scope=col>alike</th><th scope=col colspan=2>students</th></tr>"
    notes = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in (HINT, *left_out(report)))
    title = f"Near-identical answers in {html.escape(lesson.name)}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"</head><body><main><h1>{title}</h1>{notes}<table>{heads}{rows}</table></main></body></html>\n"
    )


def _row(pair: Pair) -> str:
    cells = "".join(
        f"<td class=code><b>{html.escape(one.student)}</b><details><summary>answer</summary>"
        f"<pre>{html.escape(textwrap.dedent(one.source).strip())}</pre></details></td>"
        for one in (pair.one, pair.other)
    )
    return f"<tr><td>{html.escape(pair.exercise)}</td><td>{pair.likeness:.0%}</td>{cells}</tr>"
