"""Trials of workloads in modes, on the CPU with small ones: what is written down, and that a failure stays its own."""

import dataclasses
import functools

import pytest
import torch

from compilescope import mode_options, recorded, rounds, trials
from compilescope.facts import Origin
from compilescope.facts_modes import ModeTable, Trial, Workload
from compilescope.torch_internals.modes import option_defaults

RECIPE = """
import torch

def fine(device):
    return {"model": lambda x: x.half() + 1, "calls": [(torch.ones(8, device=device),)]}

def broken(device):
    def model(x):
        raise ValueError("no such thing\\nand more")
    return {"model": model, "calls": [(torch.ones(8),)]}

WORKLOADS = {"fine": {"words": "adds", "make": fine}, "broken": {"words": "raises", "make": broken}}
MODES = ("eager",)
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(trials, "STEADY_SECONDS", 0.01)
    monkeypatch.setattr(trials, "prepare", lambda device: None)
    monkeypatch.setattr(rounds, "prepare", lambda device: None)
    monkeypatch.setattr(rounds, "SECONDS", 0.01)


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "small.py"
    path.write_text(RECIPE)
    return path


def made(recipe):
    import runpy

    return runpy.run_path(str(recipe))


def test_a_table_holds_every_workload_and_one_that_raises_does_not_stop_the_others(recipe):
    *_, table = trials.tables(made(recipe), "cpu", 60)
    fine, broken = table.trials
    assert (fine.workload, fine.mode, fine.error, len(fine.calls)) == ("fine", "eager", "", trials.FIRST_CALLS)
    assert fine.steady_low_us <= fine.steady_us <= fine.steady_high_us
    assert fine.rounding == 0
    assert broken.error == "ValueError: no such thing"
    assert broken.steady_us is None
    assert "def fine" in table.workloads[0].source
    assert ModeTable.from_json(table.to_json()) == table


def test_what_there_was_no_time_for_is_named(recipe):
    *_, table = trials.tables(made(recipe), "cpu", -1)
    assert table.trials == ()
    assert any(note.startswith("fine in mode eager was left out") for note in table.notes)


def test_the_modes_are_those_of_the_running_torch(recipe):
    *_, table = trials.tables({**made(recipe), "MODES": ("eager",)}, "cpu", 60)
    assert table.options == mode_options()
    assert set(table.defaults) == {option for options in table.options.values() for option in options}
    assert option_defaults({"no such option"}) == {}


def test_rounds_measure_all_modes_of_a_workload_anew_and_keep_its_other_facts(recipe):
    known = Trial("fine", "eager", steady_us=1e9, kernels=7.0)
    works = (Workload("fine", "adds"), Workload("broken", "raises"))
    *_, table = rounds.in_rounds(recipe, ModeTable(Origin("live", "CPU", "2"), works, (known,)), "cpu", 60)
    (fine,) = table.of("fine")
    assert fine.steady_us < 1e6
    assert fine.kernels == 7


def test_modes_with_graphs_are_ready_after_all_others_were_measured(recipe, monkeypatch):
    ready = []
    monkeypatch.setattr(rounds, "subject", lambda mode, *_: ready.append(mode) or 1 / 0)
    *_, table = rounds.in_rounds(recipe, ModeTable(Origin("live", "CPU", "2"), (Workload("fine", "adds"),)), "cpu", 600)
    assert set(ready[-2:]) == set(rounds._WITH_GRAPHS)
    assert [trial.mode for trial in table.trials] == ready


def test_rounds_leave_what_they_cannot_reach(recipe):
    known = Trial("fine", "eager", steady_us=5.0)
    table = ModeTable(Origin("live", "CPU", "2"), (Workload("fine", "adds"),), (known,))
    assert list(rounds.in_rounds(recipe, table, "cpu", -1)) == []


WAYS = """
import torch

def way(number):
    return lambda device: {"model": lambda x: x * number + 1, "calls": [(torch.ones(8),)]}

WORKLOADS = {f"{name} {depth}": {"words": f"{depth} blocks", "make": way(depth), "modes": ("eager",)}
             for name in ("whole", "each") for depth in (6, 12)}
