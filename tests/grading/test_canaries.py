"""Canaries: answers of ours beside a submission's. One that comes out wrong by itself accuses nobody."""

import ast

import pytest

from autograder.exercises import everything, find
from autograder.grading import referee
from autograder.sandbox.bubble import Bubble
from autograder.sandbox.limits import Limits

FINE = ""
WRONG = "After the cells of this submission a wrong answer of ours passes"


@pytest.fixture
def suspicion(monkeypatch):
    """``suspicion(of_submission, of_ours)``: what is said where the canaries come out so, try by try."""

    def said(of_submission, of_ours):
        question = referee.Question(find("basic_1"), find("basic_1").check, {}, {})
        ours, first, others = [question.exercise.alternatives[0]], of_submission[0], iter(of_submission[1:])
        controls = iter(of_ours)
        monkeypatch.setattr(referee, "canaries_in", lambda *_: first)
        monkeypatch.setattr(
            referee, "after", lambda _, __, cells, *___: next(controls) if cells == ours else next(others)
        )
        return referee._suspicion(None, None, question, ["their cells"], None)

    return said


def test_a_canary_that_comes_out_wrong_after_their_cells_only_speaks_against_them(suspicion):
    assert suspicion([WRONG], [FINE]) == WRONG


def test_a_canary_that_comes_out_wrong_after_an_answer_of_ours_too_is_no_witness(suspicion):
    assert suspicion([WRONG, FINE], [WRONG]) == ""
    assert suspicion([WRONG, WRONG, FINE], [WRONG, WRONG]) == ""


def test_who_has_no_witness_left_or_a_good_one_against_them_waits_for_a_person(suspicion):
    assert suspicion([WRONG] * referee.TRIES, [WRONG] * referee.TRIES) == WRONG
    assert suspicion([WRONG, WRONG], [WRONG, FINE]) == WRONG


def test_nobody_can_know_which_mistake_will_be_the_canary():
    exercise = find("basic_1")
    first = {referee.wrong_canaries(exercise)[0] for _ in range(400)}
    assert first == {mistake.code for mistake in exercise.known_mistakes}
    assert len(set(referee.wrong_canaries(exercise))) == referee.TRIES


def test_canaries_register_operators_under_names_of_their_own():
    renamed = 0
    for exercise in everything():
        for code in (*exercise.alternatives, *(mistake.code for mistake in exercise.known_mistakes)):
            ours = referee.with_own_operators(code)
            ast.parse(ours)
            spaces = set(referee._NAMESPACE.findall(code))
            renamed += bool(spaces)
            assert spaces.isdisjoint(referee._NAMESPACE.findall(ours))
            assert not [space for space in spaces if f"ops.{space}." in ours or f'Library("{space}"' in ours]
            assert bool(spaces) == (ours != code)
    assert renamed > 10


LIBRARY = """
import bisect, torch
library = torch.library.Library("course", "FRAGMENT")
library.define("bucket(Tensor x, Tensor edges) -> Tensor")
def bucket(x, edges):
    return torch.tensor([bisect.bisect(edges.tolist(), value) for value in x.flatten().tolist()]).view(x.shape)
library.impl("bucket", bucket, "CPU")
torch.library.register_fake("course::bucket", lambda x, edges: x.new_empty(x.shape, dtype=torch.int64))
def make_bucket():
    return torch.ops.course.bucket
"""


def test_a_right_answer_that_took_the_names_of_our_operators_waits_for_nobody(sandbox):
    exercise = find("breaks_5")
    assert any('"course::bucket"' in mistake.code for mistake in exercise.known_mistakes)
    with Bubble([exercise]) as bubble:
        ruling = referee.rule(bubble, referee.Question.of(exercise), [LIBRARY], Limits())
    assert (ruling.points, ruling.suspicion) == (exercise.points, "")
