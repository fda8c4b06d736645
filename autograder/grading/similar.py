"""``python -m autograder similar LESSON``: answers that are nearly the same, for a person to look at.

An answer is compared as the sequence of what its syntax tree holds: names that it chose itself, docstrings, comments,
layout, annotations, texts and what the lesson gave are left out, so that renaming and moving lines a little hides
nothing. What it says is a hint, not a verdict: short right answers are alike by nature. They are not compared, and of
a pair that is near one and the same right answer of the course only the number is told.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
from nbformat import NotebookNode
from rapidfuzz import process
from rapidfuzz.distance import Indel

from autograder.build import Lesson, lesson_named
from autograder.exercise import Exercise
from autograder.exercises import of_lesson
from autograder.grading import cells
from autograder.grading.command import submissions
from autograder.grading.examiner import read_notebook
from autograder.nbgrader_config import ROOT
from autograder.preflight import SUBMITTED, Unreadable

THRESHOLD = 0.9
SHORTEST = 50
"""Parts of a syntax tree that an answer must have to be compared."""
LONGEST = 5000
_BLOCK = 500


@dataclass(frozen=True)
class Written:
    """What one student wrote for one exercise, and its syntax tree as a sequence."""

    student: str
    source: str
    parts: tuple[str, ...]


@dataclass(frozen=True)
class Pair:
    """Two students whose answers to an exercise are nearly the same; `likeness` is 1 where nothing differs."""

    exercise: str
    likeness: float
    one: Written
    other: Written


@dataclass
class Report:
    """Pairs, most alike first; and how much of each exercise was not compared."""

    pairs: list[Pair] = field(default_factory=list)
    short: dict[str, int] = field(default_factory=dict)
    """Exercise to the number of answers that are too short to say anything."""
    known: dict[str, int] = field(default_factory=dict)
    """Exercise to the number of pairs that are as near to a right answer of the course as to each other."""
    unread: list[str] = field(default_factory=list)


def similar(lesson: Lesson, threshold: float = THRESHOLD, only: Sequence[str] = ()) -> Report:
    """Compare all submissions of a lesson, exercise by exercise."""
    report = Report()
    released = nbformat.reads(lesson.learner.read_text(encoding="utf-8"), as_version=4)
    notebooks: dict[str, NotebookNode] = {}
    for student in submissions(lesson, None):
        try:
            notebooks[student] = read_notebook(
                lesson.root / SUBMITTED / student / lesson.name / lesson.learner.name, released
            )
        except Unreadable:
            report.unread.append(student)
    for exercise in of_lesson(lesson.name):
        if not only or exercise.name in only:
            given = _given(exercise, released)
            answers = [written(student, book, exercise, released, given) for student, book in notebooks.items()]
            compare(exercise, answers, given, threshold, report)
    report.pairs.sort(key=lambda pair: (-pair.likeness, pair.exercise, pair.one.student, pair.other.student))
    return report


def compare(exercise: Exercise, answers: Sequence[Written], given: set[str], threshold: float, report: Report) -> None:
    """Add the pairs of one exercise to `report`."""
    long = [one for one in answers if SHORTEST <= len(one.parts) <= LONGEST]
    report.short[exercise.name] = sum(0 < len(one.parts) < SHORTEST for one in answers)
    if len(long) < 2:
        return
    right = [parts_of(code, exercise.asks_for, given) for code in exercise.alternatives]
    texts, known = _as_texts([one.parts for one in long], right)
    near = _likeness(texts, known, threshold) if known else np.zeros((len(texts), 0), np.float32)
    for start in range(0, len(texts), _BLOCK):
        scores = _likeness(texts[start : start + _BLOCK], texts, threshold)
        for i, j in np.argwhere(scores > 0):
            if start + i < j:
                if np.any((near[start + i] > 0) & (near[j] > 0)):
                    report.known[exercise.name] = report.known.get(exercise.name, 0) + 1
                else:
                    report.pairs.append(Pair(exercise.name, float(scores[i, j]), long[start + i], long[j]))


def _likeness(some: Sequence[str], others: Sequence[str], threshold: float) -> Any:
    """Share of parts that two sequences have in common, in order; 0 below the threshold. float32 [some, others]."""
    return process.cdist(some, others, scorer=Indel.normalized_similarity, score_cutoff=threshold, workers=-1)


def _as_texts(*groups: Sequence[tuple[str, ...]]) -> Iterator[list[str]]:
    """Each sequence as a text with one character a part, the same for equal parts: what rapidfuzz compares fast."""
    letters: dict[str, str] = {}
    for group in groups:
        yield ["".join(letters.setdefault(part, chr(0x100 + len(letters))) for part in parts) for parts in group]


def written(
    student: str, notebook: NotebookNode, exercise: Exercise, released: NotebookNode, given: set[str]
) -> Written:
    """The student's own cells that an exercise needs, as one text and as parts."""
    code = cells.code_cells(notebook)
    own = cells.own_cells(code, released)
    check = f'check("{exercise.name}")'
    end = next((cell.place for cell in code if cell.is_check and check in cell.source), len(notebook.cells))
    mine = [cell.source for cell in cells.needed(code, exercise.asks_for, end) if cell.place in own]
    source = "\n\n".join(mine)
    return Written(student, source, parts_of(source, exercise.asks_for, given))


