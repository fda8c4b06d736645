"""Lesson 6, beyond what holds for every lesson: what its exercises draw."""

import pytest

from autograder.exercise import Draw
from autograder.exercises.distributed import bucket, clip, predicting


@pytest.mark.parametrize("seed", range(20))
def test_no_wrong_rule_about_buckets_is_right_by_chance(seed):
    tasks = bucket.ask(Draw(seed))["tasks"]
    for guess in bucket._GUESSES:
        right = []
        for task in tasks:
            sizes = [bucket.size_of(task["width"])] * task["layers"]
            right.append(bucket.pieces_for(sizes, guess(sizes, task["wanted"])) == task["wanted"])
        assert not all(right)


@pytest.mark.parametrize("seed", range(20))
def test_predictions_of_one_draw_need_the_rule(seed):
    tasks = predicting.ask(Draw(seed))["tasks"]
    cuts = [predicting.graphs_of("DDP inside", task) for task in tasks]
    assert cuts[0] != cuts[1]
    assert [predicting.graphs_of("FSDP2 blocks", task) for task in tasks] == [2, 1]


@pytest.mark.parametrize("seed", range(20))
def test_the_gradients_of_one_draw_lie_on_both_sides_of_the_limit(seed):
    asked = clip.ask(Draw(seed))
    limit, norms = asked["limit"], [[float(one.norm()) for one in case] for case in asked["cases"]]
    assert norms[0][0] < limit < norms[0][1], "alone the ranks would disagree"
    assert min(norms[1]) > limit
    assert sum(norm**2 for norm in norms[2]) < limit**2
