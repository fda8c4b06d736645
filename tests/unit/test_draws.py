"""The sweep of rare draws finds what one draw in a hundred hides."""

import sys
from pathlib import Path

from autograder.exercise import Check, Draw, Exercise, KnownMistake, NotYet

sys.path.insert(0, str(Path(__file__).parents[1]))
import draws


def judge_sum(asked, found):
    if found["got"] != asked["a"] + asked["b"]:
        raise NotYet("plus(a, b)", "gave another number", "the sum is wanted", "Look at both.")


def exercise(ask, says="another number"):
    return Exercise(
        name="toy_1",
        lesson="01_toy",
        points=1,
        asks_for=("plus",),
        check=Check(ask, lambda answer, asked: {"got": answer.plus(asked["a"], asked["b"])}, judge_sum),
        hints=("a", "b", "c"),
        known_mistakes=(KnownMistake("def plus(a, b): return 2 * a", says),),  # right where both are alike
        alternatives=("def plus(a, b): return a + b",),
    )


def drawn_twice(draw):
    return {"a": draw.size(1000, 2000), "b": draw.size(1500, 2500)}


def drawn_apart(draw):
    a = draw.size(1000, 2000)
    while (b := draw.size(1500, 2500)) == a:
        pass
    return {"a": a, "b": b}


def some_random_ones(found):
    return found.randomly == 6


def test_two_sizes_that_are_seldom_alike_are_made_so():
    found = draws.sweep(exercise(drawn_twice), some_random_ones)
    assert found.purposely == found.wanted
    assert found.odd, "one draw in a thousand: chance does not find it, the sweep must"
    assert all("mistake 0" in said for said in found.odd)


def test_sizes_drawn_apart_leave_nothing_to_find():
    found = draws.sweep(exercise(drawn_apart), some_random_ones)
    assert found.purposely == found.wanted
    assert found.odd == []


def test_a_mistake_that_is_told_something_else_is_named_with_its_draw():
    found = draws.sweep(exercise(drawn_apart, says="banana"), some_random_ones)
    assert "toy_1, mistake 0, Forced(" in found.odd[0]


def test_a_forced_size_stays_in_its_span():
    draw = draws.Forced(3, {0: 5, 1: 50})
    assert draw.size(1, 9) == 5
    assert 1 <= draw.size(1, 9) <= 9
    assert draw.spans == [(1, 9), (1, 9)]
    plain, unforced = Draw(7), draws.Forced(7)
    assert [plain.size(1, 9), plain.number(0, 1)] == [unforced.size(1, 9), unforced.number(0, 1)]
