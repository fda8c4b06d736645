"""Each exercise's questions and a right answer's report survive the wire between the grader and the sandbox."""

import copy

import nbformat
import pytest

from autograder.build import lesson_named
from autograder.exercise import Answer, Draw
from autograder.exercises import everything
from autograder.judge import namespace_of
from autograder.quiet import quiet
from autograder.sandbox.visible import probe_of, visible_modules
from autograder.wire import decode, encode

EXERCISES = {exercise.name: exercise for exercise in everything()}


@pytest.mark.parametrize("name", EXERCISES)
def test_asked_and_found_cross_and_the_right_answer_is_still_right(name):
    import torch

    exercise = EXERCISES[name]
    with quiet():
        names = namespace_of(exercise.alternatives[0])
        torch.compiler.reset()
        asked = exercise.check.ask(Draw(7))
        arrived = decode(encode(asked, strict=True))
        found = exercise.check.probe(Answer(names), copy.deepcopy(arrived))
        reported = decode(encode(found, strict=True))
        torch.compiler.reset()
        torch.compiler.set_stance("default")  # an answer may leave its own on; the judge is another process when graded
        exercise.check.judge(asked, reported)
        torch.compiler.reset()


@pytest.mark.parametrize("name", EXERCISES)
def test_what_a_sandbox_sees_of_an_exercise_defines_its_probe_and_holds_no_answer(name):
    exercise = EXERCISES[name]
    module, probe = probe_of(exercise)
    texts = visible_modules({module: {probe}})
    assert f"def {probe}(" in texts[module]
    whole = "\n".join(text for module, text in texts.items() if module.startswith("autograder.exercises"))
    assert "KnownMistake" not in whole
    assert "Exercise(" not in whole
    lines = [line.strip() for code in exercise.alternatives for line in code.splitlines()]
    answers = [line for line in lines if len(line) > 40 and not line.startswith(("from ", "import "))]
    given = "\n".join(cell.source for cell in nbformat.read(lesson_named(exercise.lesson).learner, 4).cells)
    assert [line for line in answers if line in whole and line not in given] == []
