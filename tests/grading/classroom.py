"""A classroom in a temporary folder: the course's own nbgrader_config, an exchange, students, nbgrader's commands."""

import html
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder.build import Lesson, build

ROOT = Path(__file__).parents[2]
LESSON, COURSE = "01_basic_compile", "inside-torch-compile"

SMALL_LESSON = """# %% [markdown]
# # The exercises of lesson 1 without the lesson
# %%
import torch
from autograder import check
from compilescope import observe
# %% exercise="basic_1"
def compile_report(metrics):
    ### BEGIN SOLUTION
    def the_whole_report(prices):
        return torch.stack([metric(prices) for metric in metrics])
    return torch.compile(the_whole_report, backend="aot_eager", fullgraph=True)
    ### END SOLUTION
# %% check="basic_1"
check("basic_1")
# %% exercise="basic_2"
def compiled_ways(ways, x):
    ### BEGIN SOLUTION
    return {name for name, way in ways.items() if len(observe(way, x).graphs) > 0}
    ### END SOLUTION
# %% check="basic_2"
check("basic_2")
# %% exercise="basic_3"
def load_checkpoint(model, state):
    ### BEGIN SOLUTION
    clean = {key.replace("_orig_mod.", ""): value for key, value in state.items()}
    model.load_state_dict({key: clean[key.replace("_orig_mod.", "")] for key in model.state_dict()})
    ### END SOLUTION
# %% check="basic_3"
check("basic_3")
"""


@dataclass(frozen=True)
class Grade:
    """One check cell in the gradebook."""

    score: float
    out_of: float
    waits_for_a_person: bool


class Classroom:
    """A course folder, its exchange, and its students' folders."""

    def __init__(self, folder: Path) -> None:
        self.root, self.exchange = folder / "course", folder / "exchange"
        self.students = folder / "students"
        for path in (self.root, self.exchange, self.students, folder / "home"):
            path.mkdir()
        self.exchange.chmod(0o777)
        shutil.copy(ROOT / "nbgrader_config.py", self.root)
        self.lesson = Lesson(LESSON, self.root)
        self.env = {
            **os.environ,
            "HOME": str(folder / "home"),
            "XDG_CACHE_HOME": str(folder / "home" / ".cache"),
        }

    def teaches(self, source: str | Path) -> None:
        """Write the lesson's source and build its notebooks."""
        self.lesson.source.parent.mkdir(parents=True)
        text = source.read_text() if isinstance(source, Path) else source
        self.lesson.source.write_text(text)
        build(self.root)

    def nbgrader(self, *arguments: str, cwd: Path | None = None, seconds: float = 500, **env: str) -> str:
        """Run one nbgrader command in the course (or `cwd`), which must succeed; its output."""
        done = subprocess.run(
            [sys.executable, "-m", "nbgrader", *arguments, f"--Exchange.root={self.exchange}"],
            cwd=cwd or self.root,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=seconds,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"nbgrader {' '.join(arguments)}\n{said[-6000:]}"
        return said

    def as_student(self, name: str, *arguments: str) -> str:
        """Run one nbgrader command as this student would: in a home of their own, which has no configuration."""
        folder = self.students / name
        folder.mkdir(exist_ok=True)
        return self.nbgrader(*arguments, f"--course={COURSE}", f"--student={name}", cwd=folder, HOME=str(folder))

    def hands_in(self, student: str, notebook: NotebookNode | bytes, name: str | None = None) -> Path:
        """Put a submission where `nbgrader collect` would."""
        path = self.submission(student, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = notebook if isinstance(notebook, bytes) else nbformat.writes(notebook).encode()
        path.write_bytes(text)
        (path.parent / "timestamp.txt").write_text("2026-11-01 10:00:00 UTC")
        return path

    def submission(self, student: str, name: str | None = None) -> Path:
        return self.root / "work" / "submitted" / student / LESSON / (name or self.lesson.learner.name)

    def grades(self, student: str) -> dict[str, Grade]:
        """From nbgrader's gradebook, by grade id."""
        from nbgrader.api import Gradebook

        with Gradebook(f"sqlite:///{self.root}/work/gradebook.db", COURSE) as gradebook:
            notebook = gradebook.find_submission_notebook(self.lesson.topic, LESSON, student)
            return {g.name: Grade(g.score, g.max_score, bool(g.needs_manual_grade)) for g in notebook.grades}

    def scores(self, student: str) -> dict[str, float]:
        """Points by grade id; fails if one of them still waits for a person."""
        grades = self.grades(student)
        assert not [name for name, grade in grades.items() if grade.waits_for_a_person]
        return {name: grade.score for name, grade in grades.items()}

    def feedback(self, student: str) -> str:
        return (self.root / "work" / "feedback" / student / LESSON / f"{self.lesson.topic}.html").read_text()


def unsolved(lesson: Lesson) -> NotebookNode:
    """The learner's notebook."""
    return nbformat.read(lesson.learner, as_version=4)


def marks_of(cell: NotebookNode) -> dict:
    return cell.metadata.get("nbgrader", {})


def exercises_of(notebook: NotebookNode) -> list[str]:
    return [cell.metadata.nbgrader.grade_id for cell in notebook.cells if marks_of(cell).get("solution")]


def points_of(notebook: NotebookNode) -> dict[str, float]:
    """Points by grade id."""
    return {m["grade_id"]: m["points"] for cell in notebook.cells if (m := marks_of(cell)).get("grade")}


def solve(notebook: NotebookNode, lesson: Lesson, *names: str) -> NotebookNode:
    """Write the model solutions of these exercises (default: all) into `notebook`, and return it."""
    model = nbformat.read(lesson.solved, as_version=4)
    for name in names or exercises_of(model):
        source = cell_of(model, name).source.splitlines()
        cell_of(notebook, name).source = "\n".join(line for line in source if "### " not in line)
    return notebook


def cell_of(notebook: NotebookNode, grade_id: str) -> NotebookNode:
    return next(cell for cell in notebook.cells if marks_of(cell).get("grade_id") == grade_id)


def read_text(html_text: str) -> str:
    """What a reader of a page sees, without colors."""
    return html.unescape(re.sub(r"<[^>]+>", "", re.sub(r"(?s)<(style|script).*?</\1>", "", html_text)))
