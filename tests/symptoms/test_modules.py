"""Symptoms 9 to 11 and 41: what is compiled of a module, its checkpoints, operators of your own."""

import pytest
import torch
from torch import nn

from compilescope import observe
from rows import TORCH, row


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 2)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))

    def generate(self, x):
        return self.second(torch.relu(self.first(x))).argmax(-1)


X = torch.ones(3, 4)


@row("9")
def test_another_method_than_forward_is_not_compiled():
    model = torch.compile(Two(), backend="eager")
    with observe() as run:
        model.generate(X)
    assert len(run.graphs) == 0
    assert not run.calls
    assert any("No compiled function was called" in note for note in run.notes)


@row("9")
def test_compiling_the_method_itself_compiles_it():
    model = Two()
    generate = torch.compile(model.generate, backend="eager")
    run = observe(generate, X)
    assert len(run.graphs) == 1
    assert run.compiles[0].function.endswith("generate")


@row("10")
@pytest.mark.parametrize("make", [lambda: nn.Linear(4, 4), lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU())])
def test_compile_on_a_module_of_torchs_own_compiles_nothing_before_2_14(make):
    model = make()
    model.compile(backend="eager")
    run = observe(model, X)
    if TORCH < (2, 14):
        assert len(run.graphs) == 0
        (found,) = run.not_compiled
        assert found.kind == "library frame"
        assert "torch.compile(module)" in found.remedy
        assert run.calls[0].outcome == "never compiled"
    else:
        assert len(run.graphs) == 1
        assert not run.not_compiled


@row("10")
def test_torch_compile_on_the_same_module_compiles_it_everywhere():
    run = observe(torch.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), backend="eager"), X)
    assert len(run.graphs) == 1


@row("10")
def test_compile_on_a_module_of_your_own_compiles_it_everywhere():
    model = Two()
    model.compile(backend="eager")
    run = observe(model, X)
    assert len(run.graphs) == 1
    assert {node.module for node in run.graphs[0].calls() if node.module} == {"first", "second"}


def define(with_shape_rule):
    name = f"course::double_{'with' if with_shape_rule else 'without'}"

    @torch.library.custom_op(name, mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    if with_shape_rule:
        double.register_fake(torch.empty_like)
    return double


@row("11")
def test_an_operator_without_a_shape_rule_is_an_error():
    double = define(with_shape_rule=False)
    with observe() as run, pytest.raises(RuntimeError):
        torch.compile(lambda x: double(x) + 1, backend="eager", fullgraph=True)(X)
    assert run.calls[0].outcome == "error"
    assert len(run.graphs) == 0


@row("11")
def test_with_a_shape_rule_it_is_one_node():
    double = define(with_shape_rule=True)
    run = observe(torch.compile(lambda x: double(x) + 1, backend="eager", fullgraph=True), X)
    (graph,) = run.graphs
    assert any("double_with" in node.target for node in graph.calls())
    torch.library.opcheck(double, (X,))


@row("41")
def test_the_wrapper_puts_its_name_before_each_key_of_the_checkpoint():
    model = Two()
    wrapped = torch.compile(model, backend="eager")
    run = observe(wrapped, X)
    assert len(run.graphs) == 1
    assert all(key.startswith("_orig_mod.") for key in wrapped.state_dict())
    assert list(wrapped._orig_mod.state_dict()) == list(model.state_dict())


@row("41")
def test_compile_in_place_leaves_the_keys_as_they_are():
    model = Two()
    keys = list(model.state_dict())
    model.compile(backend="eager")
    run = observe(model, X)
    assert len(run.graphs) == 1
    assert list(model.state_dict()) == keys
