"""``python -m autograder``: build, check and release the lessons, look after a learner's copies, doctor the machine."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from autograder.errors import CourseError

COMMANDS = {
    "lab": ("workspace", "main_lab", "copy new lessons to my/ and open JupyterLab on lesson 1"),
    "reset": ("workspace", "main_reset", "a fresh copy of one lesson in my/; the old one is kept beside it"),
    "doctor": ("machine", "main", "what this machine has and lacks, with the remedy"),
    "build": ("build", "main", "solutions/*.py to the solved and the learner's notebooks"),
    "check": ("prove", "main", "prove each lesson: solved, unsolved, known mistakes, budgets, leaks"),
    "progress": ("standing", "main", "where a learner, or a class, stands in the course"),
    "preflight": ("preflight", "main", "mend submissions that nbgrader cannot read"),
    "grade": ("grading.command", "main_grade", "grade a class's submissions in a sandbox, into nbgrader's gradebook"),
    "quality": ("grading.quality", "main", "how sure a grade is: mutants, mistakes and right answers of each exercise"),
    "similar": ("grading.similar", "main", "answers of a class that are nearly the same: a hint, not a verdict"),
    "plan": ("grading.plan", "main", "what a class of some size takes, from what grading took here"),
    "status": ("grading.status", "main", "who is graded, how fast, what failed"),
}
"""Command to its module in this package, its function, and its help; a module is imported only for its own command."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m autograder", description=__doc__)
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    of = {name: commands.add_parser(name, help=said, description=said) for name, (_, _, said) in COMMANDS.items()}
    of["lab"].add_argument("--port", type=int, default=8888, help="port of the server (default 8888)")
    of["lab"].add_argument("--browser", help='"none" opens no browser')
    of["reset"].add_argument("lesson", metavar="LESSON", help="01_basic_compile, or 1")
    of["doctor"].add_argument("--json", action="store_true", help="rows as JSON")
    of["build"].add_argument("--check", action="store_true", help="write nothing; fail if a notebook is out of date")
    of["check"].add_argument("lesson", metavar="LESSON", nargs="?", help="one lesson; all without it")
    of["progress"].add_argument(
        "folder", metavar="FOLDER", nargs="?", default="my", help="my/, or with --class a class's"
    )
    of["progress"].add_argument("--class", dest="of_class", action="store_true", help="one line a student in FOLDER")
    of["progress"].add_argument("--html", metavar="PAGE", help="write it as a page instead of printing it")
    of["preflight"].add_argument("lesson", metavar="LESSON")
    add_grading(of["grade"], of["status"])
    add_similar(of["similar"])
    add_plan(of["plan"])
    of["quality"].add_argument("lesson", metavar="LESSON", nargs="?", help="one lesson; all without it")
    of["quality"].add_argument("--only", nargs="+", metavar="EXERCISE", help="these exercises only")
    of["quality"].add_argument("--mutants", type=int, default=40, metavar="N", help="of each exercise (default 40)")
    of["quality"].add_argument("--repeats", type=int, default=3, metavar="N", help="of each right answer (default 3)")
    of["quality"].add_argument("--busy", type=int, default=2, metavar="N", help="busy processes meanwhile (default 2)")
    of["quality"].add_argument("--again", action="store_true", help="also what has not changed since")
    return made


def add_grading(grade: argparse.ArgumentParser, status: argparse.ArgumentParser) -> None:
    """The options of `grade` and `status`."""
    for one in (grade, status):
        one.add_argument("lesson", metavar="LESSON", help="01_basic_compile, or 1")
        one.add_argument("--course", metavar="FOLDER", help="the course's folder, if it is not this one")
    grade.add_argument("--only", nargs="+", metavar="STUDENT", help="these students only")
    grade.add_argument("--regrade", action="store_true", help="grade again what is graded; manual scores stay")
    grade.add_argument("--retry", choices=["failed"], help="also what failed through no fault of the student")
    grade.add_argument(
        "--workers", type=int, metavar="N", help="submissions at once (default: cores, as memory allows)"
    )
    grade.add_argument("--memory", type=float, default=3.0, metavar="GB", help="for one submission (default 3)")
    grade.add_argument("--cell", type=float, default=120.0, metavar="S", help="seconds for one cell (default 120)")
    grade.add_argument("--wall", type=float, default=240.0, metavar="S", help="seconds for one exercise (default 240)")
    grade.add_argument(
        "--scheduler", metavar="ADDRESS", help="a Dask cluster: its address, its scheduler file, or jobs.yaml"
    )
    grade.add_argument("--no-sandbox", action="store_true", help="without isolation: only for answers of your own")
    status.add_argument("--watch", action="store_true", help="every two seconds")
    status.add_argument("--page", metavar="FILE", help="also as an HTML page")


def add_plan(plan: argparse.ArgumentParser) -> None:
    """The options of `plan`."""
    plan.add_argument("--course", metavar="FOLDER", help="the course's folder, if it is not this one")
    plan.add_argument("--students", type=int, default=500, metavar="N", help="of the class (default 500)")
    plan.add_argument("--lessons", type=int, metavar="N", help="of the course (default: all there are)")
    plan.add_argument("--workers", type=int, nargs="+", default=[2, 16, 64], metavar="N", help="default: 2 16 64")
    plan.add_argument("--figures", metavar="FILE", help="measured elsewhere, instead of this course's own journals")
    plan.add_argument("--keep", metavar="FILE", help="write the figures to this file")


def add_similar(similar: argparse.ArgumentParser) -> None:
    """The options of `similar`."""
    similar.add_argument("lesson", metavar="LESSON", help="01_basic_compile, or 1")
    similar.add_argument("--course", metavar="FOLDER", help="the course's folder, if it is not this one")
    similar.add_argument("--only", nargs="+", metavar="EXERCISE", help="these exercises only")
    similar.add_argument("--threshold", type=float, default=0.9, metavar="X", help="from 0 to 1 (default 0.9)")
    similar.add_argument("--csv", metavar="FILE", help="also as CSV")
    similar.add_argument("--page", metavar="FILE", help="also as an HTML page with both answers")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 if all is well, 1 with one sentence on stderr if not."""
    args = parser().parse_args(arguments)
    module, function, _ = COMMANDS[args.command]
    try:
        code: int = getattr(importlib.import_module(f"autograder.{module}"), function)(args)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("autograder", "compilescope"):
            raise
        print(
            f"This Python has no {error.name}. Take the course's own, .venv/bin/python -m autograder {args.command}; "
            "make lab makes it.",
            file=sys.stderr,
        )
        return 1
    except CourseError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return code


if __name__ == "__main__":
    sys.exit(main())
