"""What the nodes of a graph know about the learner's code, read while torch prints the graph."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import torch.fx

NodeFacts = dict[str, dict[str, Any]]


def of_graphs_being_traced() -> list[NodeFacts]:
    """For each graph at hand where a record is being written: node name to what is known of the node.

    ``stack`` (printed Python stack, outermost first), ``module`` (path of the nn.Module), ``origins`` (names of nodes
    of earlier graphs), ``sequence`` (number shared by a forward node and the backward nodes that autograd made
    for it; None if unknown), ``is_backward``. Call it from a handler of the structured trace.

    Leans on ``torch._logging.trace_structured`` being called by the function that holds the ``GraphModule`` in a
    local variable, and on the node's ``meta``: ``stack_trace``, ``nn_module_stack``, ``fwd_nn_module_stack``,
    ``from_node``, ``seq_nr``, ``autograd_backward`` (2.11 to 2.15).
    """
    caller = _caller_of_trace_structured()
    if caller is None:
        return []
    modules = {id(value): value for value in caller.f_locals.values() if isinstance(value, torch.fx.GraphModule)}
    return [{node.name: _facts(node.meta) for node in module.graph.nodes} for module in modules.values()]


def _caller_of_trace_structured() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    for _ in range(30):
        if frame is None:
            return None
        if frame.f_code.co_name == "trace_structured":
            return frame.f_back
        frame = frame.f_back
    return None


def _facts(meta: dict[str, Any]) -> dict[str, Any]:
    modules = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack") or {}
    path = next(reversed(modules.values()))[0] if modules else ""
    return {
        "stack": meta.get("stack_trace") or "",
        "module": path,
        "origins": tuple(_leaf_names(meta.get("from_node") or ())),
        "sequence": meta.get("seq_nr"),
        "is_backward": bool(meta.get("autograd_backward")),
    }


def _leaf_names(sources: Any) -> list[str]:
    names: list[str] = []
    for source in sources:
        while source.from_node:
            source = source.from_node[0]
        if source.name not in names:
            names.append(source.name)
    return names
