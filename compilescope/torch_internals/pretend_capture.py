"""The graphs that Dynamo hands to a backend, copied while they pass, so that they can be compiled once more later."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch


@dataclass
class Captured:
    """One Dynamo graph with its fake inputs, and the modes that were on when it was handed over."""

    module: torch.fx.GraphModule
    inputs: list[Any]
    fake_mode: Any
    compile_id: Any
    grad: bool
    inference: bool
    function: tuple[str, str, int]
    """Name, file and first line of the function that is compiled."""


@contextlib.contextmanager
def capturing() -> Iterator[list[Captured]]:
    """Collect the graph of each compile that happens inside, whatever its backend; the compile itself is untouched.

    Leans on ``torch._dynamo.output_graph.OutputGraph.call_user_compiler`` and on ``example_value`` in the meta of
    placeholders (2.11 to 2.15). A graph that cannot be copied is left out, never raised.
    """
    from torch._dynamo.output_graph import OutputGraph

    captured: list[Captured] = []
    original = OutputGraph.call_user_compiler

    def call_user_compiler(self: Any, gm: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):
            captured.append(_copy(gm, self))
        return original(self, gm, *args, **kwargs)

    with mock.patch.object(OutputGraph, "call_user_compiler", call_user_compiler):
        yield captured


def latest(captured: list[Captured]) -> list[Captured]:
    """Without the graphs of attempts that a later attempt of the same frame replaced."""
    return list({str(one.compile_id): one for one in captured}.values())


def _copy(gm: torch.fx.GraphModule, output_graph: Any) -> Captured:
    module = copy_graph(gm)
    code = output_graph.root_tx.f_code
    context = torch._guards.TracingContext.try_get()
    fakes = [node.meta["example_value"] for node in module.graph.nodes if node.op == "placeholder"]
    return Captured(
        module,
        fakes,
        context.fake_mode if context is not None else torch._guards.detect_fake_mode(fakes),
        torch._guards.CompileContext.current_compile_id(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        (code.co_name, code.co_filename, code.co_firstlineno),
    )


def copy_graph(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A module with its own nodes and the same submodules, parameters and constants."""
    module = torch.fx.GraphModule(gm, copy.deepcopy(gm.graph))
    module.meta.update(getattr(gm, "meta", {}))
    for name in ("_param_name_to_source", "_source_to_user_stacks"):
        if hasattr(gm, name):
            setattr(module, name, getattr(gm, name))
    for old, new in zip(gm.graph.nodes, module.graph.nodes, strict=True):
        if hasattr(old, "_dynamo_source"):  # AOTAutograd names inputs by it; node copies leave it out
            new._dynamo_source = old._dynamo_source
    return module
