"""Lesson 5, beyond what holds for every lesson: what its exercises draw."""

import pytest

from autograder.exercise import Draw
from autograder.exercises.modes import choose, fair, memory, skipped, tuning

SEEDS = range(20)


def best_of(case, trials=None):
    allowed = [
        one
        for one in trials or case["trials"]
        if one["steady_us"] is not None and (case["most_bytes"] is None or one["kept_bytes"] <= case["most_bytes"])
    ]
    return min(allowed, key=lambda one: choose._total(one, case["calls"]))["mode"]


def test_of_four_choices_each_has_another_reason_and_no_mode_is_right_for_all():
    for seed in SEEDS:
        once, often, little, failed = choose.ask(Draw(seed))["cases"]
        assert best_of(once) == "eager"
        assert best_of(often) != "eager"
        assert best_of(little) != best_of(little | {"most_bytes": None})
        assert [one for one in failed["trials"] if one["steady_us"] is None]


def test_however_times_are_changed_some_number_of_calls_makes_compiling_pay():
    table = choose.recorded_modes("modes")
    for trials in (table.of(one.name) for one in table.group("modes")):
        if choose._worth_compiling(trials):
            steady = {one.mode: one.steady_us for one in trials if one.steady_us is not None}
            assert min(steady.values()) * 1.1 < choose.CLEARLY * steady["eager"] * 0.9


def test_what_one_remembers_of_the_lesson_is_no_answer():
    often = [choose.ask(Draw(seed))["cases"][1] for seed in SEEDS]
    answers = {}
    for case in often:
        answers.setdefault(case["workload"], set()).add(best_of(case))
    assert max(len(found) for found in answers.values()) > 1


def test_the_machine_of_modes_7_has_the_times_that_are_judged():
    asked = fair.ask(Draw(1)) | {"drift": 0.0}
    machine = fair.Machine(asked)
    for name, true in asked["modes"].items():
        times = []
        for _ in range(60):
            start = machine.clock()
            machine.run(name)
            returned = machine.clock()
            machine.wait()
            times.append((returned - start, machine.clock() - start))
        assert all(soon < 1e-3 for soon, _ in times), "a call returns before its work is done"
        assert times[0][1] == pytest.approx(true["start"][0], rel=1e-3)
        steady = sorted(whole for _, whole in times[len(true["start"]) :])
        assert steady[len(steady) // 2] == pytest.approx(true["steady"], rel=0.02)


def test_whoever_measures_one_mode_after_the_other_meets_the_fastest_on_a_warm_device():
    for seed in SEEDS:
        asked = fair.ask(Draw(seed))
        true = {name: one["steady"] for name, one in asked["modes"].items()}
        names = list(true)
        assert names[-1] == min(true, key=true.get)


def test_the_rule_of_memory_fits_what_was_recorded():
    for case in memory.ask(Draw(3))["cases"]:
        rule = case["base"] + sum(case["sizes"]) + max(case["sizes"])
        assert rule == pytest.approx(case["kept"], rel=memory.WITHIN)


def test_tables_hold_a_failure_one_that_the_library_wins_and_one_that_it_loses():
    for seed in SEEDS:
        tables = tuning.ask(Draw(seed))["tables"]
        saved = [tuning._saved(tuning._table(one)) for one in tables]
        assert 0 in saved
        assert max(saved) > 0
        assert any(choice["time_us"] is None for one in tables for choice in one["choices"])
        assert any(one["choices"] != sorted(one["choices"], key=lambda c: c["time_us"] or 0) for one in tables)


def test_a_blamed_line_is_drawn_anew():
    lines = {told["code"] for seed in SEEDS for told in skipped.ask(Draw(seed))["trials"] if told["code"]}
    assert len(lines) > 2
