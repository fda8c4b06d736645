"""Grade quality: what counts as killed, lucky, equivalent and survivor, and that nothing is measured twice."""

import argparse
import dataclasses
import json

import pytest
import torch

from autograder.exercises import find
from autograder.grading import quality
from autograder.grading.equivalence import DRAWS, OPEN, Open, change_between, differing
from autograder.grading.quality import Measurement, Quality, measure, stamp_of
from autograder.grading.quality_table import table


class Judged(Measurement):
    """Programs are their own verdicts: ``{seed: (passes, facts)}``, with what they say where no seed is named."""

    def __init__(self, programs):
        super().__init__(None, find("basic_3"))
        self.programs, self.asked = programs, []

    def graded(self, code, seed=None, limits=None):
        self.asked.append((code, seed))
        found = self.programs[code]
        passed, facts = found.get(seed, found[None])
        return passed, "late: it took too long" if facts == "late" else "said", facts


RIGHT = {None: (True, {"x": 1, "names": "a"})}


@pytest.mark.parametrize(
    ("mutant", "verdict"),
    [
        ({None: (False, None)}, "killed"),
        ({None: (False, "late")}, "late"),
        ({None: (True, {"x": 1, "names": "a"})}, "equivalent"),
        ({None: (True, {"x": 2, "names": "a"})}, "survivor"),
        ({None: (True, {"x": 1, "names": "a"}), 1003: (False, None)}, "lucky"),
        ({None: (True, {"x": 1, "names": "a"}), 1002: (True, {"x": 1, "names": "b"})}, "survivor"),
    ],
)
def test_a_mutant_is_what_its_draws_say(mutant, verdict):
    judged = Judged({"right": RIGHT, "mutant": mutant})
    assert judged.verdict_on("right", "mutant", 1)[0] == verdict


def test_the_facts_of_a_right_answer_are_taken_once_for_each_draw():
    judged = Judged({"right": RIGHT, "one": RIGHT, "two": RIGHT})
    judged.verdict_on("right", "one", 1)
    judged.verdict_on("right", "two", 1)
    asked = [seed for code, seed in judged.asked if code == "right"]
    assert len(asked) == len(set(asked)) == 1 + DRAWS


def test_what_an_exercise_leaves_open_may_differ_and_nothing_else(monkeypatch):
    monkeypatch.setattr(quality, "OPEN", {"basic_3": (Open(("names",), "names are free"),)})
    judged = Judged({"right": RIGHT, "named": {None: (True, {"x": 1, "names": "b"})}, "off": {None: (True, {"x": 2})}})
    assert judged.verdict_on("right", "named", 1)[0] == "equivalent"
    assert judged.verdict_on("right", "off", 1) == ("survivor", "differs in x")


def test_differences_are_named_and_rounding_is_none():
    one = {"a": [1.0, {"b": torch.ones(2)}], "c": float("nan"), "d": True}
    other = {"a": [1.0 + 1e-9, {"b": torch.ones(2) + 1e-7}], "c": float("nan"), "d": True}
    assert list(differing(one, other)) == []
    other["a"][1]["b"], other["d"] = torch.zeros(2), 1
    assert list(differing(one, other)) == ["a.1.b", "d"]
    assert list(differing({"a": [1]}, {"a": [1, 2], "e": 1})) == ["a (how many)", "e"]
    assert list(differing(torch.ones(2), torch.ones(2, dtype=torch.float64))) == [""]


def test_where_a_share_is_left_open_more_than_that_still_counts():
    some = (Open(("a.*",), "roughly", within=0.1),)
    assert list(differing({"a": [1.0, 2]}, {"a": [1.05, 2.0]}, some)) == []
    assert list(differing({"a": [1.0, 2], "b": 1.0}, {"a": [1.2, "2"], "b": 1.05}, some)) == ["a.0", "a.1", "b"]


def test_a_change_is_named_by_its_lines():
    assert (
        change_between("def f(x):\n    return x + 1", "def f(x):\n    return x - 1")
        == "`return x + 1` -> `return x - 1`"
    )


def test_an_exercise_whose_sources_are_the_same_is_not_measured_again(monkeypatch, tmp_path, capsys):
    measured = []
    exercise = find("timing_2")
    monkeypatch.setattr(quality, "require_sandbox", lambda: None)
    monkeypatch.setattr(quality, "RESULTS", tmp_path / "q.json")
    monkeypatch.setattr(quality, "TABLE", tmp_path / "q.md")
    monkeypatch.setattr(quality, "_first_compile", lambda left: None)
    monkeypatch.setattr(quality, "Bubble", _Nothing)
    monkeypatch.setattr(
        quality, "measure", lambda _, one, __: measured.append(one.name) or Quality(one.name, stamp_of(one))
    )
    args = argparse.Namespace(lesson=None, only=[exercise.name, "timing_3"], again=False)
    assert quality.main(args) == 0
    assert quality.main(args) == 0
    assert sorted(measured) == ["timing_2", "timing_3"]
    stored = json.loads((tmp_path / "q.json").read_text())
    stored["timing_2"]["stamp"] = "of other sources"
    (tmp_path / "q.json").write_text(json.dumps(stored))
    quality.main(args)
    assert sorted(measured) == ["timing_2", "timing_2", "timing_3"]
    assert "1 of 2 exercises are measured already" in capsys.readouterr().out


class _Nothing:
    def __init__(self, *_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def test_right_answers_mistakes_and_mutants_are_all_counted(monkeypatch):
    exercise = find("timing_2")
    wrong = {mistake.code for mistake in exercise.known_mistakes}
    monkeypatch.setattr(
        Measurement, "graded", lambda self, code, seed=None: (code in exercise.alternatives, "no", None)
    )
    found = measure(None, exercise, argparse.Namespace(repeats=2, busy=0, mutants=30))
    assert (found.right, found.refused) == (2 * len(exercise.alternatives), [])
    assert (found.mistakes, found.passing) == (len(wrong), [])
    assert found.mutants == found.killed >= 30


def test_the_page_counts_and_lists():
    one = Quality("a_1", mutants=3, killed=1, survivors=["`x` -> `y`"], lucky=["`p` -> `q`"], mistakes=4, right=6)
    page = table({"a_1": dataclasses.asdict(one)})
    assert "| a_1 | 3 | 1 | 0 | 1 | 1 | 4 of 4 | 6 of 6 | 0.0 |" in page
    assert "## Survivors\n\n- a_1: `x` -> `y`" in page


def test_each_thing_left_open_belongs_to_an_exercise():
    for name in OPEN:
        assert find(name)


def test_an_exercise_is_measured_again_when_what_it_uses_of_the_shared_judging_changes_and_not_otherwise(monkeypatch):
    before, source_of = stamp_of(find("basic_1")), quality.source_of

    def changed(old, new):
        text = source_of("autograder.judging").replace(old, new)
        monkeypatch.setattr(
            quality, "source_of", lambda name: text if name == "autograder.judging" else source_of(name)
        )
        return stamp_of(find("basic_1"))

    assert changed("def same_numbers(", "# a comment\ndef another():\n    return 1\n\n\ndef same_numbers(") == before
    assert changed("def same_numbers(", "def same_numbers(more=1, *, ") != before
