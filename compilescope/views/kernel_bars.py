"""The kernels of a run as bars: bytes each must move, its floor, and its measured time where there is one."""

from __future__ import annotations

import re

from compilescope.facts import Kernel, Run
from compilescope.text import count, describe_kernel, size
from compilescope.views.card import card, color, escape, table
from compilescope.views.display import Display

_MOST_APART = 20


def kernel_bars(run: Run) -> Display:
    """Bytes read (solid) and written (hatched) by each kernel, on one scale."""
    kernels = run.kernels
    if not kernels:
        reason = "There is no generated code: nothing was compiled, or the backend stops at the graph."
        return card("No kernels", f"<p>{escape(reason)}</p>", reason, run.origin.sentence())
    widest = max((_bytes(kernel) for kernel in kernels), default=1) or 1
    more = [name for name, there in (("floor", _floor), ("time", _time)) if any(there(k) for k in kernels)]
    rows = [_row(i, kernel, widest, more) for i, kernel in enumerate(kernels)]
    total = sum(_bytes(kernel) for kernel in kernels)
    title = f"{count(len(kernels), 'kernel')}, {size(total)} moved"
    if any(kernel.bytes_read is None for kernel in kernels):
        title += " at least (dynamic sizes are not counted)"
    floors = {re.sub(r"^[\d,]+ \w+ at ", "", kernel.floor_source) for kernel in kernels if kernel.floor_source}
    note = f'<p class="mute">Floor: the least time, at {escape("; ".join(sorted(floors)))}.</p>' if floors else ""
    apart = [f"{n.first} and {n.second}: {n.reason}" for c in run.compiles for n in c.not_fused]
    if apart:
        inner = "".join(f"<p>{escape(line)}</p>" for line in apart[:_MOST_APART])
        note += f"<details><summary>{count(len(apart), 'pair')} stayed apart, and why</summary>{inner}</details>"
    text = "\n".join(f"{i}. {describe_kernel(kernel)}{_times(kernel)}" for i, kernel in enumerate(kernels, 1))
    text += "".join(f"\nNot fused: {line}" for line in apart[:_MOST_APART])
    return card(
        title,
        table(["kernel", "computes", "read and written", "", *more], rows, numbers=(3, 4, 5)) + note,
        text,
        run.origin.sentence(),
    )


def _bytes(kernel: Kernel) -> int:
    return ((kernel.bytes_read or 0) + (kernel.bytes_written or 0)) * kernel.launches


def _row(number: int, kernel: Kernel, widest: int, more: list[str]) -> list[str]:
    read, wrote = (kernel.bytes_read or 0) * kernel.launches, (kernel.bytes_written or 0) * kernel.launches
    parts = (
        f'<i style="width:{100 * read / widest:.1f}%"></i><i class="w" style="width:{100 * wrote / widest:.1f}%"></i>'
    )
    said = f"reads {size(read)}, writes {size(wrote)}"
    bar = f'<div class="bar" {color(number)} role="img" aria-label="{said}">{parts}</div>'
    times = f" ×{kernel.launches}" if kernel.launches > 1 else ""
    kind = "library call" if kernel.language == "extern" else f"{len(kernel.nodes)} ops" if kernel.nodes else ""
    moved = "size varies" if kernel.bytes_read is None else f"{size(read)} + {size(wrote)}"
    tried = "".join(f"<div><code>{escape(config)}</code></div>" for config in kernel.configs)
    tried = f"<details><summary>{count(len(kernel.configs), 'candidate')}</summary>{tried}</details>" if tried else ""
    names = f"{', '.join(kernel.nodes[:6])}{' …' if len(kernel.nodes) > 6 else ''}"
    row = [
        f'<span class="dot" {color(number)}>{number + 1}</span> <code>{escape(kernel.name)}</code>{times}',
        f"{kind} <span class=mute>{escape(names)}</span>{tried}",
        bar,
        moved,
    ]
    extra = {"floor": f'<span title="{escape(kernel.floor_source)}">{_floor(kernel)}</span>', "time": _time(kernel)}
    return row + [extra[name] for name in more]


def _floor(kernel: Kernel) -> str:
    return _micro(kernel.floor_us)


def _time(kernel: Kernel) -> str:
    """Measured time, and how many times its floor that is."""
    if kernel.time_us is None or not kernel.floor_us:
        return _micro(kernel.time_us)
    return f"{_micro(kernel.time_us)} (×{kernel.time_us / kernel.floor_us:.2g})"


def _micro(value: float | None) -> str:
    return "" if value is None else f"{value:.3g} µs"


def _times(kernel: Kernel) -> str:
    floor = f" Floor {_floor(kernel)}." if kernel.floor_us is not None else ""
    return floor + (f" Took {_time(kernel)}." if kernel.time_us is not None else "")
