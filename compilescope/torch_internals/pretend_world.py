"""For the length of a `with`, torch, Inductor and Triton believe in a GPU; afterwards nothing is left of it."""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from compilescope.torch_internals.pretend_device import (
    NoDevice,
    capability,
    cuda_device_guard,
    device_interface,
    properties,
    triton_driver,
)

_lock = threading.RLock()  # the patches are those of the process: one pretended GPU at a time


class _OnCpu(TorchDispatchMode):  # type: ignore[misc]
    """Constants that constant folding makes are real: put them on the CPU, not on a device that is not there."""

    def __torch_dispatch__(self, func: Any, types_: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        device = kwargs.get("device")
        if isinstance(device, torch.device) and device.type == "cuda":
            kwargs["device"] = torch.device("cpu")
        return func(*args, **kwargs)


def _put(stack: contextlib.ExitStack, owner: Any, name: str, value: Any) -> None:
    """Replace an attribute until `stack` closes."""
    stack.enter_context(mock.patch.object(owner, name, value, create=not hasattr(owner, name)))


def _triton_runtime() -> Any:
    try:
        from triton.runtime.driver import driver
    except ImportError:
        return None  # macOS, Windows, or not installed: the source still comes
    return driver


def has_triton() -> bool:
    """Whether the triton package can be imported: without it there is source, but no PTX and no interpreter."""
    return _triton_runtime() is not None


@contextlib.contextmanager
def pretended_gpu(gpu: str) -> Iterator[types.SimpleNamespace]:
    """Inside, CUDA device 0 is a `gpu` (``t4``, ``a100``, ``h100``) that can be compiled for but not run on.

    Leans on the names that the four groups of patches below mention (2.11 to 2.15); yields the device properties.
    """
    with _lock, contextlib.ExitStack() as stack:
        stack.enter_context(cuda_device_guard())
        _prepare_for_cpu()
        found = properties(gpu)
        stack.callback(forget_devices)
        _patch_interfaces(stack, gpu)
        _patch_triton(stack, capability(gpu))
        _patch_cuda_queries(stack, found)
        _patch_fake_tensors(stack)
        _patch_inductor(stack)
        forget_devices()
        yield found


def _prepare_for_cpu() -> None:
    """Fill what is filled once per process, while there is only the CPU: device interfaces, pattern tables."""
    from torch._dynamo.device_interface import get_interface_for_device
    from torch._inductor.fx_passes import joint_graph, post_grad, pre_grad

    get_interface_for_device("cpu")
    joint_graph.lazy_init(torch.device("cpu"))
    post_grad.lazy_init()
    pre_grad.lazy_init()


def forget_devices() -> None:
    """Empty each ``functools.cache`` that may remember "no GPU" or, afterwards, the pretended one."""
    from torch._inductor import select_algorithm, utils
    from torch._inductor.runtime import hints
    from torch.utils import _triton

    for module in (_triton, utils, select_algorithm, hints):
        for value in list(vars(module).values()):
            if isinstance(value, functools._lru_cache_wrapper) and value.__module__ == module.__name__:
                value.cache_clear()
    create = hints.DeviceProperties.create
    clear = getattr(create, "cache_clear", None) or getattr(getattr(create, "__func__", None), "cache_clear", None)
    if clear:
        clear()


def _patch_interfaces(stack: contextlib.ExitStack, gpu: str) -> None:
    from torch._dynamo import device_interface as interfaces

    known = interfaces.device_interfaces
    saved = {key: known.get(key) for key in ("cuda", "cuda:0")}
    pretended = device_interface(gpu)

    def put_back() -> None:
        for key, value in saved.items():
            if value is None:
                known.pop(key, None)
            else:
                known[key] = value

    stack.callback(put_back)
    for key in saved:
        known[key] = pretended


def _patch_triton(stack: contextlib.ExitStack, arch: int) -> None:
    from torch._inductor.runtime import triton_helpers
    from torch.utils import _triton

    runtime = _triton_runtime()
    if runtime is not None:
        saved = runtime._active
        stack.callback(lambda: setattr(runtime, "_active", saved))
        runtime.set_active(triton_driver(arch))
    else:
        for module in list(sys.modules.values()):  # each did `from torch.utils._triton import has_triton`
            if getattr(module, "__name__", "").startswith("torch.") and "has_triton" in vars(module):
                _put(stack, module, "has_triton", lambda: True)
        _put(stack, _triton, "triton_hash_with_backend", lambda: "no-triton")
    _put(stack, triton_helpers, "set_driver_to_gpu", lambda: None)


def _patch_cuda_queries(stack: contextlib.ExitStack, found: types.SimpleNamespace) -> None:
    state = torch.zeros(16, dtype=torch.uint8)
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "is_initialized": lambda: True,
        "_lazy_init": lambda: None,
        "get_device_properties": lambda device=None: found,
        "get_device_capability": lambda device=None: (found.major, found.minor),
        "get_device_name": lambda device=None: found.name,
        "get_rng_state": lambda device="cuda": state,
        "set_rng_state": lambda *_, **__: None,
        "synchronize": lambda device=None: None,
        "device": NoDevice,
        "_DeviceGuard": NoDevice,
        "is_bf16_supported": lambda including_emulation=True: found.major >= 8,
        "is_tf32_supported": lambda: found.major >= 8,
        "get_arch_list": lambda: [found.gcnArchName],
        "mem_get_info": lambda device=None: (found.total_memory * 7 // 8, found.total_memory),
    }
    for name, answer in answers.items():
        _put(stack, torch.cuda, name, answer)
    _put(stack, torch._C, "_cuda_cudaCachingAllocator_is_enabled", lambda: True)
    if torch.version.cuda is None:
        _put(stack, torch.version, "cuda", "13.0")


def _patch_fake_tensors(stack: contextlib.ExitStack) -> None:
    from torch._subclasses import fake_tensor

    if hasattr(fake_tensor, "init_gpu_context"):  # torch 2.11
        _put(stack, fake_tensor, "init_gpu_context", lambda device: None)
    _put(stack, fake_tensor.FakeTensorMode, "avoid_device_init", property(lambda self: True))


def _patch_inductor(stack: contextlib.ExitStack) -> None:
    from torch._inductor import config, select_algorithm
    from torch._inductor.fx_passes import joint_graph
    from torch._inductor.graph import GraphLowering

    lazy_init = joint_graph.lazy_init
    folder = joint_graph.UniformValueConstantFolder
    deduce = folder._deduce_value

    def deduce_on_cpu(self: Any, node: Any) -> Any:
        with _OnCpu():
            return deduce(self, node)

    _put(stack, joint_graph, "lazy_init", lambda device=None: lazy_init(torch.device("cpu")))
    _put(stack, folder, "_deduce_value", deduce_on_cpu)
    _put(stack, GraphLowering, "constant_name", lambda self, name, device_override: name)
    cache = select_algorithm.AlgorithmSelectorCache
    _put(stack, cache, "make_precompile_fn", lambda self, *_, **__: lambda: None)
    _put(stack, cache, "make_benchmark_fn", classmethod(lambda cls, *_, **__: _in_order_of_making))
    _put(stack, select_algorithm, "PRINT_AUTOTUNE", False)
    _put(stack, select_algorithm, "_log_autotune_choices_stats", lambda *_, **__: None)  # it writes to stderr
    template_fusion = "benchmark_template_fusion"  # 2.15; its older name warns there
    if not hasattr(config, template_fusion):
        template_fusion = "benchmark_epilogue_fusion"
    stack.enter_context(
        config.patch(
            {"compile_threads": 1, "force_disable_caches": True, "benchmark_fusion": False, template_fusion: False}
        )
    )


def _in_order_of_making(choices: Any) -> dict[Any, float]:
    """Stands for autotuning, which a pretended GPU cannot do: Triton templates first, in Inductor's own order."""
    from torch._inductor.select_algorithm import TritonTemplateCaller

    ordered = sorted(choices, key=lambda choice: not isinstance(choice, TritonTemplateCaller))
    return {choice: float(place) for place, choice in enumerate(ordered, 1)}


def triton_version() -> str | None:
    """Version of the triton package; None where it is not installed."""
    try:
        import triton
    except ImportError:
        return None
    return str(triton.__version__)


def driver_version() -> str:
    """Version of the NVIDIA driver in words of NVML, ``580.65``; empty where it is not known.

    Asks the file that the Linux driver keeps in ``/proc``: torch has no public name for it.
    """
    path = Path("/proc/driver/nvidia/version")
    if not path.is_file():
        return ""
    found = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", path.read_text(encoding="utf-8"))
    return found[1] if found else ""
