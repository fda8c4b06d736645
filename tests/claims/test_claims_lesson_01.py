"""Lesson 1: what the running torch does about each claim of the source texts that the lesson teaches.

Each test is named after its row of the syllabus, ``test_row_NN_…``. Where versions differ, the test says from which on.
"""

import copy

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the course writes it so
from torch import nn

from autograder.judging import eager_operations
from compilescope import observe
from compilescope.pretend import preview

VERSION = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 1)

    def forward(self, x):
        return self.down(F.gelu(self.up(x))).squeeze(-1)


def make_sequential():
    return nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 1))


def compiled(fn, **options):
    return torch.compile(fn, backend="aot_eager", **options)


def first_call(fn, *args):
    torch.compiler.reset()
    return observe(fn, *args)


def discount(cash, rate, years):
    return cash * torch.exp(-rate * years)


def bond_price(coupon, rate, years):
    cash = torch.where(years == years.max(), 100 + coupon, coupon)
    return discount(cash, rate, years).sum()


BOND = torch.tensor(4.0), torch.tensor(0.03), torch.arange(1.0, 11.0)


def train_step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def batch():
    return torch.randn(16, 8), torch.randn(16)


def test_row_01_the_highest_level_function_leaves_nothing_outside_a_lower_one_does():
    whole, part = compiled(bond_price), compiled(discount)

    def outer(coupon, rate, years):
        return part(torch.where(years == years.max(), 100 + coupon, coupon), rate, years).sum()

    assert len(first_call(whole, *BOND).graphs) == 1
    assert eager_operations(whole, *BOND) == ()
    assert len(first_call(outer, *BOND).graphs) == 1
    assert "aten::where" in eager_operations(outer, *BOND)


def test_row_02_step_module_and_submodule_are_places_that_compile():
    x, y = batch()
    model = Scorer()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert first_call(compiled(train_step), model, optimizer, x, y).graphs
    assert len(first_call(compiled(model), x).graphs) == 1
    model.up = compiled(model.up)
    run = first_call(model, x)
    assert [node.target for node in run.graphs[0].calls()] == ["torch._C._nn.linear"]


def test_row_03_a_larger_region_fuses_more():
    def first(x):
        return torch.sin(x) * 2

    def second(x):
        return torch.tanh(x) + 1

    def both(x):
        return second(first(x))

    x = torch.randn(64)
    kernels = {fn: len(preview(fn, x)[0].kernels) for fn in (first, second, both)}
    assert kernels == {first: 1, second: 1, both: 1}


def test_row_05_the_first_call_compiles_the_rest_reuse():
    model = Scorer()
    model.compile(backend="aot_eager")
    assert len(first_call(model, batch()[0]).graphs) == 1
    assert [len(observe(model, batch()[0]).graphs) for _ in range(3)] == [0, 0, 0]


def test_row_06_a_compiled_training_step_has_a_graph_for_the_loss_and_one_for_the_update():
    model = Scorer()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = compiled(train_step)
    run = first_call(step, model, optimizer, *batch())
    stages = [{graph.stage for graph in one.graphs} for one in run.compiles if one.graphs]
    assert len(run.graphs) == 2
    assert [stage >= {"dynamo", "forward", "backward"} for stage in stages] == [True, False]
    assert observe(step, model, optimizer, *batch()).graphs == ()


