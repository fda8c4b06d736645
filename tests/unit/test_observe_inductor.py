"""Kernels, code, training and caches: what Inductor did. Few tests, for each compiles C++."""

import pytest
import torch

from compilescope import Run, observe
from compilescope.explorer import explore
from compilescope.facts import NO_GPU


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(64)
        self.up = torch.nn.Linear(64, 32)

    def forward(self, x):
        hidden = torch.relu(self.up(self.norm(x)))
        return torch.softmax(hidden, dim=-1)


def chain(x):
    y = torch.relu(x + 1)
    return y * 2


@pytest.fixture(scope="module")
def chained():
    torch.compiler.reset()
    with observe() as run:
        torch.compile(chain)(torch.ones(64, 128, requires_grad=True)).sum().backward()
    return run


@pytest.fixture(scope="module")
def modeled():
    torch.compiler.reset()
    with observe() as run:
        torch.compile(Model())(torch.ones(16, 64)).square().mean().backward()
    return run


def test_a_training_step_with_its_code_for_two_targets_is_a_page_of_less_than_50_kb():
    torch.compiler.reset()
    with observe(on="h100") as run:
        torch.compile(Model())(torch.ones(16, 64)).square().mean().backward()
    view = explore(run)
    assert "Targets: this CPU · NVIDIA H100 (pretended)." in view.text
    assert len(view.html.encode()) < 50_000


def test_all_stages_of_a_training_step_are_there(chained):
    stages = [graph.stage for graph in chained.compiles[0].graphs]
    assert stages == ["dynamo", "joint", "forward", "backward", "post_grad", "post_grad_backward"]
    assert [code.which for code in chained.code] == ["forward", "backward"]


def test_the_backward_is_seen_before_backward_is_called():
    torch.compiler.reset()
    run = observe(torch.compile(chain, backend="aot_eager"), torch.ones(4, requires_grad=True))
    assert run.compiles[0].graph("backward") is not None


def test_without_gradients_there_is_an_inference_graph():
    torch.compiler.reset()
    with torch.no_grad():
        run = observe(torch.compile(chain, backend="aot_eager"), torch.ones(4))
    assert [graph.stage for graph in run.compiles[0].graphs] == ["dynamo", "inference"]


def test_three_operations_are_fused_into_one_kernel(chained):
    forward = chained.code[0].kernels
    assert len(forward) == 1
    kernel = forward[0]
    assert kernel.language == "cpp"
    assert {"add", "relu", "mul"} <= set(kernel.nodes)
    assert {chained.compiles[0].graph("post_grad").node(name).target.split(".")[1] for name in kernel.nodes} >= {
        "add",
        "relu",
        "mul",
    }
    assert kernel.kind == "pointwise"
    assert kernel.launches == 1


def test_a_kernel_points_to_the_learners_lines(chained):
    lines = {source.code for source in chained.code[0].kernels[0].sources}
    assert lines == {"y = torch.relu(x + 1)", "return y * 2"}
    assert {source.code for source in chained.code[1].kernels[0].sources} == lines
    assert chained.sources[__file__].startswith('"""Kernels')


def test_a_kernel_reads_and_writes_each_buffer_once(chained):
    forward, backward = (code.kernels[0] for code in chained.code)
    floats, mask = 64 * 128 * 4, 64 * 128
    assert (forward.bytes_read, forward.bytes_written) == (floats, floats + mask)
    assert (backward.bytes_read, backward.bytes_written) == (floats + mask, floats)


def test_the_lines_of_a_kernel_are_where_the_code_says(chained):
    code = chained.code[0]
    kernel = code.kernels[0]
    first, last = kernel.lines
    assert "\n".join(code.text.splitlines()[first - 1 : last]) == kernel.source
    assert all(kernel.name in code.text.splitlines()[line - 1] for line in kernel.call_lines)


def test_lines_of_generated_code_name_the_node_they_compute(chained):
    kernel = chained.code[0].kernels[0]
    lines = kernel.source.splitlines()
    of_node = {}
    for number, (name,) in kernel.line_nodes.items():
        of_node.setdefault(name, lines[number - 1])
    assert "clamp_min" in of_node["relu"]
    assert " * " in of_node["mul"]
    assert " + " in of_node["add"]


def test_what_is_saved_for_backward_has_its_bytes(chained):
    (saved,) = chained.compiles[0].saved
    assert (saved.dtype, saved.shape, saved.size_bytes, saved.is_input) == ("bool", (64, 128), 64 * 128, False)


