"""The graphs that Dynamo hands to a backend, copied while they pass, so that they can be compiled once more later."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch.nn.attention import SDPBackend

KEPT_BYTES = 32 << 20
"""Larger inputs are not kept for `interpret`: they would be too large for it anyway."""


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
    values: list[Any] | None
    """Copies of the real inputs; None when they are too large to keep."""
    options: dict[str, Any]
    """What ``torch.compile(mode=…, options=…)`` asks of Inductor, without CUDA graphs: nothing is run."""
    attention: list[SDPBackend]
    """What ``torch.nn.attention.sdpa_kernel`` allowed at the call."""


@contextlib.contextmanager
def capturing() -> Iterator[list[Captured]]:
    """Collect the graph of each compile that happens inside, whatever its backend; the compile itself is untouched.

    Leans on ``torch._dynamo.output_graph.OutputGraph.call_user_compiler`` and on ``example_value`` in the meta of
    placeholders (2.11 to 2.15). A graph that cannot be copied is left out, never raised.
    """
    from torch._dynamo.exc import RestartAnalysis
    from torch._dynamo.output_graph import OutputGraph

    captured: list[Captured] = []
    original = OutputGraph.call_user_compiler

    def call_user_compiler(self: Any, gm: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        before = len(captured)
        with contextlib.suppress(Exception):
            captured.append(_copy(gm, self, args[0] if args else kwargs["example_inputs"]))
        try:
            return original(self, gm, *args, **kwargs)
        except RestartAnalysis:  # the graph of an attempt that Dynamo throws away
            del captured[before:]
            raise

    with mock.patch.object(OutputGraph, "call_user_compiler", call_user_compiler):
        yield captured


def latest(captured: list[Captured]) -> list[Captured]:
    """Without the graphs of attempts that a later attempt of the same frame replaced."""
    return list({str(one.compile_id): one for one in captured}.values())


def _copy(gm: torch.fx.GraphModule, output_graph: Any, example_inputs: list[Any]) -> Captured:
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
        _values(example_inputs),
        asked_of_inductor(output_graph.compiler_fn),
        allowed_backends(),
    )


def asked_of_inductor(compiler: Any) -> dict[str, Any]:
    """The ``config`` that the backend object of ``torch.compile(mode=…, options=…)`` carries (2.11 to 2.15)."""
    asked = getattr(compiler, "config", None)
    return {key: value for key, value in asked.items() if "cudagraph" not in key} if isinstance(asked, dict) else {}


def allowed_backends() -> list[SDPBackend]:
    """What ``torch.nn.attention.sdpa_kernel`` leaves to choose from, now."""
    allowed = torch.backends.cuda
    enabled = {
        SDPBackend.CUDNN_ATTENTION: allowed.cudnn_sdp_enabled(),
        SDPBackend.FLASH_ATTENTION: allowed.flash_sdp_enabled(),
        SDPBackend.EFFICIENT_ATTENTION: allowed.mem_efficient_sdp_enabled(),
        SDPBackend.MATH: allowed.math_sdp_enabled(),
    }
    return [backend for backend, on in enabled.items() if on]


def _values(inputs: list[Any]) -> list[Any] | None:
    tensors = [one for one in inputs if isinstance(one, torch.Tensor)]
    plain = all(type(one) in (torch.Tensor, torch.nn.Parameter) and one.device.type == "cpu" for one in tensors)
    if not plain or sum(one.numel() * one.element_size() for one in tensors) > KEPT_BYTES:
        return None
    with torch.no_grad(), torch.utils._python_dispatch._disable_current_modes():
        return [_value(one) for one in inputs]


def _value(one: Any) -> Any:
    if isinstance(one, torch.Tensor):
        return copied(one).requires_grad_(one.requires_grad)
    if isinstance(one, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return one.node.hint  # int(one) would fix the size
    return one


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of a plain tensor with the same strides, overlapping or not; it is a leaf."""
    tensor = tensor.detach()
    if not tensor.numel():
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride(), strict=True))
    flat = tensor.as_strided((span,), (1,), tensor.storage_offset()).clone()
    return flat.as_strided(tensor.size(), tensor.stride(), 0)


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
