"""One explorer for the same code on several targets: this machine, a pretended GPU, a recorded one."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from compilescope.explorer import explore
from compilescope.explorer.page import Page, data
from compilescope.explorer.targets import targets
from compilescope.facts import Origin, Source

sys.path.insert(0, str(Path(__file__).parent))
import explorer_runs as runs

RECORDED = Origin("recorded", "NVIDIA H200", "2.11.0", date="2026-11-29")


def elsewhere(text=None):
    """The same code as its recipe: another file, three lines further down, and a kernel that was timed."""
    run = runs.fused_run()

    def moved(node):
        if node.source is None:
            return node
        source = Source("recipe.py", node.source.line + 3, "price", node.source.code.strip())
        return replace(node, source=source)

    compiled = run.compiles[0]
    graph = replace(compiled.graphs[0], nodes=tuple(moved(node) for node in compiled.graphs[0].nodes))
    kernels = tuple(replace(kernel, time_us=44.7) for kernel in compiled.code[0].kernels)
    code = (replace(compiled.code[0], kernels=kernels),)
    compiled = replace(compiled, graphs=(graph,), code=code, file="recipe.py", line=4)
    sources = {"recipe.py": "\n\n\n" + (text or runs.TEXT)}
    return replace(run, origin=RECORDED, compiles=(compiled,), sources=sources)


def test_a_run_its_pretended_gpu_and_a_recording_are_three_tabs_in_this_order():
    found = targets(runs.both_targets_run(), [elsewhere()])
    assert list(found) == ["this CPU", "NVIDIA H100 (pretended)", "NVIDIA H200, recorded"]


def test_a_mapping_names_its_targets_and_two_of_one_name_are_told_apart():
    assert list(targets(runs.fused_run(), {"the recipe": elsewhere()})) == ["this CPU", "the recipe"]
    assert list(targets(runs.fused_run(), [runs.broken_run(), runs.trained_run()])) == [
        "this CPU",
        "this CPU (2)",
        "this CPU (3)",
    ]
    assert list(targets(runs.fused_run(), elsewhere())) == ["this CPU", "NVIDIA H200, recorded"]


def test_the_text_twin_lists_the_targets_and_says_where_each_is_from():
    text = explore(runs.both_targets_run(), others=[elsewhere()]).text
    assert "Targets: this CPU · NVIDIA H100 (pretended) · NVIDIA H200, recorded." in text
    for said in ("live on this CPU", "pretended NVIDIA H100 (compiled here, not timed)", "recorded on NVIDIA H200"):
        assert text.count(said) == 1


def test_a_note_that_the_run_already_says_is_not_said_again_for_its_pretended_gpu():
    run = replace(runs.both_targets_run(), notes=("No Triton here.",))
    run = replace(run, pretended=(replace(run.pretended[0], notes=("No Triton here.",)),))
    assert explore(run).text.count("No Triton here.") == 1


def test_the_still_picture_names_the_targets_that_it_does_not_draw():
    html = explore(runs.fused_run(), others=[elsewhere()]).html
    assert "NVIDIA H200, recorded: 1 graph, 0 graph breaks, 2 kernels: mm, cpp_fused_add_mul_relu_0" in html


def test_a_recording_of_the_same_lines_is_linked_to_the_learners_own():
    content = data([Page.of(run) for run in targets(runs.fused_run(), [elsewhere()]).values()])
    assert [text["t"] for text in content["src"]] == ["lesson.py"]
    assert (
        _lines_of(content, 1) == _lines_of(content, 0) == {"mm": [0, 2], "relu": [0, 2], "mul": [0, 4], "add": [0, 4]}
    )


def test_a_recording_of_other_lines_brings_its_own_file():
    other = elsewhere(runs.TEXT.replace("return y * 2 + 1", "return y * 2 + 1  # there"))
    nodes = other.compiles[0].graphs[0].nodes
    nodes = tuple(
        replace(n, source=replace(n.source, code=n.source.code + "  # there")) if n.source else n for n in nodes
    )
    graph = replace(other.compiles[0].graphs[0], nodes=nodes)
    other = replace(other, compiles=(replace(other.compiles[0], graphs=(graph,)),))
    content = data([Page.of(runs.fused_run()), Page.of(other)])
    assert [text["t"] for text in content["src"]] == ["lesson.py", "recipe.py"]
    assert _lines_of(content, 1)["add"] == [1, 7]


def test_a_line_that_stands_twice_is_not_guessed():
    run = replace(runs.fused_run(), sources={runs.CELL: runs.TEXT + runs.TEXT})
    content = data([Page.of(run), Page.of(elsewhere())])
    assert _lines_of(content, 1)["add"] == [1, 7]


def test_each_target_has_its_own_headline_notes_and_measured_times():
    other = replace(elsewhere(), notes=("Peak memory of a call: 192 MiB.",))
    here, there = data([Page.of(runs.broken_run()), Page.of(other)])["targets"]
    assert (here["head"], there["head"]) == (
        "price: 2 graphs, 1 graph break",
        "price: 1 graph, 0 graph breaks, 2 kernels",
    )
    assert (here["notes"], there["notes"]) == ([], ["Peak memory of a call: 192 MiB."])
    assert [kernel[2] for kernel in there["parts"][0]["k"]] == ["44.7 µs", "44.7 µs"]


@pytest.mark.parametrize("wrong", ["relu_chain", 3, [3], {"a": "relu_chain"}])
def test_what_is_no_run_is_refused_with_the_remedy(wrong):
    with pytest.raises(TypeError, match=r"others=\[recorded\(name\)\]"):
        explore(runs.fused_run(), others=wrong)


def _lines_of(content, target):
    number = content["targets"][target]["parts"][0]["pics"]["post_grad"]
    nodes = content["pics"][content["at"][number]]["n"]
    return {label: at for _, label, _, _, _, _, _, _, at, _ in nodes if at}