def _given(exercise: Exercise, released: NotebookNode) -> set[str]:
    """The statements that the lesson gives in its code cells, as syntax trees."""
    found = set()
    for cell in cells.code_cells(released):
        for statement in _statements(cell.source):
            found |= {_tree(one) for one in (statement, *_body_of(statement, exercise.asks_for))}
    return found


def parts_of(source: str, asks_for: Iterable[str], given: Collection[str] = ()) -> tuple[str, ...]:
    """The parts of a source's syntax tree in order, without what `given` holds; empty where it is no Python."""
    kept = []
    for statement in _statements(source):
        if isinstance(statement, (ast.Import, ast.ImportFrom)) or _tree(statement) in given:
            continue
        body = _body_of(statement, asks_for)
        kept += [one for one in body if _tree(one) not in given] if body else [statement]
    own = {name for statement in kept for name in _chosen(statement)} - set(asks_for)
    own |= {name for statement in _statements(source) for name in _parameters(statement)}
    try:
        return tuple(part for statement in kept for part in _walk(statement, own))
    except RecursionError:
        return ()


def _statements(source: str) -> list[ast.stmt]:
    try:
        return ast.parse("\n".join(line for line in source.splitlines() if not line.lstrip().startswith("%"))).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _tree(statement: ast.stmt) -> str:
    try:
        return ast.dump(statement)
    except RecursionError:
        return ""


def _body_of(statement: ast.stmt, asks_for: Iterable[str]) -> list[ast.stmt]:
    """What stands in a function or class that the exercise asks for; empty for other statements."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) and statement.name in set(asks_for):
        return statement.body
    return []


def _chosen(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement gives to something."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).split(".")[0]
    yield from _parameters(statement)


def _parameters(statement: ast.stmt) -> Iterator[str]:
    yield from (node.arg for node in ast.walk(statement) if isinstance(node, ast.arg))


def _walk(node: ast.AST, own: set[str]) -> Iterator[str]:
    """The parts of one node: its kind, and what of it is no choice of words."""
    word = _word(node, own)
    if word is not None:
        yield from word
        return
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        node = ast.Assign(targets=[node.target], value=node.value)
    yield type(node).__name__
    for name, value in ast.iter_fields(node):
        if name in ("attr", "arg") and isinstance(value, str) and not isinstance(node, ast.arg):
            yield f".{value}"
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in ("annotation", "returns"):
                yield from _walk(child, own)


def _word(node: ast.AST, own: set[str]) -> tuple[str, ...] | None:
    """The parts of a node whose inside does not matter; None for others."""
    match node:
        case ast.Expr(value=ast.Constant(value=str())) | ast.Load() | ast.Store():  # a docstring; how a name is used
            return ()
        case ast.Name(id=name):
            return ("name" if name in own else name,)
        case ast.JoinedStr() | ast.Constant(value=str()):
            return ("text",)
        case ast.Constant(value=value):
            return (repr(value),)
    return None


def main(args: argparse.Namespace) -> int:
    """Print the table; with --csv and --page also into files."""
    from autograder.grading.similar_pages import as_csv, as_page, show

    lesson = lesson_named(args.lesson, Path(args.course).resolve() if args.course else ROOT)
    report = similar(lesson, args.threshold, args.only or ())
    show(lesson, report)
    if args.csv:
        Path(args.csv).write_text(as_csv(report), encoding="utf-8", newline="")
    if args.page:
        Path(args.page).write_text(as_page(lesson, report), encoding="utf-8")
    return 0