def test_a_backward_node_names_the_forward_operation_it_belongs_to(chained):
    compiled = chained.compiles[0]
    where = next(node for node in compiled.graph("backward").nodes if node.target.startswith("aten.where"))
    (name,) = where.origins
    assert compiled.graph("dynamo").node(name).target == "torch.relu"


def test_post_grad_nodes_are_mapped_to_dynamo_nodes(chained):
    compiled = chained.compiles[0]
    dynamo = {node.name: node.target for node in compiled.graph("dynamo").calls()}
    mapped = {compiled.graph("post_grad").node(name).target: names for name, names in compiled.provenance.items()
              if name in {node.name for node in compiled.graph("post_grad").nodes}}  # fmt: skip
    assert [dynamo[name] for name in mapped["aten.relu.default"]] == ["torch.relu"]


def test_a_library_call_is_a_kernel_of_its_own(modeled):
    calls = [kernel for kernel in modeled.code[0].kernels if kernel.language == "extern"]
    assert [kernel.name for kernel in calls] == ["addmm"]
    # input 16x64, weight 32x64, bias 32; output 16x32
    assert calls[0].bytes_read == (16 * 64 + 32 * 64 + 32) * 4
    assert calls[0].bytes_written == 16 * 32 * 4


def test_nodes_know_the_module_they_were_called_in(modeled):
    graph = modeled.compiles[0].graph("dynamo")
    assert {node.module for node in graph.calls()} == {"", "norm", "up"}
    assert {node.module for node in modeled.compiles[0].graph("forward").calls()} >= {"norm", "up"}


def test_a_node_inside_a_library_module_points_to_the_learners_line(modeled):
    linear = next(node for node in modeled.compiles[0].graph("dynamo").calls() if "linear" in node.target)
    assert linear.source.code == "hidden = torch.relu(self.up(self.norm(x)))"
    assert linear.source.file == __file__


def test_phases_are_nested_and_hold_the_seconds(modeled):
    names = {phase.name for phase in modeled.phases}
    assert {"dynamo", "entire_frame_compile", "create_aot_dispatcher_function"} <= names
    outer = next(phase for phase in modeled.phases if phase.depth == 0)
    inner = [phase for phase in modeled.phases if phase.depth == 1]
    assert inner
    assert all(phase.seconds <= outer.seconds for phase in inner)
    assert modeled.compiles[0].seconds > 0


def test_the_caches_are_left_aside_and_said_to_be(modeled):
    caches = modeled.compiles[0].caches
    assert (caches["fx_graph"], caches["aot_autograd"]) == ("bypass", "bypass")


def test_with_caches_in_use_the_second_compile_is_a_hit_and_says_what_it_hides(tmp_path):
    def step(caches="use"):
        torch.compiler.reset()
        with observe(caches=caches) as run:
            torch.compile(chain)(torch.ones(8, 8, requires_grad=True)).sum().backward()
        return run

    from torch._inductor.utils import fresh_cache

    with fresh_cache():
        first, second, third = step(), step(), step("bypass")
    assert set(first.compiles[0].caches.values()) == {"miss"}
    assert set(second.compiles[0].caches.values()) == {"hit"}
    assert third.compiles[0].caches == {"fx_graph": "bypass", "aot_autograd": "bypass", "cpp": "hit"}
    assert set(first.missing.values()) <= {NO_GPU}
    assert "not_fused" in second.missing
    assert [kernel.nodes for kernel in second.kernels] == [kernel.nodes for kernel in first.kernels]


def test_two_neighbors_that_stay_apart_have_a_reason():
    def apart(x, w):
        y = torch.relu(x)
        return (y @ w).cumsum(0) + y.sum(1, keepdim=True), torch.sort(y * 2)[0]

    torch.compiler.reset()
    run = observe(torch.compile(apart), torch.ones(32, 32), torch.ones(32, 32))
    assert all(one.reason and one.first != one.second for one in run.compiles[0].not_fused)
    assert run.compiles[0].not_fused


def test_json_keeps_everything_but_the_result(chained, modeled):
    for run in (chained, modeled):
        assert Run.from_json(run.to_json()) == run


def test_dynamic_sizes_are_symbols_and_bytes_unknown():
    torch.compiler.reset()
    x = torch.ones(8, 4)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=64)
    run = observe(torch.compile(chain), x)
    (symbol,) = run.compiles[0].symbols
    assert symbol.subject == "L['x'].size()[0]"
    assert symbol.hint == 8
    assert symbol.minimum == 2
    assert run.kernels[0].bytes_read is None
    assert run.compiles[0].graph("dynamo").nodes[-2].shape[0] == symbol.name
