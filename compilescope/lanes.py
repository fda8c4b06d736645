"""What the host and the GPU did, and when: spans from torch's profiler."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from compilescope.facts_timing import Span

_HOST = {"LaunchKernel": "launch", "Synchronize": "wait"}
_MARK = "compilescope: observed"
_NO_KERNEL = (_MARK, "Memcpy", "Memset", "Torch-Compiled Region", "##")
_OPERATIONS = {"clamp": "relu", "MulFunctor": "mul", "_add": "add", "AddFunctor": "add", "copy": "copy"}
"""Part of the name of one of PyTorch's C++ kernels to the operation it computes."""


def record_spans(call: Callable[[], object]) -> tuple[Span, ...]:
    """Launches and waits on the host and kernels on the GPU while `call` runs once more, after three times.

    Raises RuntimeError without a GPU: there is nothing to wait for then.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    if not torch.cuda.is_available():
        raise RuntimeError("There is no GPU here: on a CPU every call is over when it returns.")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True) as seen:
        for _ in range(3):  # the profiler's own first times
            call()
            torch.cuda.synchronize()
        with record_function(_MARK):
            call()
            torch.cuda.synchronize()
    return spans_of(seen.events() or ())


def spans_of(events: Iterable[Any]) -> tuple[Span, ...]:
    """The spans among the profiler's events, whose times are in microseconds, from the mark on.

    The first launch after it starts at 0, and everything after the host's first wait is over.
    """
    found = []
    events = list(events)
    mark = next((one.time_range.start for one in events if one.name == _MARK and not _on_gpu(one)), 0.0)
    for event in events:
        if event.time_range.start < mark:
            continue
        start, end = event.time_range.start, event.time_range.end
        if _on_gpu(event):
            annotation = getattr(event, "is_user_annotation", False) or event.name.startswith(_NO_KERNEL)
            if not annotation and end > start:
                found.append(Span("device", _short(event.name), start / 1e6, (end - start) / 1e6))
        elif kind := next((kind for part, kind in _HOST.items() if part in event.name), None):
            found.append(Span("host", kind, start / 1e6, (end - start) / 1e6))
    found.sort(key=lambda span: span.start)
    zero = next((span.start for span in found if span.name == "launch"), 0.0)
    over = next((span.end for span in found if span.name == "wait" and span.start > zero), math.inf)
    return tuple(replace(one, start=one.start - zero) for one in found if zero <= one.start < over)


def _on_gpu(event: Any) -> bool:
    return str(event.device_type).endswith("CUDA")


def _short(kernel: str) -> str:
    """A Triton kernel's name as it is; of a C++ kernel the operation that its name holds, else its first words."""
    if not kernel.startswith("triton"):
        for part, operation in _OPERATIONS.items():
            if part in kernel:
                return operation
    return kernel.split("<")[0].removeprefix("void ")[:60]
