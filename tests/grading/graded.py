"""A course whose submissions are graded already: the gradebook is written from rulings, nothing is run."""

import json

from nbformat.v4 import new_markdown_cell

from autograder.grading import picture
from autograder.grading.gradebook import Writer
from classroom import LESSON, SMALL_LESSON, cell_of, solve, unsolved
from compilescope.facts import Compile, Graph, Node, Origin, Run

ATTACK = '<script>document.title="owned"</script><img src=x onerror="document.title=1">'
NONE = "def compile_report(metrics):\n    return None"


def small_run(name="relu", graphs=1):
    """A Run of `graphs` graphs with one operation called `name` each."""
    node = Node("one", "call", name, (), "float32", (2,))
    compiles = [Compile(f"{i}/0", "report", graphs=(Graph("dynamo", f"{i}/0", (node,)),)) for i in range(graphs)]
    return Run(Origin("live", "CPU", "2.13.0"), compiles=tuple(compiles))


def ruling(exercise, passed, suspicion=""):
    """What a referee says of one exercise of `SMALL_LESSON`."""
    wrong = f"{exercise} made 2 graphs; 1 is wanted. Look at line 2."
    facts = {"run": picture.facts_of(small_run())}
    drawn = exercise == "basic_1" and not passed
    return {
        "exercise": exercise,
        "points": 2 * passed,
        "out_of": 2,
        "passed": passed,
        "suspicion": suspicion,
        "output": "",
        "sentence": "" if passed else wrong,
        "picture": picture.picture_of({"run": small_run("mul<script>", 2)}, facts) if drawn else "",
    }


def grade(classroom, students):
    """Hand in and grade: `students` maps a name to the exercises that are right. Each notebook attacks its reader."""
    if not classroom.lesson.source.exists():
        classroom.teaches(SMALL_LESSON)
        classroom.nbgrader("generate_assignment", "--force", LESSON)
    results = classroom.root / "work" / "grading" / LESSON / "results"
    results.mkdir(parents=True, exist_ok=True)
    for student, right in students.items():
        notebook = solve(unsolved(classroom.lesson), classroom.lesson, "basic_3")
        notebook.cells.insert(1, new_markdown_cell(f"# Mine {ATTACK}"))
        cell_of(notebook, "basic_1").source = NONE
        classroom.hands_in(student, notebook)
        rulings = [ruling(name, name in right) for name in ("basic_1", "basic_2", "basic_3")]
        result = {"student": student, "key": "", "rulings": rulings, "problem": "", "seconds": 1.0}
        (results / f"{student}.json").write_text(json.dumps(result))
        Writer(classroom.lesson, results).write(student)
