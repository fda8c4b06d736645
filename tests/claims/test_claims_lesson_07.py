"""Lesson 7: what the running torch, and the recording from an H200, say about each claim of the source texts.

Each test is named after its row of the syllabus, ``test_row_NN_…``. Seconds of large models are asserted of the
recording (`assets/recorded/depth.json`), which names its torch.
"""

import contextlib
import json
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from autograder.exercises.regional.blocks import Attention, Net, captured, nested
from compilescope import Run, observe
from compilescope.recorded import recorded_modes
from compilescope.torch_internals.modes import cold_caches
from first_calls import first_call

DEPTHS = recorded_modes("depth")
VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])


@torch.compiler.nested_compile_region
def region(block, x):
    return block(x)


class Stack(nn.Module):
    def __init__(self, depth, run=lambda block, x: block(x)):
        super().__init__()
        self.blocks, self.run = nn.ModuleList(Attention(8) for _ in range(depth)), run

    def forward(self, x):
        for block in self.blocks:
            x = self.run(block, x)
        return x


class Numbered(Attention):
    layer_idx = 0

    def forward(self, x):
        return super().forward(x) / (self.layer_idx + 1)


X = torch.ones(5, 8)


def block_by_block(blocks, x=X, training=False, cut=lambda x: x):
    torch.compiler.reset()
    for number, block in enumerate(blocks):
        block.layer_idx = number
        block.compile(backend="aot_eager")
    with observe() as run, torch.set_grad_enabled(training):
        for block in blocks:
            x = cut(block(x))
    return run


def bodies(model, x=X, training=False):
    with torch.set_grad_enabled(training):
        (graph,) = first_call(model, x).graphs
    return nested(graph)


def outcomes(run):
    return [call.outcome for call in run.calls]


def first_s(way, depth):
    return DEPTHS.of(f"{way} {depth}")[0].first_s


def test_row_02_a_step_a_module_and_a_submodule_are_places_that_compile():
    model = Stack(2)
    for place in (lambda x: model(x).sum(), model, model.blocks[1]):
        with torch.no_grad():
            assert len(first_call(place, X).graphs) == 1


def test_row_15_the_first_call_of_the_whole_model_grows_with_its_depth():
    assert first_s("whole", 24) > 4 * first_s("whole", 6)
    sizes = []
    for depth in (2, 4):
        with torch.no_grad():
            sizes.append(captured(first_call(Stack(depth), X)))
    assert sizes[1] == 2 * sizes[0]


def test_row_16_blocks_compiled_one_by_one_cost_one_compile_at_any_depth():
    for depth in (2, 6):
        run = block_by_block(Stack(depth).blocks)
        assert outcomes(run) == ["first compile", *["hit"] * (depth - 1)]
    assert first_s("regional", 48) < 1.2 * first_s("regional", 6)


def test_row_16_nothing_is_fused_across_regions():
    for depth in (6, 12, 24):
        whole, regional = (DEPTHS.of(f"{way} {depth}")[0].kernels for way in ("whole", "regional"))
        assert whole < regional
    fast, slow = (DEPTHS.of(f"{way} 24")[0].steady_us for way in ("whole", "regional"))
    assert fast < slow
    assert DEPTHS.of("eager 24")[0].steady_low_us <= slow, "the lesson: no faster than eager"


def test_row_16_an_int_of_its_own_that_a_block_reads_ends_sharing_and_after_eight_the_rest_is_plain():
    assert outcomes(block_by_block([Attention(8) for _ in range(3)]))[1:] == ["hit"] * 2
    found = outcomes(block_by_block([Numbered(8) for _ in range(10)]))
    assert found == ["first compile", *["recompile"] * 7, "gave up", "gave up"]


def test_row_16_in_training_the_first_block_differs_because_its_input_wants_no_gradient():
    blocks = Stack(4).blocks
    assert outcomes(block_by_block(blocks, training=True)) == ["first compile", "recompile", "hit", "hit"]
    wanting = X.clone().requires_grad_()
    assert outcomes(block_by_block(blocks, wanting, training=True)) == ["first compile", *["hit"] * 3]


def test_row_16_a_size_that_changes_is_opened_and_a_width_is_an_entry_each():
    rows = block_by_block(Stack(4).blocks, torch.ones(9, 8), cut=lambda x: x[:-1])
    assert len(rows.compiles) == 2
    widths = [Attention(width) for width in (8, 7, 6, 5)]
    assert len(block_by_block(widths, cut=lambda x: x[:, :-1].contiguous()).compiles) == 4


def test_row_17_one_graph_calls_one_body_for_each_block():
    assert bodies(Stack(4, region)) == ["subgraph_0"] * 4


def test_row_17_outside_a_compile_the_mark_does_nothing():
    with torch.no_grad():
        run = observe(Stack(3, region), X)
    assert run.compiles == ()


