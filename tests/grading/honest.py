"""Thirty-six submissions as honest learners make them, right, wrong, and untidy, for one small lesson.

`HONEST` maps a student's name to the points that the work is worth (of 4) and to a function that makes it of the
learner's notebook with both answers in it; `TWO_EXERCISES` is the lesson.
"""

import copy
import json
from collections.abc import Callable

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from autograder.exercises import find
from classroom import SMALL_LESSON, Classroom, cell_of, marks_of, solve, unsolved

_FIRST, _, _REST = SMALL_LESSON.partition('# %% exercise="basic_2"')
TWO_EXERCISES = _FIRST + "# %% exercise=" + _REST.rpartition("# %% exercise=")[2]
Change = Callable[[NotebookNode], NotebookNode | bytes | None]

NOISE = '\nimport sys, warnings\nprint("printed by the answer")\nwarnings.warn("a warning", stacklevel=1)\n'
STUB = 'raise NotImplementedError("your code here")'
WRONG_3 = "def load_checkpoint(model, state):\n    model.load_state_dict(state)"
WRONG_1 = "def compile_report(metrics):\n    return lambda prices: torch.stack([metric(prices) for metric in metrics])"
ONE_LINE = """compile_report = lambda metrics: torch.compile(
    lambda prices: torch.stack([metric(prices) for metric in metrics]), backend="aot_eager")"""
WRAPPED = """@functools.wraps(plain)
def load_checkpoint(model, state):
    return plain(model, dict(state))"""
CLASS = """class Report:
    def __init__(self, metrics):
        self.metrics = metrics

    def __call__(self, prices):
        return torch.stack([metric(prices) for metric in self.metrics])

def compile_report(metrics):
    return torch.compile(Report(metrics), backend="aot_eager", fullgraph=True)"""
SHOWS = "from IPython.display import HTML, display\ndisplay(HTML('<b>bold</b>'))\ntorch.ones(2)"
SETTINGS = "torch.manual_seed(0)\ntorch.set_printoptions(precision=2)\nimport random; random.seed(1)"


def answer(notebook, name, source):
    cell_of(notebook, name).source = source


def before(notebook, name, *sources):
    """Cells of the learner's own above an exercise."""
    at = notebook.cells.index(cell_of(notebook, name))
    notebook.cells[at:at] = [new_code_cell(source) for source in sources]


def after(notebook, name, *sources):
    at = notebook.cells.index(cell_of(notebook, name)) + 1
    notebook.cells[at:at] = [new_code_cell(source) for source in sources]


def other_answers(number):
    def change(notebook):
        for name in ("basic_1", "basic_3"):
            answer(notebook, name, find(name).alternatives[number % len(find(name).alternatives)].strip())

    return change


def mistaken(name, number):
    return lambda notebook: answer(notebook, name, find(name).known_mistakes[number].code.strip())


def untouched_exercises(*names):
    """As released: no answer at all."""

    def change(notebook):
        functions = {"basic_1": "compile_report(metrics)", "basic_3": "load_checkpoint(model, state)"}
        for name in names:
            answer(notebook, name, f"def {functions[name]}:\n    {STUB}")

    return change


def noisy(notebook):
    cell_of(notebook, "basic_3").source += NOISE


def helpers_above(notebook):
    """Helpers, an import and a constant in cells of their own, and a setting that defines no name."""
    cell = cell_of(notebook, "basic_3")
    cell.source = cell.source.replace('"_orig_mod."', "settings['mark']")
    before(notebook, "basic_3", "MARK = '_orig_mod.'", "settings = {}", "settings['mark'] = MARK")


def wrapped_below(notebook):
    after(notebook, "basic_3", "import functools\nplain = load_checkpoint", WRAPPED)


def answered_below_its_check(notebook):
    right = cell_of(notebook, "basic_3").source
    answer(notebook, "basic_3", WRONG_3)
    after(notebook, "basic_3_check", right)


def scratch_that_fails(notebook):
    before(notebook, "basic_1", "1 / 0", "def (", "undefined_name", "raise ValueError('tried something')")


def magics(notebook):
    before(notebook, "basic_1", "%%capture\nprint('hidden')", "%time sum(range(10))", "!echo from a shell", "%config")


def swapped(notebook):
    three = [cell_of(notebook, name) for name in ("basic_3", "basic_3_check")]
    rest = [cell for cell in notebook.cells if cell not in three]
    notebook.cells = rest[:2] + three + rest[2:]


def talkative(notebook):
    cell_of(notebook, "basic_3").source += "\nfor line in range(3000):\n    print('line', line)\n"


def pictures(notebook):
    before(notebook, "basic_1", SHOWS)


def copied_cells(notebook):
    for name in ("basic_1_check", "basic_3"):
        twin = copy.deepcopy(cell_of(notebook, name))
        twin.id = f"{name}-copy"
        notebook.cells.insert(notebook.cells.index(cell_of(notebook, name)), twin)


def without_a_check(notebook):
    notebook.cells.remove(cell_of(notebook, "basic_1_check"))