def test_row_06_with_the_loop_inside_nothing_of_the_function_itself_is_compiled():
    def epoch(model, optimizer, batches):
        for x, y in batches:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        return loss

    model = Scorer()
    run = first_call(compiled(epoch), model, torch.optim.SGD(model.parameters(), lr=0.1), [batch(), batch()])
    assert "epoch" in {one.function.rpartition(".")[2] for one in run.not_compiled}
    assert not any("mse_loss" in node.target for graph in run.graphs for node in graph.calls())


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_row_07_dynamo_traces_the_update_of_all_parameters_into_one_graph(kind):
    model = Scorer()
    loss = model(batch()[0]).sum()
    loss.backward()
    before = [value.detach().clone() for value in model.parameters()]
    run = first_call(compiled(kind(model.parameters(), lr=0.1).step))
    assert len(run.graphs) == 1
    assert all(not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


def test_row_10_in_place_compiles_nothing_on_a_built_in_module_before_2_14():
    model, built_in = Scorer(), make_sequential()
    model.compile(backend="aot_eager")
    built_in.compile(backend="aot_eager")
    x = batch()[0]
    assert len(first_call(model, x).graphs) == 1
    assert len(first_call(built_in, x).graphs) == (1 if VERSION >= (2, 14) else 0)
    assert len(first_call(compiled(make_sequential()), x).graphs) == 1


def test_row_11_the_two_forms_differ_in_object_and_keys():
    in_place = Scorer()
    in_place.compile(backend="aot_eager")
    wrapped = compiled(in_place)
    keys = list(Scorer().state_dict())
    assert type(in_place) is Scorer
    assert list(in_place.state_dict()) == keys
    assert type(wrapped) is not Scorer
    assert list(wrapped.state_dict()) == [f"_orig_mod.{key}" for key in keys]
    assert wrapped._orig_mod is in_place


def test_row_12_in_place_keeps_a_compiled_call_and_its_hooks_run_compiled():
    model = Scorer()
    assert model._compiled_call_impl is None
    model.compile(backend="aot_eager")
    assert model._compiled_call_impl is not None
    model.register_forward_hook(lambda module, inputs, output: output * 2)
    x = batch()[0]
    run = first_call(model, x)
    assert "operator.mul" in [node.target for graph in run.graphs for node in graph.calls()]
    assert eager_operations(model, x) == ()


def test_row_13_nested_module_calls_are_traced_into_the_outer_graph():
    class Tower(nn.Module):
        def __init__(self):
            super().__init__()
            self.scorers = nn.ModuleList(Scorer() for _ in range(3))

        def forward(self, x):
            return sum(scorer(x) for scorer in self.scorers)

    run = first_call(compiled(Tower()), batch()[0])
    assert len(run.graphs) == 1
    assert sum("linear" in node.target for node in run.graphs[0].calls()) == 6


def test_row_14_torch_compiler_compile_is_the_same_entry_point():
    run = first_call(torch.compiler.compile(bond_price, backend="aot_eager"), *BOND)
    assert len(run.graphs) == 1


def test_row_22_one_line_keeps_call_outputs_and_gradients():
    model = Scorer()
    twin = copy.deepcopy(model)
    x = batch()[0]
    out, want = compiled(model)(x), twin(x)
    out.sum().backward()
    want.sum().backward()
    torch.testing.assert_close(out, want)
    for value, other in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(value.grad, other.grad)


def test_row_24_the_graph_is_captured_at_run_time_from_the_path_that_ran():
    def scaled(x, double):
        return x * 2 if double else x.sin()

    with observe() as run:
        fast = compiled(scaled)
    assert run.graphs == ()
    targets = [
        [node.target for node in first_call(fast, BOND[2], double).graphs[0].calls()] for double in (True, False)
    ]
    assert targets == [["operator.mul"], ["Tensor.sin"]]


def test_row_25_capture_then_kernels_then_guards():
    x = torch.randn(64)
    run = first_call(torch.compile(lambda x: torch.sin(x) * 2), x)
    assert {kernel.language for kernel in run.kernels} == {"cpp"}
    assert run.compiles[0].guards
    (pretended,) = preview(lambda x: torch.sin(x) * 2, x)
    assert {kernel.language for kernel in pretended.kernels} == {"triton"}


def test_row_27_each_stage_leaves_its_graph_and_gelu_is_decomposed():
    def loss(x):
        return F.gelu(x).sum()

    def both(fn, x):
        fn(x).backward()

    x = torch.randn(64, requires_grad=True)
    run = first_call(both, torch.compile(loss, backend="aot_eager_decomp_partition"), x)
    graphs = {graph.stage: graph for graph in run.compiles[0].graphs}
    assert set(graphs) >= {"dynamo", "joint", "forward", "backward"}
    assert [node.target for node in graphs["dynamo"].calls()] == ["torch._C._nn.gelu", "Tensor.sum"]
    forward = [node.target for node in graphs["forward"].calls()]
    assert "aten.erf.default" in forward
    assert "aten.gelu.default" not in forward


def test_row_27_forward_and_backward_are_traced_together_before_backward_is_called():
    run = first_call(compiled(Scorer()), batch()[0])
    assert {graph.stage for graph in run.compiles[0].graphs} >= {"joint", "forward", "backward"}


def test_row_28_a_break_falls_back_to_python_and_does_not_crash(capsys):
    def talkative(x):
        y = x.sin()
        print("here")
        return y * 2

    run = first_call(compiled(talkative), BOND[2])
    assert len(run.graphs) == 2
    assert capsys.readouterr().out == "here\n"
    torch.testing.assert_close(run.result, BOND[2].sin() * 2)


def soft_gate(x, scale):
    return (F.gelu(x) * scale).softmax(-1)


def test_row_28_a_fused_bfloat16_kernel_is_nearer_to_float64_than_eager():
    x, scale = torch.linspace(-4, 4, 4096).view(16, 256).bfloat16(), torch.linspace(0, 2, 256).bfloat16()
    exact = soft_gate(x.double(), scale.double())
    torch.compiler.reset()
    fused = (torch.compile(soft_gate)(x, scale).double() - exact).abs().max()
    assert fused < (soft_gate(x, scale).double() - exact).abs().max()


def test_row_28_inductor_has_its_own_random_numbers_unless_told():
    def dropped(fn):
        torch.manual_seed(0)
        return fn(torch.ones(64, 256), 0.5) == 0

    torch.compiler.reset()
    eager, own = dropped(F.dropout), dropped(torch.compile(lambda x, p: F.dropout(x, p)))
    assert 0.4 < (eager == own).double().mean() < 0.6
    torch.compiler.reset()
    assert torch.equal(eager, dropped(torch.compile(lambda x, p: F.dropout(x, p), options={"fallback_random": True})))


def test_row_30_autocast_changes_dtypes_in_the_graph_not_the_number_of_graphs():
    def mixed_step(model, optimizer, x, y):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            predicted = model(x)
        loss = F.mse_loss(predicted.float(), y)
        loss.backward()
        optimizer.step()
        return loss

    model = Scorer()
    run = first_call(compiled(mixed_step), model, torch.optim.SGD(model.parameters(), lr=0.1), *batch())
    assert len(run.graphs) == 2
    assert {node.dtype for node in run.graphs[0].calls() if "linear" in node.target} == {"bfloat16"}


def test_row_35_the_backend_gets_the_graph_and_eager_compiles_nothing_of_it():
    seen = []

    def mine(gm, example_inputs):
        seen.append([node.op for node in gm.graph.nodes])
        return gm.forward

    assert {"inductor", "eager", "aot_eager"} <= set(torch.compiler.list_backends(exclude_tags=()))
    run = first_call(torch.compile(bond_price, backend=mine), *BOND)
    assert len(seen) == len(run.graphs) == 1
    assert sum(op.startswith("call") for op in seen[0]) == len(run.graphs[0].calls())
    stages = {
        backend: [
            graph.stage for graph in first_call(torch.compile(bond_price, backend=backend), *BOND).compiles[0].graphs
        ]
        for backend in ("eager", "aot_eager")
    }
    assert stages == {"eager": ["dynamo"], "aot_eager": ["dynamo", "inference"]}


def test_row_38_nested_functions_are_compiled_too():
    run = first_call(compiled(bond_price), *BOND)
    assert len(run.graphs) == 1
    assert {node.source.function for node in run.graphs[0].calls()} == {"bond_price", "discount"}
