"""Triton code of a captured graph for a GPU that is not there: AOTAutograd on the CPU, then Inductor on fake CUDA."""

from __future__ import annotations

import contextlib
import copy
import linecache
import logging
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast
from unittest import mock

import torch
import torch.utils._pytree as pytree
from torch.nn.attention import sdpa_kernel

from compilescope.torch_internals.interpret_attention import attention_on_the_cpu
from compilescope.torch_internals.pretend_attention import gpu_attention
from compilescope.torch_internals.pretend_capture import Captured, copied, copy_graph
from compilescope.torch_internals.pretend_decompositions import gpu_decompositions
from compilescope.torch_internals.pretend_floats import inputs_with_numbers, is_number, number_in, with_fixed_floats
from compilescope.torch_internals.pretend_world import pretended_gpu

Record = tuple[dict[str, object], str | None]


@dataclass
class Lowered:
    """One forward, backward or inference graph: its code for the pretended GPU, and how to run it on the CPU."""

    module: torch.fx.GraphModule
    code: str
    constants: dict[str, torch.Tensor]
    calls: list[list[Any]] = field(default_factory=list)
    """Copies of the arguments of each call, once `replay` has called it."""


def generate(captured: Captured, gpu: str) -> list[Record]:
    """Records as torch's structured trace would hold them had this graph been compiled on `gpu`.

    The learner's graph, trace, logs, counters and random state stay as they were. Raises what the compiler raises.

    Leans on ``torch._inductor.compile_fx.compile_fx`` with ``inner_compile``, on
    ``GraphLowering.compile_to_module`` (replaced: the code is kept, nothing is run) and on
    ``force_non_lazy_backward_lowering`` (2.11 to 2.15).
    """
    records: list[Record] = [_dynamo_graph(captured)]
    with undisturbed(records):
        _compile(captured, gpu, records, [])
    return records


def replay(captured: Captured, gpu: str) -> list[Lowered]:
    """The lowered graphs of `captured` with the arguments that each gets when the learner's inputs come in.

    The backward gets a fixed gradient. Raises ValueError when the inputs were too large to keep.
    """
    if captured.values is None:
        raise ValueError("the inputs were too large to keep")
    lowered: list[Lowered] = []
    records: list[Record] = []
    with (
        undisturbed(records),
        attention_on_the_cpu(),
        torch.inference_mode(captured.inference),
        torch.set_grad_enabled(captured.grad),
    ):
        function = _compile(captured, gpu, records, lowered)
        result = function(*captured.values)
        outputs = [one for one in pytree.tree_leaves(result) if isinstance(one, torch.Tensor) and one.requires_grad]
        if outputs and captured.grad:
            torch.autograd.grad(
                outputs,
                [one for one in captured.values if isinstance(one, torch.Tensor) and one.requires_grad],
                [_gradient(one) for one in outputs],
                allow_unused=True,
            )
    return [one for one in lowered if one.calls]


def _gradient(output: torch.Tensor) -> torch.Tensor:
    """Numbers that do not cancel, as ones do in the backward of a softmax."""
    numbers = torch.arange(output.numel(), dtype=torch.float64).cos().reshape(output.size())
    return numbers.to(output.dtype)


def _compile(captured: Captured, gpu: str, records: list[Record], lowered: list[Lowered]) -> Callable[..., Any]:
    before = len(records), len(lowered)

    def attempt(given: Captured) -> Callable[..., Any]:
        del records[before[0] :], lowered[before[1] :]
        return _compile_once(given, gpu, records, lowered)

    return with_fixed_floats(captured, attempt)


