"""Lesson 7, beyond what holds for every lesson: what its exercises draw."""

from autograder.exercise import Draw
from autograder.exercises.regional import blocks, decide, envelope, poison

SEEDS = range(40)


def brute(case, most=200_000):
    """Turns found by asking at each step that can be one."""
    steps = sorted({1, *(begins + d for begins, _ in envelope.turns(case) for d in (-1, 0, 1) if begins + d > 0)})
    return {step: min(case, key=lambda name: envelope.total(case[name], step)) for step in steps if step < most}


def at(turns, step):
    return next(name for begins, name in reversed(turns) if begins <= step)


def test_turns_name_the_cheapest_way_on_both_sides_of_each_turn():
    for seed in SEEDS:
        for case in envelope.ask(Draw(seed))["cases"]:
            turns = envelope.turns(case)
            for step, name in brute(case).items():
                mine = at(turns, step)
                assert envelope.total(case[mine], step) == envelope.total(case[name], step)


def test_four_models_have_three_two_one_and_a_late_turn():
    for seed in SEEDS:
        cases = envelope.ask(Draw(seed))["cases"]
        assert [len(envelope.turns(case)) for case in cases] == [3, 2, 1, 2]
        assert envelope.turns(cases[3])[1][0] > 100_000


def test_at_a_tie_the_way_whose_turn_it_is_stays():
    assert envelope.turns({"a": [10, 5], "b": [20, 4]}) == [[1, "a"], [12, "b"]]


def test_what_one_remembers_of_the_names_is_no_answer():
    first = {envelope.turns(envelope.ask(Draw(seed))["cases"][0])[0][1] for seed in SEEDS}
    assert first == set(envelope.NAMES)


def test_a_poison_is_drawn_under_another_name_and_one_model_has_none():
    guilty = [[case["guilty"] for case in poison.ask(Draw(seed))["cases"]] for seed in SEEDS]
    assert all(found.count(None) == 1 for found in guilty)
    assert len({name for found in guilty for name in found}) > 5


def test_each_model_of_the_decision_has_one_place_that_its_budget_allows():
    for seed in SEEDS:
        for case in decide.ask(Draw(seed))["cases"]:
            depth, each = len(case["kinds"]), {"attention": 9, "feed": 4}[case["kinds"][0]]
            whole, nested = each * depth + 2, each + 2 * depth + 2
            fits = [name for name, size in (("whole", whole), ("nested", nested), ("regional", each))
                    if size <= case["most"]]  # fmt: skip
            assert fits[0] == case["best"]


def test_models_mix_two_kinds_of_blocks():
    for seed in SEEDS:
        kinds = blocks.both_kinds(Draw(seed), 10, 14)
        assert set(kinds) == set(blocks.KINDS)
