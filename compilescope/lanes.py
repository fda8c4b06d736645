"""What the host and the GPU did, and when: spans from torch's profiler."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from compilescope.facts_timing import Span

_HOST = {"LaunchKernel": "launch", "Synchronize": "wait"}
_NO_KERNEL = ("Memcpy", "Memset", "Torch-Compiled Region", "##")
_OPERATIONS = {"clamp": "relu", "MulFunctor": "mul", "_add": "add", "AddFunctor": "add", "copy": "copy"}
"""Part of the name of one of PyTorch's C++ kernels to the operation it computes."""


def record_spans(call: Callable[[], object]) -> tuple[Span, ...]:
    """Launches and waits on the host and kernels on the GPU while `call` runs, from the first one on.

    Raises RuntimeError without a GPU: there is nothing to wait for then.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    if not torch.cuda.is_available():
        raise RuntimeError("There is no GPU here: on a CPU every call is over when it returns.")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        call()
        torch.cuda.synchronize()
    return spans_of(seen.events() or ())


def spans_of(events: Iterable[Any]) -> tuple[Span, ...]:
    """The spans among the profiler's events, whose times are in microseconds; the first launch starts at 0."""
    found = []
    for event in events:
        start, end = event.time_range.start, event.time_range.end
        if str(event.device_type).endswith("CUDA"):
            annotation = getattr(event, "is_user_annotation", False) or event.name.startswith(_NO_KERNEL)
            if not annotation and end > start:
                found.append(Span("device", _short(event.name), start / 1e6, (end - start) / 1e6))
        elif kind := next((kind for part, kind in _HOST.items() if part in event.name), None):
            found.append(Span("host", kind, start / 1e6, (end - start) / 1e6))
    found.sort(key=lambda span: span.start)
    zero = next((span.start for span in found if span.name == "launch"), 0.0)
    return tuple(Span(one.lane, one.name, one.start - zero, one.seconds) for one in found if one.start >= zero)


def _short(kernel: str) -> str:
    """A Triton kernel's name as it is; of a C++ kernel the operation that its name holds, else its first words."""
    if not kernel.startswith("triton"):
        for part, operation in _OPERATIONS.items():
            if part in kernel:
                return operation
    return kernel.split("<")[0].removeprefix("void ")[:60]
