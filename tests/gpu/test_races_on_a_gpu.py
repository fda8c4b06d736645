"""The bonus of each exercise that has one, raced on a real GPU: a right answer reaches what is wanted of it."""

import pytest
import torch

from autograder.exercise import Answer, Draw
from autograder.exercises import everything
from autograder.grading.speed import Race
from autograder.judge import namespace_of

pytestmark = pytest.mark.gpu
RACED = [exercise for exercise in everything() if exercise.bonus]


@pytest.mark.parametrize("exercise", RACED, ids=lambda exercise: exercise.name)
def test_a_right_answer_computes_what_is_wanted_and_is_not_too_slow(exercise, gpu, report):
    bonus = exercise.bonus
    asked = bonus.ask(Draw(1))
    torch.compiler.reset()
    mine, its = (
        bonus.prepare(Answer(namespace_of(code, name)), {**asked, "reference": reference})
        for code, name, reference in ((exercise.alternatives[0], "answer", False), (bonus.reference, "other", True))
    )
    race = Race(mine, its, lambda calls, nonce, values: bonus.right(asked, calls, nonce, values))
    pace = race.run(bonus.wanted, seconds=30)
    report.append({"test": "race", "exercise": exercise.name, "sentence": pace.sentence(bonus.wanted, bonus.of)})
    assert pace.verdict != "missed", pace
    torch.compiler.reset()
