"""Speed on the grader's clock: decided where it can be, undecided where it cannot, and never fooled by the answer."""

import random

import pytest
import torch

from autograder.exercise import Answer, Draw
from autograder.exercises import everything
from autograder.grading.speed import MOST, SHORTEST_LAP, LapFailedError, Race
from autograder.judge import namespace_of

BONUSES = {exercise.name: exercise.bonus for exercise in everything() if exercise.bonus}


class Machine:
    """A clock that only laps move. `noise` is the share of laps that are interrupted, for ten times as long."""

    def __init__(self, seed, noise=0.0, slower_by=0.0):
        self.now, self.laps, self._noise, self._slower_by = 0.0, 0, noise, slower_by
        self._random = random.Random(seed)

    def clock(self):
        return self.now

    def lap(self, seconds_a_call):
        def run(calls, nonce):
            self.laps += 1
            spent = calls * seconds_a_call * self._random.uniform(0.95, 1.1) * (1 + self._slower_by * self.now)
            self.now += spent * (10 if self._random.random() < self._noise else 1) + 1e-4
            return calls + nonce

        return run


def computed(calls, nonce, values):
    return values == calls + nonce


def raced(seed, answer, reference, wanted=1.15, **machine):
    here = Machine(seed, **machine)
    race = Race(here.lap(answer), here.lap(reference), computed, clock=here.clock, seed=seed)
    return race.run(wanted), here


@pytest.mark.parametrize("machine", [{}, {"noise": 0.2}, {"slower_by": 0.05}, {"noise": 0.1, "slower_by": 0.02}])
def test_a_fast_answer_reaches_it_and_a_slow_one_does_not_whatever_else_the_machine_does(machine):
    for seed in range(20):
        assert raced(seed, answer=1e-3, reference=1.4e-3, **machine)[0].verdict == "reached"
        assert raced(seed, answer=1e-3, reference=1.0e-3, **machine)[0].verdict == "missed"


def test_the_ratio_is_the_true_one():
    for seed in range(10):
        pace, _ = raced(seed, answer=1e-3, reference=2e-3)
        assert pace.interval[0] <= pace.times <= pace.interval[1]
        assert pace.times == pytest.approx(2, rel=0.05)


def test_at_the_threshold_it_takes_more_pairs_and_ends_undecided_or_close_to_it():
    pairs = [raced(seed, answer=1e-3, reference=1.15e-3)[0] for seed in range(20)]
    undecided = [one for one in pairs if one.verdict == "undecided"]
    assert len(undecided) > 10
    assert max(one.pairs for one in pairs) == MOST
    assert "too close or too noisy to tell" in undecided[0].sentence(1.15, "ours")


def test_a_clear_case_ends_at_the_first_look():
    assert raced(1, answer=1e-3, reference=5e-3)[0].pairs == 10


def test_a_lap_is_long_beside_the_way_there_and_back():
    pace, _ = raced(1, answer=1e-6, reference=2e-6)
    assert pace.calls * 1e-6 > SHORTEST_LAP / 2
    assert pace.times == pytest.approx(2, rel=0.05)


def test_it_ends_when_its_time_is_over():
    here = Machine(3)
    race = Race(here.lap(0.15), here.lap(0.15), computed, clock=here.clock, seed=3)
    pace = race.run(1.0, seconds=20)
    assert pace.verdict == "undecided"
    assert here.now < 60


def test_a_result_that_was_kept_from_an_earlier_lap_is_none():
    here, kept = Machine(1), []

    def cached(calls, nonce):
        here.now += 1e-6
        kept.append(calls + nonce)
        return kept[0]

    with pytest.raises(LapFailedError):
        Race(cached, here.lap(1e-3), computed, clock=here.clock, seed=1).run(1.15)


def test_the_two_take_turns_in_an_order_that_changes():
    order = []
    here = Machine(1)

    def noted(name, lap):
        return lambda calls, nonce: order.append(name) or lap(calls, nonce)

    Race(noted("a", here.lap(1e-2)), noted("r", here.lap(2e-2)), computed, clock=here.clock, seed=1).run(1.15)
    pairs = {tuple(order[i : i + 2]) for i in range(len(order) % 2, len(order), 2)}
    assert {("a", "r"), ("r", "a")} <= pairs


def test_whatever_the_outcome_the_sentence_calls_it_a_bonus_without_points():
    for answer in (1e-3, 2e-3, 1.0e-3 / 0.7):
        assert raced(2, answer, 1e-3, wanted=0.7)[0].sentence(0.7, "ours").startswith("Bonus without points, ")


@pytest.mark.parametrize("name", ["modes_4", "guards_6"])
def test_the_reference_and_the_right_answers_of_a_bonus_compute_what_is_wanted(name):
    exercise, bonus = next(one for one in everything() if one.name == name), BONUSES[name]
    asked = bonus.ask(Draw(1))
    for code in (bonus.reference, exercise.alternatives[0]):
        values = bonus.prepare(Answer(namespace_of(code, "racer")), {**asked, "reference": False})(1, 5)
        assert bonus.right(asked, 1, 5, values)
        assert not bonus.right(asked, 1, 6, values)
    torch.compiler.reset()


def test_the_kernels_race_wants_its_numbers_and_the_copy_only_copies():
    bonus = BONUSES["basic_5"]
    asked = bonus.ask(Draw(1)) | {"reference": False}

    class Launch:
        """Called as a Triton kernel is."""

        def __getitem__(self, grid):
            def run(x, scale, out, n, width, BLOCK):  # noqa: N803 - as the exercise has it
                out.copy_(((x * x.sigmoid()).view(-1, width) * scale).view(-1))

            return run

    lap = bonus.prepare(Answer({"gate_kernel": Launch()}), asked)
    assert bonus.right(asked, 7, 3, lap(7, 3))
    assert not bonus.right(asked, 7, 503, lap(7, 3))
    copy = bonus.prepare(Answer({}), asked | {"reference": True})
    assert not bonus.right(asked, 7, 3, copy(7, 3))
