"""Symptoms 43a to 43d: two processes on gloo."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed

from compilescope import Run
from rows import row

PROGRAM = Path(__file__).with_name("two_ranks.py")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("This torch has no gloo: DDP and FSDP in two processes were not tested.")
    folder = tmp_path_factory.mktemp("ranks")
    settings = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, PROGRAM, folder], env=os.environ | settings, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-3000:]

    def of(scenario):
        assert (folder / f"{scenario}.0.error").read_text() == ""
        return [Run.from_json((folder / f"{scenario}.{rank}.json").read_text()) for rank in range(2)]

    return of


def parts(run):
    return sum(compiled.parts for compiled in run.compiles)


@row("43b")
def test_ddp_cuts_the_graph_at_its_buckets_wherever_compile_stands(runs):
    for run in (*runs("compiled_inside"), *runs("compiled_outside")):
        assert len(run.graphs) == 1
        assert parts(run) == 3
        (compiled,) = (one for one in run.compiles if one.parts == 3)
        linears = [node.name for node in compiled.graph("dynamo").calls() if node.target.endswith("linear")]
        assert len(linears) == 3
        for part, linear in enumerate(linears):
            multiplied = [n for n in compiled.graph("forward", part).calls() if n.target.startswith("aten.addmm")]
            assert [node.origins for node in multiplied] == [(linear,)]
            assert {one.part for one in compiled.of_part(part).saved} == {part}


@row("43b")
def test_compiling_inside_ddp_has_no_graph_break_and_outside_has_those_of_the_wrapper(runs):
    assert all(not run.breaks for run in runs("compiled_inside"))
    for run in runs("compiled_outside"):
        assert len(run.breaks) == 3
        assert all(found.gb for found in run.breaks)


@row("43b")
def test_without_optimize_ddp_it_is_one_graph(runs):
    assert all(parts(run) == 1 for run in runs("without_splitting"))


@row("43a")
def test_activation_checkpointing_under_ddp_stays_one_operator(runs):
    for scenario in ("checkpointed", "checkpointed_without_splitting"):
        for run in runs(scenario):
            assert any("checkpoint" in node.target for _, node in run.walk_nodes("dynamo"))


@row("43c")
def test_fsdp2_blocks_compile_one_by_one_without_a_break(runs):
    for run in runs("sharded_blocks"):
        assert not run.breaks
        assert len(run.graphs) == 2, "the first block's input needs no gradient"
        assert [call.outcome for call in run.calls] == ["first compile", "recompile", "hit"]
        assert "requires_grad" in run.compiles[1].refusals[0].expression


@row("43d")
def test_ranks_that_compile_different_things_are_told_apart_by_their_runs(runs):
    first, second = runs("different_sizes")
    assert [call.outcome for call in first.calls] == ["first compile", "hit"]
    assert [call.outcome for call in second.calls] == ["first compile", "recompile"]
