"""Two runs beside each other, before and after a change: graphs, breaks, recompiles, kernels, bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compilescope.facts import Run
from compilescope.text import describe_break, describe_kernel, seconds, size
from compilescope.views.card import card, escape, table
from compilescope.views.display import Display


@dataclass(frozen=True)
class _Measure:
    name: str
    value: Callable[[Run], float | None]
    show: Callable[[float], str] = lambda value: f"{value:.0f}"
    fewer_is_better: bool = True


def _bytes(run: Run) -> float | None:
    moved = [(k.bytes_read, k.bytes_written, k.launches) for k in run.kernels]
    if not moved or any(read is None or wrote is None for read, wrote, _ in moved):
        return None
    return float(sum(((read or 0) + (wrote or 0)) * times for read, wrote, times in moved))


def _saved(run: Run) -> float | None:
    sizes = [one.size_bytes for c in run.compiles for one in c.saved if not one.is_input and one.size_bytes is not None]
    return float(sum(sizes)) if sizes else None


def _compiling(run: Run) -> float | None:
    spent = [phase.seconds for phase in run.phases if phase.depth == 0]
    return sum(spent) if spent else None


def _launches(run: Run) -> float | None:
    return float(sum(kernel.launches for kernel in run.kernels)) if run.code else None


def _largest(run: Run) -> float | None:
    return float(max((len(kernel.nodes) for kernel in run.kernels), default=0)) if run.code else None


MEASURES = (
    _Measure("graphs", lambda run: float(len(run.graphs))),
    _Measure("graph breaks", lambda run: float(sum(not stop.in_callee for stop in run.breaks))),
    _Measure("recompiles", lambda run: float(len(run.recompiles))),
    _Measure("functions that ran as plain Python", lambda run: float(len(run.not_compiled))),
    _Measure("kernels and library calls", _launches),
    _Measure("ops in the largest kernel", _largest, fewer_is_better=False),
    _Measure("bytes moved by kernels", _bytes, lambda value: size(int(value))),
    _Measure("bytes kept for backward", _saved, lambda value: size(int(value))),
    _Measure("seconds of compiling", _compiling, seconds),
)
_NEVER_JUDGED = ("graphs", "seconds of compiling")
"""One graph instead of none is no loss, and a cache makes seconds say nothing."""


def compare(before: Run, after: Run, names: tuple[str, str] = ("before", "after")) -> Display:
    """What a change did to a compile. `names` head the two columns."""
    for run in (before, after):
        if not isinstance(run, Run):
            raise TypeError(f"compare wants two runs that observe gave, but got {type(run).__name__}.")
    rows, lines = [], []
    for measure in MEASURES:
        a, b = measure.value(before), measure.value(after)
        if a is None and b is None:
            continue
        shown = [("not known" if value is None else measure.show(value)) for value in (a, b)]
        kind, said = _verdict(measure, a, b)
        rows.append([escape(measure.name), escape(shown[0]), escape(shown[1]), f'<span class="{kind}">{said}</span>'])
        lines.append(f"{measure.name}: {shown[0]} → {shown[1]}" + (f" ({said})" if said else ""))
    body = table(["", *map(escape, names), ""], rows, numbers=(1, 2))
    for name, run in zip(names, (before, after), strict=True):
        body += f"<details><summary>{escape(name)}: what it was</summary>{_inside(run)}</details>"
    return card(_title(before, after), body, "\n".join(lines), after.origin.sentence())


def _title(before: Run, after: Run) -> str:
    better = [m for m in MEASURES if _verdict(m, m.value(before), m.value(after))[0] == "good"]
    worse = [m for m in MEASURES if _verdict(m, m.value(before), m.value(after))[0] == "bad"]
    if not better and not worse:
        return "The same compile twice"
    parts = [f"better in {', '.join(m.name for m in better)}"] if better else []
    parts += [f"worse in {', '.join(m.name for m in worse)}"] if worse else []
    return "; ".join(parts).capitalize()


def _verdict(measure: _Measure, a: float | None, b: float | None) -> tuple[str, str]:
    """(style class, words) for one row."""
    if a is None or b is None or a == b:
        return "mute", "" if a != b else "same"
    change = f"{'▼' if b < a else '▲'} {measure.show(abs(b - a))}"
    if a and measure.show is not seconds:
        change += f" ({(b - a) / a:+.0%})" if b < 3 * a else f" (×{b / a:.3g})"
    if measure.name in _NEVER_JUDGED:
        return "mute", change
    good = (b < a) == measure.fewer_is_better
    return ("good", f"{change}, better") if good else ("bad", f"{change}, worse")


def _inside(run: Run) -> str:
    lines = [describe_break(stop) for stop in run.breaks if not stop.in_callee]
    lines += [describe_kernel(kernel) for kernel in run.kernels]
    return "".join(f"<p><code>{escape(line)}</code></p>" for line in lines) or '<p class="mute">no break, no kernel</p>'