def test_row_17_in_training_the_first_block_has_a_body_of_its_own_unless_its_input_wants_a_gradient():
    assert len(set(bodies(Stack(4, region), training=True))) == 2
    assert len(set(bodies(Stack(4, region), X.clone().requires_grad_(), training=True))) == 1


@pytest.mark.parametrize(
    ("other", "wanted"),
    [(X, 1), (X[:3], 2), (X.double(), 2), (X.mT.contiguous().mT, 2), (X.to("meta"), 2)],
    ids=["the same", "rows", "dtype", "strides", "device"],
)
def test_row_17_another_shape_dtype_stride_or_device_is_another_body(other, wanted):
    @torch.compiler.nested_compile_region
    def doubled(x):
        return x * 2

    run = first_call(lambda x, y: (doubled(x), doubled(y)), X, other)
    assert len(run.graphs) == 1
    assert len(run.graphs[0].inner) == wanted


SCALE = 2


@torch.compiler.nested_compile_region
def scaled(x):
    return x * SCALE


@torch.compiler.nested_compile_region
def times(x, number):
    return x * number


def twice(x, number):
    return times(times(x, number), number)


def test_row_17_a_global_that_changes_between_calls_compiles_again(monkeypatch):
    torch.compiler.reset()
    fast = torch.compile(lambda x: scaled(scaled(x)), backend="aot_eager")
    assert torch.equal(fast(X), 4 * X)
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 3)
    run = observe(fast, X)
    assert torch.equal(run.result, 9 * X)
    assert [one.outcome for one in run.calls] == ["recompile"]
    assert "SCALE" in run.calls[0].refusals[0].expression


def test_row_17_only_2_12_and_2_13_miss_a_global_that_changes_between_two_regions_of_one_compile(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 2)  # so that it is put back

    def rescaled(x):
        global SCALE
        first = scaled(x)
        SCALE = 5
        return first, scaled(x)

    first, second = first_call(rescaled, X).result
    assert torch.equal(first, 2 * X)
    assert torch.equal(second, (2 if VERSION in ((2, 12), (2, 13)) else 5) * X)


@pytest.mark.parametrize("kind", [int, torch.tensor])
def test_row_17_an_int_and_a_tensor_that_change_give_the_right_numbers(kind):
    torch.compiler.reset()
    fast = torch.compile(twice, backend="aot_eager")
    assert torch.equal(fast(X, kind(2)), 4 * X)
    assert torch.equal(fast(X, kind(3)), 9 * X)


def test_row_17_a_float_that_changes_raises():
    torch.compiler.reset()
    fast = torch.compile(twice, backend="aot_eager")
    assert torch.equal(fast(X, 2.0), 4 * X)
    if VERSION == (2, 12):  # it breaks the graph there
        assert torch.equal(fast(X, 3.0), 9 * X)
        return
    with pytest.raises(Exception, match=r"item|local_scalar"):
        fast(X, 3.0)
    torch.compiler.reset()
    once = torch.compile(lambda x, number: times(x, number), backend="aot_eager")
    assert torch.equal(once(X, 2.0), 2 * X)
    with pytest.raises(Exception, match="invoke_subgraph") if VERSION == (2, 11) else contextlib.nullcontext():
        assert torch.equal(once(X, 3.0), 3 * X)


def test_row_17_nine_bodies_raise_from_2_12_on():
    stack = Stack(10, region)
    stack.blocks = nn.ModuleList(Numbered(8) for _ in range(10))
    for number, block in enumerate(stack.blocks):
        block.layer_idx = number
    if VERSION >= (2, 12):
        with pytest.raises(Exception, match="8"):
            bodies(stack)
        stack.run = torch.compiler.nested_compile_region(lambda block, x: block(x), max_reuse_entries=10)
        assert len(set(bodies(stack))) == 10
    else:
        assert len(set(bodies(stack))) == 10


def test_row_17_eager_is_cheapest_for_some_thousand_steps_and_regional_never():
    def best(steps):
        ways = "eager", "regional", "nested", "whole"
        return min(ways, key=lambda way: DEPTHS.of(f"{way} 24")[0].total_s(steps))

    found = [best(10**number) for number in range(8)]
    assert found[:4] == ["eager"] * 4
    assert "regional" not in found


def test_row_17_nested_has_the_shortest_step_at_48_blocks():
    steps = {way: DEPTHS.of(f"{way} 48")[0].steady_us for way in ("eager", "regional", "nested", "whole")}
    assert min(steps, key=steps.get) == "nested"


def test_row_17_nested_starts_between_regional_and_whole():
    for depth in (12, 24):
        assert first_s("regional", depth) < first_s("nested", depth) < first_s("whole", depth)