def foreign_check(notebook):
    cell = copy.deepcopy(cell_of(notebook, "basic_1_check"))
    cell.id, cell.metadata.nbgrader.grade_id, cell.source = "modes_1_check", "modes_1_check", "1 + 1"
    notebook.cells.append(cell)


def own_checks(notebook):
    after(notebook, "basic_1", "check('basic_1')")
    after(notebook, "basic_3", "try:\n    check('basic_3')\nexcept Exception as error:\n    print(error)")


def notes(notebook):
    notebook.cells.insert(1, new_markdown_cell("My notes: <b>bold</b>, $x^2$, `code`, Grüße ✓"))
    cell_of(notebook, "basic_1").source += "\n# why: the outermost function takes the others into its graph"


def settings(notebook):
    before(notebook, "basic_1", SETTINGS)


def asks_for_input(notebook):
    before(notebook, "basic_1", "name = input('your name? ')")


def awaits(notebook):
    before(notebook, "basic_1", "import asyncio\nawait asyncio.sleep(0)\nready: bool = True")


def emptied(notebook):
    answer(notebook, "basic_1", "")


def misspelled(notebook):
    answer(notebook, "basic_3", "def load_checkpoint(model, state)\n    model.load_state_dict(state)")


def renamed_function(notebook):
    cell = cell_of(notebook, "basic_3")
    cell.source = cell.source.replace("load_checkpoint", "load_my_checkpoint")


def raises_in_the_answer(notebook):
    answer(notebook, "basic_1", "def compile_report(metrics):\n    return metrics[0].compile()")


def in_format_3(notebook):
    cells = [
        {"cell_type": "code", "input": c.source, "metadata": c.metadata, "outputs": [], "language": "python"}
        for c in notebook.cells
        if c.cell_type == "code"
    ]
    sheet = {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": cells}]}
    return json.dumps(sheet).encode()


def not_utf8(notebook):
    notebook.cells.append(new_markdown_cell("Grüße"))
    return nbformat.writes(notebook).encode("cp1252")


def cut_off(notebook):
    return nbformat.writes(notebook).encode()[:900]


HONEST: dict[str, tuple[int, Change]] = {
    "all_right": (4, lambda notebook: None),
    "untouched": (0, untouched_exercises("basic_1", "basic_3")),
    "first_only": (2, untouched_exercises("basic_3")),
    "second_only": (2, untouched_exercises("basic_1")),
    "wrong_and_right": (2, lambda notebook: answer(notebook, "basic_3", WRONG_3)),
    "nothing_compiled": (2, lambda notebook: answer(notebook, "basic_1", WRONG_1)),
    "a_graph_each": (2, mistaken("basic_1", 0)),
    "wrong_names": (2, mistaken("basic_3", 3)),
    "another_way": (4, other_answers(1)),
    "a_third_way": (4, other_answers(2)),
    "one_line": (4, lambda notebook: answer(notebook, "basic_1", ONE_LINE)),
    "by_a_class": (4, lambda notebook: answer(notebook, "basic_1", CLASS)),
    "noisy": (4, noisy),
    "talkative": (4, talkative),
    "helpers_above": (4, helpers_above),
    "wrapped_below": (4, wrapped_below),
    "answered_below_its_check": (2, answered_below_its_check),
    "scratch_that_fails": (4, scratch_that_fails),
    "magics": (4, magics),
    "pictures": (4, pictures),
    "awaits": (4, awaits),
    "settings": (4, settings),
    "asks_for_input": (4, asks_for_input),
    "own_checks": (4, own_checks),
    "notes": (4, notes),
    "swapped": (4, swapped),
    "emptied": (2, emptied),
    "misspelled": (2, misspelled),
    "renamed_function": (2, renamed_function),
    "raises_in_the_answer": (2, raises_in_the_answer),
    "copied_cells": (4, copied_cells),
    "without_a_check": (4, without_a_check),
    "foreign_check": (4, foreign_check),
    "in_format_3": (4, in_format_3),
    "not_utf8": (4, not_utf8),
    "cut_off": (0, cut_off),
}
LATE, RENAMED, WITH_FILES = "another_way", "pictures", "notes"
"""Who hands in after the due date, under another file's name, and with files and folders beside the notebook."""


def hand_in(classroom: Classroom, student: str) -> None:
    """Put the student's submission where `nbgrader collect` would."""
    notebook = solve(unsolved(classroom.lesson), classroom.lesson)
    made = HONEST[student][1](notebook)
    name = "basic_compile (1).ipynb" if student == RENAMED else None
    folder = classroom.hands_in(student, notebook if made is None else made, name).parent
    if student == LATE:
        (folder / "timestamp.txt").write_text("2026-11-03 10:00:00 UTC")
    if student == WITH_FILES:
        (folder / "data").mkdir()
        for file in ("notes.txt", "data/numbers.csv", "mine.ipynb"):
            (folder / file).write_text("1,2\n")
    assert not any(marks_of(cell).get("points", 2) != 2 for cell in notebook.cells)
