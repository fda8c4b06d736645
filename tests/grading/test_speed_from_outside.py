"""A race in the sandbox: nothing that a submission does to clocks, or keeps from an earlier lap, makes it faster."""

import dataclasses

import pytest

from autograder.exercises import find
from autograder.grading.speed import bonus_of, raced
from autograder.sandbox.bubble import Bubble
from autograder.sandbox.limits import Limits

BONUS = dataclasses.replace(find("modes_4").bonus, wanted=0.7)
LIMITS = Limits(wall=100, cell=60)
SLOW = """
import time, torch
time.time = time.monotonic = time.perf_counter = time.process_time = lambda: 0.0
torch.cuda.synchronize = lambda *_: None

def averaged(state, x):
    new = torch.lerp(state, x, 0.01)
    for _ in range(60):
        new = new.neg().neg()
    return torch.tanh(x - new), new
"""
KEPT = """
import torch
kept = []

def averaged(state, x):
    if torch.compiler.is_compiling():
        return torch.tanh(x - state), state
    return kept[0]
"""
ENDS = "import os\ndef averaged(state, x):\n    os._exit(0)\n"


@pytest.fixture(scope="module")
def bubbles(sandbox):
    exercise = [find("modes_4")]
    with Bubble(exercise) as theirs, Bubble(exercise) as ours:
        yield theirs, ours


def test_a_slow_answer_with_patched_clocks_is_slow(bubbles):
    pace = raced(bubbles, BONUS, [SLOW], LIMITS)
    assert pace.verdict == "missed"
    assert pace.times < 0.5
    assert "Bonus without points, not reached" in pace.sentence(BONUS.wanted, BONUS.of)


def test_an_honest_answer_is_not_slow(bubbles):
    assert raced(bubbles, dataclasses.replace(BONUS, wanted=0.2), [BONUS.reference], LIMITS).verdict == "reached"


@pytest.mark.parametrize(
    ("code", "says"),
    [(KEPT, "not those of its calls"), (ENDS, "it ended"), ("averaged = 3", "not raced"), ("", "averaged")],
)
def test_what_computes_nothing_or_ends_is_not_raced_and_costs_nothing(bubbles, code, says):
    said = bonus_of(bubbles, BONUS, [code], LIMITS)
    assert said.startswith("Bonus without points, not raced: ")
    assert says in said
