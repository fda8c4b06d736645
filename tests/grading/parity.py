"""Honest submissions graded twice, by `nbgrader autograde` and by `python -m autograder grade`: what differs.

``python tests/grading/parity.py -o tests/grading/parity.md`` does it for all of `honest.HONEST` and writes a table.
"""

import argparse
import datetime
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat

sys.path.insert(0, str(Path(__file__).parent))

from classroom import COURSE, LESSON, ROOT, Classroom, marks_of
from honest import HONEST, LATE, RENAMED, TWO_EXERCISES, WITH_FILES, hand_in

SECRET = {"COURSE_SECRET": "nobody-knows-this"}
DUE = datetime.datetime(2026, 11, 2)
SUBMISSION = ("score", "max_score", "needs_manual_grade", "timestamp", "late_submission_penalty", "total_seconds_late")
GRADE = ("auto_score", "manual_score", "extra_credit", "score", "max_score", "needs_manual_grade", "failed_tests")
COMMENT = ("auto_comment", "manual_comment", "comment")
PLAIN = "--RunToTheEnd.sandboxed=False"


def grade(
    classroom: Classroom, *options: str, within: Sequence[str] = (), **more: str
) -> subprocess.CompletedProcess[str]:
    """Run our command in `classroom`, started by the command `within`; the finished process."""
    command = [sys.executable, "-m", "autograder", "grade", LESSON, f"--course={classroom.root}", "--workers=1"]
    env = {**classroom.env, **SECRET, **more}
    return subprocess.run(
        [*within, *command, *options], env=env, cwd=ROOT, capture_output=True, text=True, timeout=3000
    )


def graded_twice(classroom: Classroom, students: Iterable[str], *options: str) -> None:
    """Grade in `classroom.root`, and with nbgrader, started with `options`, in `classroom.by_nbgrader`.

    `classroom.before` is the course with nothing graded.
    """
    classroom.teaches(TWO_EXERCISES)
    classroom.nbgrader("generate_assignment", "--force", LESSON)
    is_due(classroom)
    for student in students:
        hand_in(classroom, student)
    classroom.by_nbgrader, classroom.before = (classroom.root.parent / name for name in ("by_nbgrader", "before"))
    for copy in (classroom.by_nbgrader, classroom.before):
        shutil.copytree(classroom.root, copy)
    here, classroom.root = classroom.root, classroom.by_nbgrader
    classroom.nbgrader("autograde", LESSON, *options, seconds=3000, **SECRET)
    classroom.root = here
    classroom.done = grade(classroom)
    assert classroom.done.returncode == 0, classroom.done.stdout + classroom.done.stderr


def is_due(classroom: Classroom) -> None:
    """Give the assignment a due date, and let a late submission be worth nothing, as an instructor would."""
    from nbgrader.api import Gradebook

    with (classroom.root / "nbgrader_config.py").open("a") as config:
        config.write('\nc = get_config()\nc.LateSubmissionPlugin.penalty_method = "zero"\n')

    with Gradebook(f"sqlite:///{classroom.root}/work/gradebook.db", COURSE) as gradebook:
        gradebook.update_or_create_assignment(LESSON, duedate=DUE)


def rows(root: Path) -> dict[str, dict[str, Any]]:
    """Everything that nbgrader's gradebook says of each submission, but for ids and the moment of grading."""
    from nbgrader.api import Gradebook

    found = {}
    with Gradebook(f"sqlite:///{root}/work/gradebook.db", COURSE) as gradebook:
        for submission in gradebook.assignment_submissions(LESSON):
            (notebook,) = submission.notebooks
            found[submission.student.id] = {
                "submission": [getattr(submission, name) for name in SUBMISSION],
                "notebook": [notebook.score, notebook.max_score, notebook.needs_manual_grade, notebook.failed_tests],
                "grades": {one.name: [getattr(one, name) for name in GRADE] for one in notebook.grades},
                "comments": {one.name: [getattr(one, name) for name in COMMENT] for one in notebook.comments},
            }
    return found


def books(classroom: Classroom) -> list[dict[str, dict[str, Any]]]:
    """What our gradebook says, and nbgrader's."""
    return [rows(root) for root in (classroom.root, classroom.by_nbgrader)]


