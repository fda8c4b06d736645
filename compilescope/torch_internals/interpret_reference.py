"""The numbers to compare with: a graph run operation by operation, as it is and in float64."""

from __future__ import annotations

from typing import Any

import torch
import torch.utils._pytree as pytree

from compilescope.torch_internals.interpret_attention import attention_on_the_cpu

_SHORT = (torch.float32, torch.float16, torch.bfloat16)


class _Double(torch.fx.Interpreter):
    """Runs a post-grad graph with each floating tensor, and each floating dtype it asks for, in float64."""

    def run_node(self, n: torch.fx.Node) -> Any:
        return pytree.tree_map(_double, super().run_node(n))

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        return super().call_function(target, *pytree.tree_map(_double, (args, kwargs)))


def _double(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.double() if value.dtype in _SHORT else value
    return torch.float64 if isinstance(value, torch.dtype) and value in _SHORT else value


def run_graph(module: torch.fx.GraphModule, args: list[Any], double: bool) -> tuple[list[Any], list[Any]]:
    """Outputs and final arguments (a graph may write into them), in the graph's own dtypes or in float64."""
    given = [pytree.tree_map(_double, one) if double else one for one in args]
    with torch.no_grad(), attention_on_the_cpu():
        outputs = _Double(module).run(*given) if double else module.forward(*given)
    return list(outputs), given


def is_random(module: torch.fx.GraphModule) -> bool:
    """Whether the graph draws random numbers: a GPU draws others than a CPU, so there is nothing to compare."""
    return any(
        "random" in str(node.target) or "rand" in str(node.target).split(".") or _drops(node, module)
        for node in module.graph.nodes
    )


def _drops(node: torch.fx.Node, module: torch.fx.GraphModule) -> bool:
    """Whether it is an attention with dropout."""
    if "_scaled_dot_product_" not in str(node.target):
        return False
    arguments = node.normalized_arguments(module, normalize_to_only_use_kwargs=True)
    return bool(arguments is not None and arguments.kwargs.get("dropout_p"))
