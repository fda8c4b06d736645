"""Facts that a later torch wrote: what fits is shown, and what does not is named."""

import json
import sys
from pathlib import Path

import pytest

from compilescope.explorer import explore
from compilescope.explorer.page import Page, data
from compilescope.explorer.static import still
from compilescope.facts import Run
from compilescope.facts_reading import strange

sys.path.insert(0, str(Path(__file__).parent))
import explorer_runs as runs


def stored(torch="9.9.0+later"):
    """The fused run as JSON, as another torch would have written it."""
    facts = json.loads(runs.both_targets_run().to_json())
    facts["origin"]["torch"] = torch
    return facts


def changed(**values):
    """Facts of torch 9.9 in which each `path__to__it` has another value."""
    facts = stored()
    for path, value in values.items():
        *way, last = (int(step) if step.isdigit() else step for step in path.split("__"))
        holder = facts
        for step in way:
            holder = holder[step]
        holder[last] = value
    return json.dumps(facts)


@pytest.mark.parametrize("torch", ["2.11.0", "2.13.0+cpu", "2.15.1", ""])
def test_a_known_version_needs_no_word(torch):
    assert strange(torch) == ""


@pytest.mark.parametrize("torch", ["9.9.0", "2.16.0a0+git1", "2.10.1", "1.13", "nightly"])
def test_an_unknown_version_is_named_with_those_that_are_known(torch):
    assert f"torch {torch}; compilescope knows 2.11 to 2.15" in strange(torch)


def test_a_run_of_an_unknown_version_is_shown_whole_and_says_so_in_every_form():
    run = Run.from_json(json.dumps(stored()))
    view = explore(run)
    assert "These facts come from torch 9.9.0+later" in view.text
    assert "price: 1 graph, 0 graph breaks, 2 kernels" in view.title
    content = data([Page.of(run)])
    assert content["targets"][0]["notes"][0].startswith("These facts come from torch 9.9.0+later")
    assert "These facts come from torch 9.9.0+later" in still(Page.of(run))


def test_facts_that_a_later_torch_made_up_are_passed_over():
    run = Run.from_json(changed(a_new_fact=[1], compiles__0__new={"x": 1}))
    assert len(run.kernels) == 2
    assert run.notes == ()


def test_an_item_that_does_not_fit_is_left_out_and_the_others_stay():
    run = Run.from_json(changed(compiles__0__code__0__kernels__1__language="helion", calls__0__outcome="warm"))
    assert [kernel.name for kernel in run.kernels] == ["mm"]
    assert run.calls == ()
    assert len(run.graphs[0].nodes) == 7
    (said,) = run.notes
    assert said == (
        "Left out, because they do not fit: calls.0.outcome ('warm'), compiles.0.code.0.kernels.1.language ('helion')."
    )


def test_a_field_that_does_not_fit_falls_back_to_its_default():
    run = Run.from_json(changed(compiles__0__seconds="long", compiles__0__graphs__0__nodes__2__shape=5))
    assert run.compiles[0].seconds is None
    assert run.graphs[0].nodes[2].shape is None
    assert "compiles.0.seconds ('long')" in run.notes[0]


def test_an_unknown_node_leaves_the_rest_of_its_graph():
    run = Run.from_json(changed(compiles__0__graphs__0__nodes__2__op="call_stream"))
    assert [node.name for node in run.graphs[0].nodes] == ["l_x_", "l_w_", "y", "mul", "add", "output"]
    assert explore(run).html


def test_a_stage_without_a_name_of_ours_has_a_tab_under_its_own():
    run = Run.from_json(changed(compiles__0__graphs__1__stage="post_fusion"))
    content = data([Page.of(run)])
    assert content["stages"]["post_fusion"] == "post_fusion"
    only = Run.from_json(changed(compiles__0__graphs=[stored()["compiles"][0]["graphs"][1] | {"stage": "post_fusion"}]))
    assert Page.of(only).first_stage() == "post_fusion"
    assert "post_fusion" in still(Page.of(only))


@pytest.mark.parametrize("text", ["[]", "3", '{"origin": {"torch": "9.9"}}', '{"origin": 3}', "{", '{"compiles": []}'])
def test_what_is_no_run_at_all_is_still_refused_in_one_sentence(text):
    with pytest.raises(ValueError, match="This is no recorded run"):
        Run.from_json(text)


def test_a_broken_file_of_a_known_version_is_refused_not_mended():
    facts = stored("2.13.0")
    facts["calls"][0]["outcome"] = "warm"
    with pytest.raises(ValueError, match="This is no recorded run"):
        Run.from_json(json.dumps(facts))
