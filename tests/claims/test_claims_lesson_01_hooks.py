"""Lesson 1: where a hook goes, what the call of backward leaves to Python, and when fullgraph raises on nothing."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the course writes it so
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.judging import eager_operations
from compilescope import observe

TORCH = tuple(map(int, torch.__version__.split(".")[:2]))
LINEAR, RELU, HOOK = "torch._C._nn.linear", "Tensor.relu", "operator.mul"


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(x).relu()


def in_place(model, **options):
    model.compile(backend="aot_eager", **options)
    return model


def wrapped(model, **options):
    return torch.compile(model, backend="aot_eager", **options)


def in_a_function(model, **options):
    return torch.compile(lambda x: model(x), backend="aot_eager", **options)


def first_call(fn, *args):
    torch.compiler.reset()
    return observe(fn, *args)


def targets(form, hooked, **options):
    """The operations of each graph, with a hook on the model or on its layer, and the breaks that were reported."""
    model = Layer()
    (model if hooked == "model" else model.linear).register_forward_hook(lambda module, args, output: output * 2)
    run = first_call(form(model, **options), torch.ones(4, 8))
    return [[node.target for node in graph.calls()] for graph in run.graphs], len(run.breaks)


@pytest.mark.parametrize("options", [{}, {"fullgraph": True}], ids=["", "fullgraph"])
def test_lesson_1_a_hook_of_the_model_is_a_graph_of_its_own_and_shares_one_in_a_function(options):
    for form in (in_place, wrapped):
        assert targets(form, "model", **options) == ([[LINEAR, RELU], [HOOK]], 0)
    assert targets(in_a_function, "model", **options) == ([[LINEAR, RELU, HOOK]], 0)


@pytest.mark.parametrize("form", [in_place, wrapped, in_a_function])
def test_lesson_1_a_hook_of_an_inner_module_is_in_the_graph_of_the_model(form):
    assert targets(form, "layer") == ([[LINEAR, HOOK, RELU]], 0)


class Watching(TorchDispatchMode):
    """A mode of somebody's own, under which Dynamo skips every frame."""

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        return op(*args, **(kwargs or {}))


def skipped(fullgraph):
    """A call of which Dynamo skips everything: the graphs of it."""
    compiled = torch.compile(lambda x: x.sin(), backend="aot_eager", fullgraph=fullgraph)
    torch.compiler.reset()
    with observe() as run, Watching():
        compiled(torch.ones(3))
    return run.graphs


def built_in(fullgraph):
    """The same on a module of PyTorch's own, compiled in place, up to torch 2.13."""
    return first_call(in_place(nn.Linear(8, 1), fullgraph=fullgraph), torch.ones(4, 8)).graphs


@pytest.mark.parametrize("call", [skipped, built_in])
def test_lesson_1_from_2_13_on_fullgraph_raises_where_dynamo_skipped_everything(call):
    if call is built_in and TORCH >= (2, 14):  # it is compiled from then on
        assert len(call(False)) == len(call(True)) == 1
        return
    assert call(False) == ()
    if TORCH >= (2, 13):
        with pytest.raises(RuntimeError):
            call(True)
    else:
        assert call(True) == ()


def test_lesson_1_the_compiled_backward_runs_inside_the_call_of_backward_that_stays_in_python():
    def train_step(model, x):
        loss = F.mse_loss(model(x), x)
        loss.backward()
        return loss

    model, x = Layer(), torch.randn(4, 8)
    step = torch.compile(train_step, backend="aot_eager")
    assert "backward" in {graph.stage for one in first_call(step, model, x).compiles for graph in one.graphs}
    assert "aten::mm" in eager_operations(train_step, model, x)  # of the backward: the forward has aten::linear
    assert "aten::mm" not in eager_operations(step, model, x)