def _compile_once(captured: Captured, gpu: str, records: list[Record], lowered: list[Lowered]) -> Callable[..., Any]:
    import torch._functorch.config as functorch_config
    import torch._inductor.config as inductor_config
    from torch._inductor.compile_fx import compile_fx

    def inner_compile(gm: torch.fx.GraphModule, example_inputs: list[Any], **options: Any) -> Any:
        before = len(records)
        constants = _lower(gm, example_inputs, options, gpu, records)
        code = next((text for meta, text in records[before:] if "inductor_output_code" in meta), None)
        one = Lowered(gm, code or "", constants)
        lowered.append(one)
        return _boxed(one)

    with (
        torch.inference_mode(captured.inference),
        torch.set_grad_enabled(captured.grad),
        inductor_config.patch(captured.options | {"force_disable_caches": True, "trace.provenance_tracking_level": 1}),
        functorch_config.patch({"force_non_lazy_backward_lowering": True}),
        gpu_decompositions(),
        sdpa_kernel(captured.attention),
        gpu_attention(gpu) as with_gpu_attention,
        torch._guards.tracing(torch._guards.TracingContext(captured.fake_mode)),
        torch._guards.compile_context(torch._guards.CompileContext(captured.compile_id)),
    ):
        # compile_fx owns the module it gets; the next GPU needs it once more
        function = compile_fx(
            with_gpu_attention(captured.module), inputs_with_numbers(captured), inner_compile=inner_compile
        )
    return cast("Callable[..., Any]", function)


def _dynamo_graph(captured: Captured) -> Record:
    text = captured.module.print_readable(print_output=False, include_stride=True, include_device=True)
    return {"dynamo_output_graph": {}, **_frame(captured.compile_id)}, text


def _frame(compile_id: Any) -> dict[str, object]:
    """The envelope by which a record names its compile."""
    if compile_id is None:
        return {"frame_id": 0, "frame_compile_id": 0}
    return {"frame_id": compile_id.frame_id, "frame_compile_id": compile_id.frame_compile_id}


def _lower(
    gm: torch.fx.GraphModule, example_inputs: list[Any], options: dict[str, Any], gpu: str, records: list[Record]
) -> dict[str, torch.Tensor]:
    """Inductor's part for one forward, backward or inference graph, on the pretended GPU; gives its constants."""
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._subclasses.fake_tensor import FakeTensorMode

    known = torch._guards.detect_fake_mode(example_inputs) or torch._guards.detect_fake_mode(
        [node.meta.get("val") for node in gm.graph.nodes]
    )
    kept = {"is_backward", "is_inference", "static_input_idxs", "graph_id", "boxed_forward_device_index"}
    options = {key: value for key, value in options.items() if key in kept}
    with torch.utils._python_dispatch._disable_current_modes(), pretended_gpu(gpu):
        mode = FakeTensorMode(shape_env=known.shape_env if known is not None else None, allow_non_fake_inputs=True)
        module = on_cuda(gm, mode)
        inputs = [_as_cuda(value, mode) for value in example_inputs]
        context = _context(mode)
        constants: dict[str, torch.Tensor] = {}
        with _keep_code(records, constants), torch._guards.tracing(context):
            compile_fx_inner(module, inputs, cudagraphs=None, **options)
    return constants


def _context(mode: Any) -> torch._guards.TracingContext:
    """What AOTAutograd tells Inductor of this graph (its name, buffers it may reuse), with the GPU's fake mode."""
    outer = torch._guards.TracingContext.try_get()
    context = copy.copy(outer) if outer is not None else torch._guards.TracingContext(mode)
    context.fake_mode = mode
    return context


_VALUES = frozenset(("val", "eager_input_vals"))
"""Where a node's meta has tensors. Inductor compiles a nested region for the devices of the second (2.11 to 2.15)."""


def on_cuda(gm: torch.fx.GraphModule, mode: Any) -> torch.fx.GraphModule:
    """A copy of a graph in which each CPU tensor, also in branches and in the meta of nodes, is on CUDA device 0."""
    module = copy_graph(gm)
    cuda = torch.device("cuda", 0)
    branches: set[int] = set()

    def device(value: Any) -> Any:
        return cuda if isinstance(value, torch.device) and value.type == "cpu" else value

    for node in list(module.graph.nodes):
        node.args = pytree.tree_map(device, node.args)
        node.kwargs = pytree.tree_map(device, node.kwargs)
        node.meta.pop("tensor_meta", None)
        named = getattr(module, str(node.target), None) if node.op == "get_attr" else None
        if isinstance(named, torch.Tensor):
            node.meta.pop("val", None)
            _move_constant(node, cuda)
        elif isinstance(named, torch.fx.GraphModule):  # a branch of torch.cond, the body of a loop
            if id(named) not in branches:
                branches.add(id(moved := on_cuda(named, mode)))
                setattr(module, str(node.target), moved)
        else:
            for name in _VALUES & node.meta.keys():
                node.meta[name] = pytree.tree_map(lambda value: _as_cuda(value, mode), node.meta[name])
    module.recompile()
    return module


