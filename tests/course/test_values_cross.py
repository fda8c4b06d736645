"""Each exercise's questions and a right answer's report survive the wire between the grader and the sandbox."""

import copy

import pytest

from autograder.exercise import Answer, Check, Draw
from autograder.exercises import everything
from autograder.judge import namespace_of
from autograder.quiet import quiet
from autograder.wire import decode, encode

IN_THREE_PARTS = {exercise.name: exercise for exercise in everything() if isinstance(exercise.check, Check)}


@pytest.mark.parametrize("name", IN_THREE_PARTS)
def test_asked_and_found_cross_and_the_right_answer_is_still_right(name):
    import torch

    exercise = IN_THREE_PARTS[name]
    with quiet():
        names = namespace_of(exercise.alternatives[0])
        torch.compiler.reset()
        asked = exercise.check.ask(Draw(7))
        arrived = decode(encode(asked, strict=True))
        found = exercise.check.probe(Answer(names), copy.deepcopy(arrived))
        reported = decode(encode(found, strict=True))
        torch.compiler.reset()
        exercise.check.judge(asked, reported)
        torch.compiler.reset()