"""


@pytest.fixture
def ways(tmp_path):
    path = tmp_path / "ways.py"
    path.write_text(WAYS)
    works = tuple(Workload(name, one["words"]) for name, one in made(path)["WORKLOADS"].items())
    return path, ModeTable(Origin("live", "CPU", "2"), works, (Trial("each 6", "eager", kernels=7.0),))


def test_workloads_of_the_same_words_take_turns(ways, monkeypatch):
    seen = []
    monkeypatch.setattr(rounds, "steady", lambda subjects, *_: seen.append(list(subjects)) or {})
    list(rounds.in_rounds(*ways, "cpu", 600))
    assert seen == [[(f"{name} {depth}", "eager") for name in ("whole", "each")] for depth in (6, 12)]


def test_only_the_named_have_their_turn_beside_those_of_the_same_words(ways):
    *_, table = rounds.in_rounds(*ways, "cpu", 600, only=["whole 6"])
    assert {one.workload for one in table.trials if one.steady_us} == {"whole 6", "each 6"}
    assert "whole 6" in table.notes[-1]
    with pytest.raises(ValueError, match="no workload 'whole 7'"):
        list(rounds.in_rounds(*ways, "cpu", 600, only=["whole 7"]))


def test_anew_takes_all_facts_of_workloads_that_the_table_lacks_and_of_those_it_has(ways):
    first, table = rounds.in_rounds(*ways, "cpu", 600, anew=True)
    assert {one.workload for one in first.trials} == {"whole 6", "each 6"}  # nothing old among the new
    assert len(table.trials) == 4
    assert all(len(one.calls) == trials.FIRST_CALLS and one.steady_us and one.kernels is None for one in table.trials)


def test_what_is_not_reached_anew_keeps_its_facts_and_its_day(ways, monkeypatch):
    path, table = ways
    table = dataclasses.replace(table, notes=("said", f"{rounds._NOTE} All: 2026-01-02."))
    *_, both = rounds.in_rounds(path, table, "cpu", 600, anew=True, only=["whole 6"], longest=7)
    assert {one.workload for one in both.trials if one.steady_us} == {"whole 6", "each 6"}
    assert both.notes[1] == f"{rounds._NOTE} whole 12, each 12: 2026-01-02."
    assert both.notes[2].startswith(f"{rounds._NOTE} whole 6, each 6: ")
    monkeypatch.setattr(rounds, "_in_time", lambda _, key, *__: key[0] == "whole 6")
    *_, one = rounds.in_rounds(path, table, "cpu", 600, anew=True, only=["whole 6"])
    assert [(trial.workload, trial.kernels, trial.steady_us is None) for trial in one.trials] == [
        ("whole 6", None, False),
        ("each 6", 7.0, True),
    ]


SIZES = """
import torch

def sizes(device):
    return {"model": lambda x: x * 2 + 1, "calls": [(torch.ones(n),) for n in (8, 12, 10, 6)]}

WORKLOADS = {"sizes": {"words": "4 sizes", "make": sizes, "modes": ("eager", "default", "reduce-overhead")}}
"""


def test_no_mode_knows_from_another_that_a_size_changes(tmp_path):
    recipe = tmp_path / "sizes.py"
    recipe.write_text(SIZES)
    table = ModeTable(Origin("live", "CPU", "2"), (Workload("sizes", "4 sizes"),))
    *_, table = rounds.in_rounds(recipe, table, "cpu", 600, anew=True)
    compiles = {trial.mode: [call.compiles for call in trial.calls][:3] for trial in table.trials}
    assert compiles == {"eager": [0, 0, 0], "default": [1, 1, 0], "reduce-overhead": [1, 1, 0]}


def test_what_was_said_of_a_workload_is_not_said_of_its_next_recording(ways):
    path, table = ways
    table = dataclasses.replace(table, notes=("said", "whole 6: by hand.", "whole 12: by hand."))
    *_, both = rounds.in_rounds(path, table, "cpu", 600, only=["whole 6"])
    assert both.notes[:2] == ("said", "whole 12: by hand.")
    assert len(both.notes) == 3


def test_rounds_of_a_changed_recipe_are_refused(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    stored = tmp_path / "small.json"
    stored.write_text('{"recipe": "another"}')
    with pytest.raises(ValueError, match="changed after small"):
        recorded.record_rounds(recipe, stored, tmp_path)


def test_each_gets_its_turn_in_every_round():
    order = []

    def note(name, fn, args):
        order.append(name)

    one = trials.Subject(None, None, [()], note, 1, False)
    subjects = {name: dataclasses.replace(one, use=functools.partial(note, name)) for name in "ab"}
    found = trials.steady(subjects, "cpu", 0.0)
    assert found["a"]["timed_calls"] == found["b"]["timed_calls"] == 10
    assert all(set(order[i : i + 2]) == {"a", "b"} for i in range(0, 20, 2))


def test_your_own_function_is_tried_live_in_the_modes_you_name():
    def doubled(x):
        return x * 2

    table = trials.try_modes(doubled, torch.ones(3), modes_wanted=("eager",))
    assert table.origin.kind == "live"
    assert [(one.workload, one.mode, one.error) for one in table.trials] == [("doubled", "eager", "")]
    assert table.trials[0].steady_us > 0
    assert table.group("modes")[0].words == "doubled, live"


def test_a_mode_that_does_not_exist_is_named_with_those_that_do():
    with pytest.raises(ValueError, match="'fastest': choose among eager, default"):
        trials.try_modes(torch.sin, torch.ones(3), modes_wanted=("fastest",))