def _move_constant(node: torch.fx.Node, cuda: torch.device) -> None:
    """A constant in the learner's code is a CPU tensor on a real GPU too, and copied there: so is it here."""
    lifted = [user for user in node.users if user.target is torch.ops.aten.lift_fresh_copy.default]
    for last in lifted or [node]:
        with node.graph.inserting_after(last):
            moved = node.graph.call_function(torch.ops.prims.device_put.default, (last, cuda))
        moved.meta.update(last.meta)
        for user in [user for user in last.users if user is not moved]:
            user.replace_input_with(last, moved)


def _as_cuda(value: Any, mode: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if is_number(value):
        return number_in(value, mode)
    with mode, torch.no_grad():
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="cuda:0")


def _boxed(lowered: Lowered) -> Callable[[list[Any]], Any]:
    """What AOTAutograd calls for this graph: the graph itself, operation by operation, on the CPU."""

    def call(args: list[Any]) -> Any:
        lowered.calls.append([copied(one) if isinstance(one, torch.Tensor) else one for one in args])
        return lowered.module.forward(*args)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


@contextlib.contextmanager
def _keep_code(records: list[Record], constants: dict[str, torch.Tensor]) -> Iterator[None]:
    from torch._inductor.graph import GraphLowering

    def compile_to_module(self: Any) -> Any:
        wrapper, _ = self.codegen_with_cpp_wrapper() if self.cpp_wrapper else self.codegen()
        lines = [(line, node.stack_trace) for line, node in wrapper.line_map if getattr(node, "stack_trace", None)]
        frame = _frame(torch._guards.CompileContext.current_compile_id())
        constants.update(self.constants)
        records.append(({"inductor_output_code": {"lines": lines}, **frame}, wrapper.value))
        return types.SimpleNamespace(call=lambda args: None, __file__="<pretended>", runner=None)

    with mock.patch.object(GraphLowering, "compile_to_module", compile_to_module):
        yield


def _graph_sources() -> dict[str, Any]:
    """Source of each graph module ever made, kept for tracebacks (``torch.fx.graph_module._loader``, 2.11 to 2.15)."""
    loader = getattr(torch.fx.graph_module, "_loader", None)
    kept: dict[str, Any] = getattr(loader, "eval_cache", {})
    return kept


def _forget_graph_sources(known: set[str]) -> None:
    kept = _graph_sources()
    for key in [key for key in kept if key not in known]:
        kept.pop(key, None)
        linecache.cache.pop(key, None)


@contextlib.contextmanager
def undisturbed(records: list[Record]) -> Iterator[None]:
    """Send torch's structured trace to `records`, silence its logs, and put counters and random state back.

    Leans on the logger ``torch.__trace``, ``torch._dynamo.utils.counters`` and ``torch._inductor.metrics``
    (2.11 to 2.15).
    """
    from torch._dynamo.utils import counters
    from torch._inductor import metrics

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            metadata = getattr(record, "metadata", None)
            if isinstance(metadata, dict):
                records.append((dict(metadata), getattr(record, "payload", None)))

    trace = logging.getLogger("torch.__trace")
    saved_counts = {name: counter.copy() for name, counter in counters.items()}
    numbers = {name: value for name, value in vars(metrics).items() if type(value) is int}
    with contextlib.ExitStack() as stack:
        for logger in list(logging.Logger.manager.loggerDict.values()):
            if isinstance(logger, logging.Logger) and logger.name.startswith("torch") and logger.handlers:
                stack.callback(setattr, logger, "handlers", logger.handlers)
                logger.handlers = [Keep(logging.DEBUG) if logger is trace else logging.NullHandler()]
        if not any(isinstance(handler, Keep) for handler in trace.handlers):
            stack.callback(setattr, trace, "handlers", trace.handlers)
            trace.handlers = [Keep(logging.DEBUG)]
        stack.enter_context(torch.random.fork_rng(devices=[]))
        stack.callback(_forget_graph_sources, set(_graph_sources()))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            counters.clear()
            counters.update(saved_counts)
            for name, value in numbers.items():
                setattr(metrics, name, value)
