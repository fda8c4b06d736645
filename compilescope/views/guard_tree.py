"""What must hold for compiled code to be used again, grouped by argument, in words, with what would break it."""

from __future__ import annotations

from compilescope.facts import Compile, Run
from compilescope.text import count
from compilescope.views.card import card, escape, place, table
from compilescope.views.display import Display
from compilescope.views.guard_words import Words, words

_MOST = 12
"""Guards of one argument that stand open; the rest unfolds."""


def guard_tree(run: Run) -> Display:
    """The guards of each cache entry: what it assumes of each argument, and which change makes it compile again."""
    guarded = [compiled for compiled in run.compiles if compiled.guards]
    if not guarded:
        reason = run.missing.get("guards", "Nothing was compiled, so nothing is guarded.")
        return card("No guards", f"<p>{escape(reason)}</p>", reason, run.origin.sentence())
    parts = [_entry(compiled, run.sources, first=not i) for i, compiled in enumerate(guarded)]
    entries = "cache entry" if len(guarded) == 1 else "cache entries"
    title = f"{count(sum(len(c.guards) for c in guarded), 'guard')} on {len(guarded)} {entries}"
    text = "\n".join(line for compiled in guarded for line in _lines(compiled))
    return card(title, "".join(parts), text, run.origin.sentence())


def grouped(compiled: Compile) -> dict[str, list[Words]]:
    """The learner's guards of one entry by what they look into, arguments first."""
    found: dict[str, list[Words]] = {}
    for guard in compiled.guards:
        if said := words(guard):
            found.setdefault(said.root, []).append(said)
    return dict(sorted(found.items(), key=lambda item: (item[0].startswith("global "), item[0] == "self")))


def _entry(compiled: Compile, sources: dict[str, str], *, first: bool) -> str:
    groups = grouped(compiled)
    own = len(compiled.guards) - sum(map(len, groups.values()))
    inner = "".join(_group(root, found, sources) for root, found in groups.items())
    said = f"and {count(own, 'guard')} of Dynamo's own: global state, modules and functions it went through."
    rest = f'<p class="mute">{escape(said)}</p>' if own else ""
    name = f"<b>{escape(compiled.function or 'frame')}</b> <span class=mute>entry {escape(compiled.compile_id)}</span>"
    return f"<details{' open' if first else ''}><summary>{name}</summary>{inner}{rest}</details>"


def _group(root: str, found: list[Words], sources: dict[str, str]) -> str:
    rows = [
        [f"<code>{escape(w.subject)}</code>", escape(w.holds), escape(w.breaks), place(w.guard.source, sources)]
        for w in found
    ]
    heads = ["value", "must hold", "what change breaks it", "because of"]
    shown = table(heads, rows[:_MOST])
    if len(rows) > _MOST:
        shown += f"<details><summary>{len(rows) - _MOST} more</summary>{table(heads, rows[_MOST:])}</details>"
    return f"<h4>{escape(root)}</h4>{shown}"


def _lines(compiled: Compile) -> list[str]:
    groups = grouped(compiled)
    lines = [f"{compiled.function} entry {compiled.compile_id}: {count(len(compiled.guards), 'guard')}"]
    for root, found in groups.items():
        lines.append(f"  {root}")
        lines += [f"    {w.subject}: {w.holds} (broken by {w.breaks})" for w in found[:_MOST]]
    return lines
