"""A GPU that is not there: what torch and Triton read of it, and the device guard that fake tensors on it need."""

from __future__ import annotations

import contextlib
import ctypes
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

# What Inductor's heuristics read of a device, as `torch.cuda.get_device_properties` gives it on the real one.
_COMMON = {
    "regs_per_multiprocessor": 65536, "max_threads_per_block": 1024, "warp_size": 32, "shared_memory_per_block": 49152,
    "clock_rate": 1_980_000, "memory_clock_rate": 2_619_000, "memory_bus_width": 5120, "is_integrated": False,
}  # fmt: skip
_DEVICES: dict[str, dict[str, Any]] = {
    "t4": {
        "name": "Tesla T4", "multi_processor_count": 40, "major": 7, "minor": 5, "total_memory": 15 << 30,
        "L2_cache_size": 4 << 20, "max_threads_per_multi_processor": 1024, "shared_memory_per_block_optin": 65536,
        "shared_memory_per_multiprocessor": 65536,
    },
    "a100": {
        "name": "NVIDIA A100-SXM4-80GB", "multi_processor_count": 108, "major": 8, "minor": 0, "total_memory": 80 << 30,
        "L2_cache_size": 40 << 20, "max_threads_per_multi_processor": 2048, "shared_memory_per_block_optin": 166912,
        "shared_memory_per_multiprocessor": 167936,
    },
    "h100": {
        "name": "NVIDIA H100 80GB HBM3", "multi_processor_count": 132, "major": 9, "minor": 0, "total_memory": 80 << 30,
        "L2_cache_size": 50 << 20, "max_threads_per_multi_processor": 2048, "shared_memory_per_block_optin": 232448,
        "shared_memory_per_multiprocessor": 233472,
    },
}  # fmt: skip


def properties(gpu: str) -> types.SimpleNamespace:
    """Device properties of ``t4``, ``a100`` or ``h100`` with the attributes of `torch.cuda.get_device_properties`."""
    facts = _DEVICES[gpu]
    return types.SimpleNamespace(**_COMMON, **facts, gcnArchName=f"sm_{facts['major']}{facts['minor']}")


def capability(gpu: str) -> int:
    """75, 80 or 90."""
    return int(_DEVICES[gpu]["major"]) * 10 + int(_DEVICES[gpu]["minor"])


_CUDA, _META = 1, 14  # c10::DeviceType, part of torch's ABI
_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
_guard_lock = threading.Lock()


@contextlib.contextmanager
def cuda_device_guard() -> Iterator[str]:
    """Give fake CUDA tensors a device guard that does nothing; yields ``""``, or a sentence if that is impossible.

    Leans on ``torch._C._ensureCUDADeviceGuardSet`` (a CUDA build without a GPU) and on the exported symbol
    ``c10::impl::device_guard_impl_registry`` (2.11 to 2.15): a CPU build has an empty slot for CUDA there, and a fake
    CUDA tensor that meets autograd or a random op would abort the process. The slot borrows the guard of the
    ``meta`` device, which does nothing, and is empty again afterwards.
    """
    if torch.version.cuda is not None:
        torch._C._ensureCUDADeviceGuardSet()
    library = next((Path(torch.__file__).parent / "lib").glob("*c10.*"), None)
    try:
        slots = (ctypes.c_void_p * (_META + 1)).in_dll(ctypes.CDLL(str(library)), _REGISTRY)
    except (OSError, ValueError) as error:
        yield f"This torch build has no place for the guard of a pretended GPU ({error}): random ops are left out."
        return
    with _guard_lock:
        borrowed = not slots[_CUDA]
        if borrowed:
            slots[_CUDA] = slots[_META]
        try:
            yield ""
        finally:
            if borrowed:
                slots[_CUDA] = None


class NoDevice:
    """Context manager that stands for ``torch.cuda.device(0)``."""

    def __init__(self, index: Any = 0) -> None:
        self.idx = index

    def __enter__(self) -> NoDevice:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def device_interface(gpu: str) -> type:
    """What Dynamo and Inductor ask about the device. Leans on ``torch._dynamo.device_interface.CudaInterface``."""
    from torch._dynamo.device_interface import CudaInterface

    found = properties(gpu)
    answers: dict[str, Any] = {
        "set_device": lambda _: None,
        "current_device": lambda: 0,
        "get_device_properties": lambda device=None: found,
    }
    worker = type("Worker", (), {name: staticmethod(answer) for name, answer in answers.items()})
    answers |= {
        "device_count": lambda: 1,
        "synchronize": lambda device=None: None,
        "get_raw_stream": lambda _: 0,
        "exchange_device": lambda _: 0,
        "maybe_exchange_device": lambda _: 0,
        "is_available": lambda: True,
        "is_bf16_supported": lambda including_emulation=False: found.major >= 8,
        "get_compute_capability": lambda device=None: found.major * 10 + found.minor,
        "is_triton_capable": lambda device=None: True,
        "raise_if_triton_unavailable": lambda device=None: None,
    }
    members = {name: staticmethod(answer) for name, answer in answers.items()}
    return type("PretendedCuda", (CudaInterface,), {**members, "device": NoDevice, "Worker": worker})


def triton_driver(arch: int) -> Any:
    """A Triton driver for sm_`arch` that compiles and launches nothing; leans on ``triton.backends`` (3.6 to 3.9)."""
    from triton.backends.compiler import GPUTarget
    from triton.backends.driver import DriverBase

    class NoDriver(DriverBase):  # type: ignore[misc]
        is_active = classmethod(lambda cls: True)

        def map_python_to_cpp_type(self, ty: str) -> str:
            return ty

        def get_current_target(self) -> Any:
            return GPUTarget("cuda", arch, 32)

        def get_active_torch_device(self) -> torch.device:
            return torch.device("cpu")

        def get_benchmarker(self) -> Any:
            raise RuntimeError("a pretended GPU measures nothing")

        def get_current_device(self) -> int:
            return 0

        def get_current_stream(self, idx: int = 0) -> int:
            return 0

        def set_current_device(self, device: int) -> None:
            return None

    return NoDriver()
