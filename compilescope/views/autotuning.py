"""Candidates that torch timed against each other, as bars, the fastest first."""

from __future__ import annotations

from compilescope.facts import Autotuning, Choice, Run
from compilescope.facts_modes import ModeTable
from compilescope.text import count, seconds
from compilescope.views.card import card, color, escape, table
from compilescope.views.display import Display

_SHOWN = 8
_TABLES = 6
_OPEN = 1


def autotuning(facts: Run | ModeTable, workload: str = "", mode: str = "") -> Display:
    """What was timed in a run, or in one trial of a table of modes. KeyError if the table has no such trial."""
    found = facts.trial(workload, mode).autotuning if isinstance(facts, ModeTable) else facts.autotuning
    origin = facts.origin.sentence()
    if not found:
        reason = "Nothing was timed: candidates are timed on a GPU, in the max-autotune modes or where options ask."
        return card("No candidates", f"<p>{escape(reason)}</p>", reason, origin)
    shown = found[:_TABLES]
    body = "".join(_one(one, i < _OPEN) for i, one in enumerate(shown))
    if len(found) > len(shown):
        body += f'<p class="mute">{count(len(found) - len(shown), "smaller table")} not shown.</p>'
    tried = sum(len(one.choices) for one in found)
    kinds = [(noun, sum(one.kind == kind for one in found)) for kind, noun in _KINDS.items()]
    title = f"{count(tried, 'candidate')} timed, for {' and '.join(count(n, noun) for noun, n in kinds if n)}"
    return card(title, body, "\n".join(line for one in shown for line in _lines(one)), origin)


_KINDS = {"algorithm": "operation", "configuration": "kernel"}


def _one(one: Autotuning, opened: bool) -> str:
    slowest = max((choice.time_us or 0 for choice in one.choices), default=0) or 1
    rows = [_row(choice, one, slowest) for choice in _shown(one)]
    hidden = len(one.choices) - len(rows)
    more = f'<p class="mute">{count(hidden, "slower candidate")} not shown.</p>' if hidden else ""
    inner = table(["candidate", "time", "", "", "blocks"], rows, numbers=(2,)) + more
    return f"<details{' open' * opened}><summary>{escape(_headline(one))}</summary>{inner}</details>"


def _shown(one: Autotuning) -> tuple[Choice, ...]:
    """The fastest ones, and the fastest library call wherever it stands."""
    first = one.choices[:_SHOWN]
    if one.kind == "configuration" or any(is_library(choice) for choice in first):
        return first
    return first + tuple(choice for choice in one.choices[_SHOWN:] if is_library(choice))[:1]


def is_library(choice: Choice) -> bool:
    """Whether an algorithm is a call into a library (cuBLAS) and no template that Triton fills."""
    return not choice.name.startswith(("triton", "cutlass", "decompose", "contiguous", "subgraph"))


def _row(choice: Choice, one: Autotuning, slowest: float) -> list[str]:
    taken = choice.name == one.chosen
    library = one.kind == "algorithm" and is_library(choice)
    tag = '<span class="tag" style="--c:var(--c2)">✓ taken</span>' if taken else ""
    tag += ' <span class="mute">library</span>' if library else ""
    if choice.time_us is None:
        return [_name(choice), "", "failed", tag, _blocks(choice)]
    share = 100 * choice.time_us / slowest
    kind = ' class="w"' if library else ""
    bar = f'<div class="bar" {color(2 if taken else 0)}><i{kind} style="width:{share:.1f}%"></i></div>'
    return [_name(choice), bar, f"{choice.time_us:.3g} µs", tag, _blocks(choice)]


def _name(choice: Choice) -> str:
    return f'<code style="white-space:nowrap!important">{escape(choice.name)}</code>'


def _blocks(choice: Choice) -> str:
    """What tells one candidate from the next: block sizes, warps, stages."""
    telling = [part for part in choice.details.split(", ") if part.startswith(("BLOCK_", "num_", "SPLIT"))]
    return f'<span class="mute">{escape(", ".join(telling))}</span>'


def _headline(one: Autotuning) -> str:
    timed = [choice.time_us for choice in one.choices if choice.time_us is not None]
    if not timed:
        return f"{one.subject}: {count(len(one.choices), 'candidate')}, none could be timed"
    spread = f"{seconds(min(timed) / 1e6)} to {seconds(max(timed) / 1e6)}"
    return f"{one.subject}: {count(len(one.choices), 'candidate')}, {spread}"


def _lines(one: Autotuning) -> list[str]:
    lines = [_headline(one)]
    for choice in _shown(one):
        time = "failed" if choice.time_us is None else f"{choice.time_us:.3g} µs"
        lines.append(f"  {choice.name}: {time}{' (taken)' if choice.name == one.chosen else ''}")
    return lines
