"""Two recordings of one recipe: times may differ, each other difference is named."""

from __future__ import annotations

import copy
import json
import re

import pytest

from compilescope.recorded import FOLDER
from compilescope.recorded_moved import is_time, main, moved

RECORDINGS = sorted(FOLDER.glob("*.json"))


def leaves(value, path=()):
    """Path and holder of each number or text."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        if isinstance(one, (dict, list)):
            yield from leaves(one, (*path, str(key)))
        else:
            yield (*path, str(key)), value, key


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_recording_whose_times_all_moved_has_moved_no_fact(path):
    old = json.loads(path.read_text())
    new = copy.deepcopy(old)
    touched = 0
    for where, holder, key in leaves(new):
        if isinstance(holder[key], float) and re.search(r"seconds|_us$|_ms$|_s$", where[-1]):
            holder[key] *= 1.5
            touched += 1
    assert touched
    assert list(moved(old, new)) == []


def test_who_wins_autotuning_is_a_matter_of_time_and_who_takes_part_a_fact():
    race = {"autotuning": [{"choices": [{"name": "a", "time_us": 1.0}, {"name": "b", "time_us": 2.0}], "chosen": "a"}]}
    other = copy.deepcopy(race)
    other["autotuning"][0]["chosen"] = "b"
    assert list(moved(race, other)) == []
    other["autotuning"][0]["choices"].pop()
    assert len(list(moved(race, other))) == 1


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_each_fact_that_moves_is_named_and_no_other(path):
    old = json.loads(path.read_text())
    facts = [where for where, holder, key in leaves(old) if type(holder[key]) is int and not is_time(where)]
    assert facts
    for chosen in facts[:: max(1, len(facts) // 10)]:
        new = copy.deepcopy(old)
        holder = next(holder for where, holder, _ in leaves(new) if where == chosen)
        key = int(chosen[-1]) if isinstance(holder, list) else chosen[-1]
        holder[key] += 1
        (said,) = moved(old, new)
        assert said.endswith(f"{old_value(old, chosen)} → {holder[key]}")


def old_value(value, path):
    for part in path:
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def test_a_trial_that_is_gone_is_one_sentence_and_moves_no_other():
    old = json.loads((FOLDER / "modes.json").read_text())
    new = copy.deepcopy(old)
    gone = new["modes"]["trials"].pop(1)
    (said,) = moved(old, new)
    assert f"{gone['workload']} {gone['mode']}" in said
    assert said.endswith("→ nothing")


def test_the_command_says_what_moved_and_that_two_folders_share_nothing(tmp_path, capsys):
    for name in ("old", "new", "empty"):
        (tmp_path / name).mkdir()
    fact = {
        "recipe": "a",
        "modes": {"trials": [{"workload": "decode", "mode": "default", "kernels": 3.0, "steady_us": 9.0}]},
    }
    (tmp_path / "old" / "a.json").write_text(json.dumps(fact))
    fact["modes"]["trials"][0] |= {"kernels": 4.0, "steady_us": 7.0}
    (tmp_path / "new" / "a.json").write_text(json.dumps(fact))
    assert main([str(tmp_path / "old"), str(tmp_path / "new")]) == 1
    assert "decode default · kernels: 3.0 → 4.0" in capsys.readouterr().out
    assert main([str(tmp_path / "old"), str(tmp_path / "old")]) == 0
    assert "only times moved" in capsys.readouterr().out
    assert main([str(tmp_path / "old"), str(tmp_path / "empty")]) == 2
    assert "no recording of the same name" in capsys.readouterr().err
