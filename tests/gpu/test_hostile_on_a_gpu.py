"""Hostile submissions that need a GPU: contained, their own verdict, and the GPU is as good as before for the next.

Each file in tests/grading/hostile_gpu is code at the top of an exercise's cell, as in tests/grading/hostile.
"""

import ast
import os
import shutil
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "grading"))

from autograder.grading.examiner import Examiner
from autograder.sandbox.limits import Limits
from classroom import Classroom, cell_of, solve, unsolved
from honest import TWO_EXERCISES

pytestmark = pytest.mark.gpu
GRADING = Path(__file__).parents[1] / "grading"
HOSTILE = sorted((GRADING / "hostile_gpu").glob("*.py"))
LIMITS = Limits(wall=200, cell=100, gpu_memory=4_000_000_000)


@pytest.fixture(scope="module")
def room(tmp_path_factory, request):
    """A classroom and an examiner for all of this file."""
    lacks = "" if torch.cuda.is_available() else "No GPU here"
    lacks = lacks or ("" if shutil.which("bwrap") else "bwrap is not installed")
    if lacks:
        sentence = f"{lacks}: that submissions which attack the GPU are contained was not tested."
        (pytest.fail if request.config.getoption("--require-gpu", default=False) else pytest.skip)(sentence)
    os.environ["COURSE_SECRET"] = "nobody-knows-this"
    room = Classroom(tmp_path_factory.mktemp("hostile"))
    room.teaches(TWO_EXERCISES)
    with Examiner(room.lesson, LIMITS) as examiner:
        room.examiner = examiner
        yield room
    del os.environ["COURSE_SECRET"]


def ruled(room, code="", keeps_the_answer=True):
    notebook = solve(unsolved(room.lesson), room.lesson)
    cell = cell_of(notebook, "basic_1")
    cell.source = f"{code}\n{cell.source if keeps_the_answer else ''}"
    return room.examiner.rule_on("basic_1", notebook)


@pytest.mark.parametrize("path", HOSTILE, ids=lambda path: path.stem)
def test_hostile_code_on_a_gpu_is_contained_and_the_next_answer_is_judged_as_ever(gpu, room, path):
    lines = ast.get_docstring(ast.parse(path.read_text())).splitlines()[2:]
    must = dict(line.split(": ", 1) for line in lines)
    ruling = ruled(room, path.read_text(), must["answer"] == "right")
    assert "gets" not in must or ruling.points == int(must["gets"]), ruling
    assert must.get("says", "") in ruling.sentence
    assert ruled(room).points == 2
    assert torch.ones(4, device="cuda").sum().item() == 4


def test_a_job_that_takes_the_gpus_memory_gives_it_back_when_it_ends(gpu, room):
    before = torch.cuda.mem_get_info()[0]
    ruled(room, (GRADING / "hostile_gpu" / "takes_the_memory.py").read_text())
    assert torch.cuda.mem_get_info()[0] > 0.9 * before
