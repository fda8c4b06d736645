"""Modes beside each other: the facts, their pictures, and the chooser."""

import re
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest

from compilescope.facts import Run
from compilescope.facts_modes import ModeTable
from compilescope.views import autotuning, cuda_graphs, mode_frontier
from compilescope.views.mode_frontier import frontier
from compilescope.widgets.mode_chooser import Chooser, costs

sys.path.insert(0, str(Path(__file__).parent))
from modes_given import FAILED, MIB, ORIGIN, TABLE, TRIALS, TUNED, run

EAGER, DEFAULT, GRAPHS, TUNING = TRIALS


def test_a_table_comes_back_from_json():
    assert ModeTable.from_json(TABLE.to_json()) == TABLE


def test_no_table_is_one_sentence():
    with pytest.raises(ValueError, match="no table of modes"):
        ModeTable.from_json('{"trials": 3}')


def test_the_start_ends_when_nothing_is_compiled_or_recorded_any_more():
    assert (GRAPHS.start_calls, GRAPHS.start_s) == (2, 8.5)
    assert (DEFAULT.start_calls, DEFAULT.start_s) == (1, 10.0)
    assert (EAGER.start_calls, EAGER.start_s) == (0, 0.01)


def test_a_total_counts_the_first_calls_as_they_were_and_the_others_as_steady():
    assert GRAPHS.total_s(1) == 8.0
    assert GRAPHS.total_s(2) == 8.5
    assert GRAPHS.total_s(1002) == pytest.approx(8.5 + 1000 * 1e-3)
    assert EAGER.total_s(10) == pytest.approx(0.05)
    assert FAILED.total_s(10) == float("inf")


def test_a_trial_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(KeyError, match="decode, counter"):
        TABLE.of("prefill")
    with pytest.raises(KeyError, match="max-autotune"):
        TABLE.trial("decode", "max-autotune")


def test_on_the_frontier_lies_what_no_other_mode_beats_in_both():
    assert [one.mode for one in frontier(TRIALS)] == ["eager", "reduce-overhead"]


@pytest.mark.parametrize("slowest", [115.0, 180.0, 390.0, 1900.0])
def test_the_axis_of_times_has_several_numbers_however_narrow_it_is(slowest):
    times = {"eager": slowest, "default": 98.0}
    trials = tuple(replace(one, steady_us=times[one.mode]) for one in TRIALS if one.mode in times)
    svg = unquote(mode_frontier(replace(TABLE, trials=trials), "decode").html)
    y_axis = svg[svg.index("matplotlib.axis_2") :].partition("a call, ms")[0]
    assert len(re.findall(r">0?\.?\d[\d.]*</text>", y_axis)) >= 2, y_axis


def test_many_numbers_below_a_picture_are_folded():
    assert mode_frontier(TABLE, "decode").html.count("<details>") == 1
    assert "<details>" not in mode_frontier(replace(TABLE, trials=TRIALS[:2]), "decode").html


def test_the_frontier_says_the_fastest_its_costs_and_what_failed():
    view = mode_frontier(TABLE)
    assert view.title == "Fastest in steady state: reduce-overhead"
    assert "reduce-overhead: starts in 8.50 s, 1.0 ms a call" in view.text
    assert "(frontier)" not in next(line for line in view.text.splitlines() if "default" in line)
    assert ORIGIN.sentence() in view.text
    failed = mode_frontier(TABLE, "counter")
    assert failed.title == "No mode reached its steady state"
    assert "out of <memory>" in failed.text
    assert "out of &lt;memory&gt;" in failed.html


def test_what_a_recording_lacks_is_said_where_the_frontier_is_shown():
    once = replace(TRIALS[1], workload="counter", steady_us=None)
    text = mode_frontier(replace(TABLE, trials=(*TRIALS, once)), "counter").text
    assert "default: starts in 10.00 s, no steady state" in text
    assert [line for line in text.splitlines() if "not tried" in line] == [
        f"  {one.mode}: not tried" for one in TRIALS if one.mode != "default"
    ]


