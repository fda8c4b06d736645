"""Settings of torch that hold for a whole process: noted, and put back."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from typing import Any

import torch

CONFIGS = ("torch._dynamo.config", "torch._inductor.config", "torch._functorch.config", "torch.compiler.config")


def settings_as_they_are() -> Callable[[], None]:
    """Notes them; call what you get to put them back.

    They are the compilers' settings, gradients, default dtype and device, precision of matmul, threads.
    Leans on ``get_config_copy`` of ``torch._dynamo.config``, ``torch._inductor.config``, ``torch._functorch.config``
    and ``torch.compiler.config`` (2.11 to 2.15).
    """
    kept = {name: _values(name) for name in CONFIGS}
    dtype, device, threads = torch.get_default_dtype(), torch.get_default_device(), torch.get_num_threads()
    gradients, precision = torch.is_grad_enabled(), torch.get_float32_matmul_precision()
    deterministic = torch.are_deterministic_algorithms_enabled()

    def put_back() -> None:
        for name, values in kept.items():
            config, now = importlib.import_module(name), _values(name)
            for key in (key for key, value in values.items() if now.get(key) != value):
                with contextlib.suppress(AttributeError):  # one that can only be read
                    setattr(config, key, values[key])
        torch.set_default_dtype(dtype)
        if torch.get_default_device() != device:
            torch.set_default_device(None if device.type == "cpu" else device)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        torch.set_grad_enabled(gradients)
        torch.set_float32_matmul_precision(precision)
        torch.use_deterministic_algorithms(deterministic)

    return put_back


def _values(config: str) -> dict[str, Any]:
    found: dict[str, Any] = importlib.import_module(config).get_config_copy()
    return found
