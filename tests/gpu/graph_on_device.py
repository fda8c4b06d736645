"""A captured graph, moved: the learner's function as it would be written for another device."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.utils._pytree as pytree

from compilescope.torch_internals.pretend_capture import Captured, copied, copy_graph

_MADE_ANYWHERE = {
    "arange", "empty", "eye", "full", "linspace", "logspace", "ones", "rand", "randint", "randn", "randperm",
    "scalar_tensor", "tensor", "zeros",
}  # fmt: skip
"""Functions of torch that make a tensor on the default device: with a GPU, a learner has to name the device."""


def graph_on(captured: Captured, device: str) -> torch.fx.GraphModule:
    """A copy whose parameters and constants, and the tensors it makes, are on `device`, also in its branches."""
    module = copy_graph(captured.module)
    used = [node for node in module.graph.nodes if node.op in ("get_attr", "call_module")]
    for name in {str(node.target).partition(".")[0] for node in used}:
        value = getattr(module, name)
        plain = isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter)
        setattr(module, name, copied(value).requires_grad_(value.requires_grad) if plain else copy.deepcopy(value))
    for part in list(module.modules()):
        if isinstance(part, torch.fx.GraphModule):
            _move_nodes(part, device)
    return module.to(device)


def _move_nodes(module: torch.fx.GraphModule, device: str) -> None:
    there = torch.device(device)

    def moved(value: Any) -> Any:
        return there if isinstance(value, torch.device) and value.type == "cpu" else value

    for node in module.graph.nodes:
        node.args, node.kwargs = pytree.tree_map(moved, (node.args, node.kwargs))
        if str(node.kwargs.get("device", "")) == "cpu" or _makes_a_tensor(node):
            node.kwargs = {**node.kwargs, "device": there}
        if getattr(node.target, "__name__", "") == "_enter_autocast":
            node.args = (there.type, *node.args[1:])
        for name in ("example_value", "val", "tensor_meta"):
            node.meta.pop(name, None)
        constant = getattr(module, str(node.target), None) if node.op == "get_attr" else None
        if isinstance(constant, torch.Tensor) and not isinstance(constant, torch.nn.Parameter):
            setattr(module, str(node.target), constant.to(there))
    module.recompile()


def _makes_a_tensor(node: torch.fx.Node) -> bool:
    name = getattr(node.target, "__name__", "")
    return node.op == "call_function" and name in _MADE_ANYWHERE and getattr(torch, name, None) is node.target