def test_row_19_compile_times_sums_up_phases():
    from torch._dynamo.utils import compile_times

    with torch.no_grad():
        first_call(Stack(1), X)
    phases, spent = compile_times(repr="csv", aggregate=True)
    assert len(phases) == len(spent)
    assert sum(map(float, spent)) > 0


_JOB = """
import json, sys, torch
from compilescope import observe
from autograder.exercises.regional.blocks import Net

load, save = sys.argv[1:]
if load != "-":
    torch.compiler.load_cache_artifacts(open(load, "rb").read())
with torch.no_grad(), observe(caches="use") as run:
    torch.compile(Net(32, ["attention"] * 2))(torch.ones(9, 32))
    torch.compile(lambda x: x.sin() + 1)(torch.ones(9))  # a kernel in C++
open(save, "wb").write(torch.compiler.save_cache_artifacts()[0])
print(json.dumps({"caches": [one.caches for one in run.compiles], "graphs": len(run.graphs)}))
"""


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """A job in a process of its own, then one that loads what the first saved, each with an empty cache folder."""
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "job.py").write_text(_JOB)
    found = {"folder": folder}
    for name, load, save, variables in (
        ("cold", "-", "artifacts", {"TORCH_TRACE": "trace", "TORCH_COMPILE_DEBUG": "1"}),
        ("warm", "artifacts", "again", {"TORCH_COMPILE_DEBUG": "1"}),
    ):
        ended = subprocess.run(
            [sys.executable, "job.py", load, save],
            cwd=folder,
            env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(folder / name), **variables},
            capture_output=True,
            text=True,
            check=True,
        )
        found[name] = json.loads(ended.stdout.splitlines()[-1])
    return found


def test_row_19_torch_trace_holds_what_a_process_compiled(jobs):
    assert len(Run.from_trace(jobs["folder"] / "trace").graphs) == 2


def test_row_19_with_inductor_provenance_a_trace_knows_the_nodes_of_each_kernel(tmp_path):
    program = "import torch; torch.compile(lambda x: (x @ x) @ x.T)(torch.ones(4, 4))"
    nodes = {}
    for known in "0", "1":
        variables = {"TORCH_TRACE": str(tmp_path / known), "INDUCTOR_PROVENANCE": known}
        variables["TORCHINDUCTOR_CACHE_DIR"] = str(tmp_path / f"cache {known}")
        subprocess.run([sys.executable, "-c", program], env=os.environ | variables, check=True)
        nodes[known] = [bool(kernel.nodes) for kernel in Run.from_trace(tmp_path / known).kernels]
    assert nodes == {"0": [False, False], "1": [True, True]}


def test_row_19_torch_compile_debug_writes_graphs_and_code(jobs):
    names = {path.name for path in (jobs["folder"] / "torch_compile_debug").rglob("*.py")}
    assert {"output_code.py", "fx_graph_readable.py"} <= names


def test_row_15_a_second_process_finds_what_the_first_saved_and_traces_again(jobs):
    for job, found in (("cold", "miss"), ("warm", "hit")):
        assert [one["fx_graph"] for one in jobs[job]["caches"]] == [found] * 2
        assert [one["aot_autograd"] for one in jobs[job]["caches"]] == [found] * 2
    assert jobs["warm"]["graphs"] == 2


def test_row_15_compiled_cpp_is_in_no_artifact(jobs):
    assert [one.get("cpp") for one in jobs["cold"]["caches"]] == [None, "miss"]
    assert [one.get("cpp") for one in jobs["warm"]["caches"]] == [None, "miss"]


def test_what_the_recording_of_depths_lacks_is_said_in_its_notes():
    there = {one.workload for one in DEPTHS.trials}
    lacking = [one.name for one in DEPTHS.workloads if one.name not in there]
    assert all(any(name in note for note in DEPTHS.notes) for name in lacking)


def test_row_15_artifacts_that_are_loaded_after_the_first_call_come_too_late():
    net, x = Net(24, ["attention"]), torch.ones(7, 24)
    with torch.no_grad(), cold_caches(), observe(caches="use"):
        torch.compile(net)(x)
        packed = torch.compiler.save_cache_artifacts()[0]
    torch.compiler.reset()
    with torch.no_grad(), cold_caches(), observe(caches="use") as run:
        torch.compile(net)(x)
        torch.compiler.load_cache_artifacts(packed)
    assert [one.caches["fx_graph"] for one in run.compiles] == ["miss"]


def test_row_21_a_larger_region_captures_more_and_enters_compiled_code_once():
    with torch.no_grad():
        whole = first_call(Stack(4), X)
    regional = block_by_block(Stack(4).blocks)
    assert (len(whole.calls), len(regional.calls)) == (1, 4)
    assert captured(whole) == 4 * captured(regional)