def test_of_several_workloads_each_has_its_own_fastest_mode_in_the_title():
    faster = replace(TRIALS[0], workload="counter", steady_us=1.0)
    view = mode_frontier(replace(TABLE, trials=(*TRIALS, faster)), "decode", "counter")
    assert view.title == "Fastest in steady state: reduce-overhead in decode, eager in counter"


def test_the_frontier_needs_no_script_and_no_network():
    html = mode_frontier(TABLE).html
    assert "<script" not in html
    assert 'src="data:image/svg+xml' in html
    assert "http://www.w3.org" in html
    assert "http" not in html.replace("http://www.w3.org", "")
    assert len(html) < 50_000


def test_candidates_are_drawn_with_their_times_and_the_one_that_was_taken():
    view = autotuning(TABLE, "decode", "max-autotune-no-cudagraphs")
    assert view.title == "4 candidates timed, for 1 operation"
    assert "triton_mm_1: 10 µs (taken)" in view.text
    assert "bad: failed" in view.text
    assert view.html.count("✓ taken") == 1
    assert view.html.count("library") >= 1


def test_a_library_call_is_shown_however_slow():
    slow = replace(TUNED, choices=(*(replace(TUNED.choices[0], name=f"triton_mm_{i}") for i in range(30)),
                                   replace(TUNED.choices[1], time_us=99.0)))  # fmt: skip
    text = autotuning(Run(ORIGIN, autotuning=(slow,))).text
    assert "mm: 99 µs" in text
    assert text.count("triton_mm") == 8


def test_without_candidates_it_says_where_there_would_be_some():
    assert "max-autotune" in autotuning(Run(ORIGIN)).text


def test_each_call_says_whether_it_warmed_up_recorded_or_replayed():
    view = cuda_graphs(TABLE, "decode")
    lines = view.text.splitlines()
    assert view.title == "1 graph recorded, 4 replays"
    assert lines[1].startswith("1. compiled, warmed up in 8.00 s, 2 MiB")
    assert lines[2].startswith("2. recorded in 0.50 s, 20 MiB")
    assert "3 to 6" in view.html
    assert "100 MiB more" in view.text


def test_a_skip_names_its_reason_and_its_line():
    view = cuda_graphs(TABLE, "counter")
    assert view.title == "No CUDA graph"
    assert "Skipped: mutated inputs (1 instances) (line 4, x.add_(1))" in view.text
    assert "x.add_(1)" in view.html
    assert "ran without a graph" in view.text


def test_runs_observed_one_after_the_other_are_drawn_too():
    view = cuda_graphs([run("warmed_up"), run("recorded"), run("replayed")])
    assert [line.split(" in ")[0] for line in view.text.splitlines()[1:4]] == [
        "1. warmed up",
        "2. recorded",
        "3. replayed",
    ]
    with pytest.raises(ValueError, match="one for each call"):
        cuda_graphs([])


def test_without_a_gpu_it_says_so():
    assert cuda_graphs([Run(ORIGIN)]).text.splitlines()[1] == "There are no CUDA graphs without a GPU."


def test_a_mode_that_keeps_too_much_or_failed_is_not_allowed():
    by_mode = {one.trial.mode: one for one in costs(TRIALS, 10**6, 50 * MIB)}
    assert not by_mode["reduce-overhead"].allowed
    assert by_mode["max-autotune-no-cudagraphs"].regret == 0
    assert not costs((FAILED,), 10)[0].allowed


def test_the_chooser_takes_another_mode_when_it_is_called_more_often_or_may_keep_less():
    chooser = Chooser(TABLE)
    chooser.calls.value = 1
    assert chooser.costs[0].trial.mode == "eager"
    chooser.calls.value = 100_000
    assert chooser.costs[0].trial.mode == "reduce-overhead"
    chooser.memory.value = 64
    assert chooser.costs[0].trial.mode == "max-autotune-no-cudagraphs"
    assert chooser.text in chooser.picture.value.replace("&#x27;", "'")
    assert "keeps too much" in chooser.picture.value
