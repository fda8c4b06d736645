"""The kernels of a run as bars: bytes each must move, its floor, and its measured time where there is one."""

from __future__ import annotations

from compilescope.facts import Kernel, Run
from compilescope.text import count, describe_kernel, size
from compilescope.views.card import card, color, escape, table
from compilescope.views.display import Display


def kernel_bars(run: Run) -> Display:
    """Bytes read (solid) and written (hatched) by each kernel, on one scale."""
    kernels = run.kernels
    if not kernels:
        reason = "There is no generated code: nothing was compiled, or the backend stops at the graph."
        return card("No kernels", f"<p>{escape(reason)}</p>", reason, run.origin.sentence())
    widest = max((_bytes(kernel) for kernel in kernels), default=1) or 1
    timed = any(kernel.floor_us is not None or kernel.time_us is not None for kernel in kernels)
    heads = ["kernel", "computes", "read and written", "", *(["floor", "time"] if timed else [])]
    rows = [_row(i, kernel, widest, timed) for i, kernel in enumerate(kernels)]
    total = sum(_bytes(kernel) for kernel in kernels)
    title = f"{count(len(kernels), 'kernel')}, {size(total)} moved"
    if any(kernel.bytes_read is None for kernel in kernels):
        title += " at least (dynamic sizes are not counted)"
    floors = {kernel.floor_source for kernel in kernels if kernel.floor_source}
    note = "".join(f'<p class="mute">Floor: {escape(source)}</p>' for source in sorted(floors))
    text = "\n".join(f"{i}. {describe_kernel(kernel)}{_times(kernel)}" for i, kernel in enumerate(kernels, 1))
    return card(title, table(heads, rows, numbers=(3, 4, 5)) + note, text, run.origin.sentence())


def _bytes(kernel: Kernel) -> int:
    return ((kernel.bytes_read or 0) + (kernel.bytes_written or 0)) * kernel.launches


def _row(number: int, kernel: Kernel, widest: int, timed: bool) -> list[str]:
    read, wrote = (kernel.bytes_read or 0) * kernel.launches, (kernel.bytes_written or 0) * kernel.launches
    parts = (
        f'<i style="width:{100 * read / widest:.1f}%"></i><i class="w" style="width:{100 * wrote / widest:.1f}%"></i>'
    )
    said = f"reads {size(read)}, writes {size(wrote)}"
    bar = f'<div class="bar" {color(number)} role="img" aria-label="{said}">{parts}</div>'
    times = f" ×{kernel.launches}" if kernel.launches > 1 else ""
    kind = "library call" if kernel.language == "extern" else f"{len(kernel.nodes)} ops" if kernel.nodes else ""
    moved = "size varies" if kernel.bytes_read is None else f"{size(read)} + {size(wrote)}"
    row = [
        f'<span class="dot" {color(number)}>{number + 1}</span> <code>{escape(kernel.name)}</code>{times}',
        f"{kind} <span class=mute>{escape(', '.join(kernel.nodes[:6]))}{' …' if len(kernel.nodes) > 6 else ''}</span>",
        bar,
        moved,
    ]
    return row + ([_micro(kernel.floor_us), _micro(kernel.time_us)] if timed else [])


def _micro(value: float | None) -> str:
    return "" if value is None else f"{value:.3g} µs"


def _times(kernel: Kernel) -> str:
    floor = f" Floor {_micro(kernel.floor_us)}." if kernel.floor_us is not None else ""
    return floor + (f" Took {_micro(kernel.time_us)}." if kernel.time_us is not None else "")
