"""The first call against depth: from the recording, from numbers, and from runs."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from compilescope.facts import Call, Origin, Run
from compilescope.facts_modes import ModeTable, TimedCall, Trial, Workload
from compilescope.recorded import recorded_modes
from compilescope.views import depth_cost
from compilescope.views.depth_cost import seconds_a_block

sys.path.insert(0, str(Path(__file__).parent))
from modes_given import ORIGIN

MINE = {"whole": {2: 2.0, 4: 4.0, 8: 8.0}, "regional": {2: 1.0, 4: 1.0, 8: 1.0}}


def test_the_text_says_what_each_further_block_costs():
    view = depth_cost(MINE, "this laptop")
    assert view.text.splitlines() == [
        "Each further block: 1.00 s whole, nothing regional",
        "whole: 2.00 s at 2, 4.00 s at 4, 8.00 s at 8 blocks; about 1.00 s for each further block.",
        "regional: 1.00 s at 2, 1.00 s at 4, 1.00 s at 8 blocks; nothing more for a further block.",
        "(this laptop)",
    ]


def test_the_slope_is_that_of_the_least_squares_line():
    assert seconds_a_block({1: 1.0, 2: 3.0, 3: 4.0}) == pytest.approx(1.5)
    assert seconds_a_block({1: 1.0}) is None


def test_a_run_costs_the_seconds_of_its_calls_and_says_where_it_is_from():
    run = Run(Origin("live", "CPU", "2.13.0"), (Call("stack", "first compile", 1.5, ("0/0",)),))
    view = depth_cost({"whole": {2: run, 4: replace(run, calls=(replace(run.calls[0], seconds=2.5),))}})
    assert "whole: 1.50 s at 2, 2.50 s at 4 blocks; about 0.50 s for each further block." in view.text
    assert view.text.endswith("(live on this CPU, torch 2.13.0)")


def test_a_table_gives_one_line_a_group_and_names_what_was_not_measured():
    table = ModeTable(
        ORIGIN,
        tuple(Workload(f"whole {depth}", f"{depth} blocks", "whole") for depth in (6, 12)),
        (Trial("whole 6", "default", (TimedCall(3.0, compiles=1),)),),
    )
    view = depth_cost(table)
    assert "whole: 3.00 s at 6 blocks." in view.text
    assert "Not measured: whole 12." in view.text
    assert view.text.endswith(f"({ORIGIN.sentence()})")


def test_in_the_recording_the_whole_model_grows_with_its_depth_and_regional_does_not():
    view = depth_cost(recorded_modes("depth"))
    assert [said.split()[-1] for said in view.title.split(", ")] == ["whole", "nested", "regional"]
    assert [line.partition(":")[0] for line in view.text.splitlines()[1:5]] == ["eager", "regional", "nested", "whole"]
    assert "recorded on NVIDIA H200" in view.text


def test_the_picture_needs_nothing_and_stays_small():
    view = depth_cost(recorded_modes("depth"))
    assert len(view.html) < 50_000
    assert "<script" not in view.html
    assert view.html == depth_cost(recorded_modes("depth")).html


def test_a_single_depth_is_drawn_without_a_slope():
    assert depth_cost({"whole": {2: 2.0}}).text.splitlines()[:2] == [
        "Seconds of the first call",
        "whole: 2.00 s at 2 blocks.",
    ]


def test_nothing_to_draw_and_wrong_costs_get_a_sentence():
    for nothing in ({}, {"whole": {}}):
        with pytest.raises(ValueError, match="no first call to draw"):
            depth_cost(nothing)
    for wrong in ("depth", {"whole": 3.0}, {"whole": {2: "fast"}}, {"whole": {"two": 3.0}}, {"whole": {2: True}}):
        with pytest.raises(TypeError, match="depth"):
            depth_cost(wrong)