def differences(classroom: Classroom, student: str, both: list[dict[str, dict[str, Any]]]) -> Iterator[str]:
    """What differs for a student between the two gradings, in the gradebooks `both` and in ``autograded/``."""
    ours, theirs = (book.get(student, {}) for book in both)
    for part in ("submission", "notebook", "grades", "comments"):
        if part not in ours or ours[part] != theirs.get(part):
            yield f"{part}: {ours.get(part)} by grade, {theirs.get(part)} by nbgrader"
    folders = [root / "work" / "autograded" / student / LESSON for root in (classroom.root, classroom.by_nbgrader)]
    mine, its = (sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) for folder in folders)
    if mine != its:
        yield f"files: {mine} by grade, {its} by nbgrader"
        return
    for name in mine:
        one, other = (folder / name for folder in folders)
        if name == "basic_compile.ipynb":
            yield from in_notebooks(one, other)
        elif one.is_file() and one.read_bytes() != other.read_bytes():
            yield f"{name} is another file"
        if one.stat().st_mode != other.stat().st_mode:
            yield f"{name} has other permissions"


def in_notebooks(ours: Path, theirs: Path) -> Iterator[str]:
    """Which cells of an autograded notebook differ; of outputs only those of checks are compared."""
    mine, its = (nbformat.read(path, as_version=4) for path in (ours, theirs))
    if len(mine.cells) != len(its.cells):
        yield f"{len(mine.cells)} cells by grade, {len(its.cells)} by nbgrader"
        return
    for number, (one, other) in enumerate(zip(mine.cells, its.cells, strict=True)):
        if (one.cell_type, one.source, marks_of(one)) != (other.cell_type, other.source, marks_of(other)):
            yield f"cell {number} has another source or other marks"
        if marks_of(one).get("grade") and shown(one) != shown(other):
            yield f"check {number} shows {shown(one)} by grade, {shown(other)} by nbgrader"


def shown(cell: nbformat.NotebookNode) -> Any:
    """What a student reads in a check cell."""
    (output,) = cell.outputs
    return output.get("text") or (output.ename, output.evalue)


def table(classroom: Classroom, both: list[dict[str, dict[str, Any]]]) -> str:
    """The comparison in Markdown."""
    ours, theirs = both
    lines = [
        "# `grade` against `nbgrader autograde`, field by field",
        "",
        f"{len(HONEST)} honest submissions of a small lesson (`tests/grading/honest.py`), graded by both. Made by",
        "`make grade-parity`. Compared: every score, flag, penalty and comment in nbgrader's gradebook; names,",
        "permissions and content of all files in `autograded/`; of each cell its source, its metadata, and, if it is a",
        "check, what it shows. What other cells print is not compared: `grade` runs only what an exercise needs.",
        "",
        "| submission | worth | by nbgrader | by grade | differences |",
        "|---|---|---|---|---|",
    ]
    for student, (worth, _) in HONEST.items():
        found = "; ".join(differences(classroom, student, both)) or "none"
        scores = [one.get(student, {}).get("notebook", ["none"])[0] for one in (theirs, ours)]
        marks = {LATE: ", handed in late", RENAMED: ", file renamed", WITH_FILES: ", with other files"}
        said = student.replace("_", " ") + marks.get(student, "")
        lines.append(f"| {said} | {worth} | {scores[0]:g} | {scores[1]:g} | {found.replace('|', '/')} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Grade all of them twice and write the table; 1 if anything differs."""
    options = argparse.ArgumentParser()
    options.add_argument("-o", "--output", type=Path, required=True)
    output = options.parse_args().output.resolve()
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(tempfile.gettempdir()) / "inside-torch-compile-tests"))
    with tempfile.TemporaryDirectory() as folder:
        classroom = Classroom(Path(folder))
        graded_twice(classroom, HONEST, PLAIN)
        both = books(classroom)
        output.write_text(table(classroom, both))
        return int(any(any(differences(classroom, student, both)) for student in HONEST))


if __name__ == "__main__":
    sys.exit(main())
