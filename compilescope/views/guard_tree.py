"""What must hold for compiled code to be used again, grouped by argument, in words, with what would break it."""

from __future__ import annotations

from compilescope.facts import Compile, Run
from compilescope.text import count, describe_symbols
from compilescope.views.card import card, escape, place, table
from compilescope.views.display import Display
from compilescope.views.guard_words import Words, plain_name, words

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
    inner += _sizes(compiled, sources)
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


def _sizes(compiled: Compile, sources: dict[str, str]) -> str:
    """The sizes that were left open, with what is known of each, and where one was fixed after all."""
    rows = []
    for symbol in compiled.symbols:
        low, high = symbol.minimum, symbol.maximum
        limits = [f"at least {low}" if low is not None else "", f"at most {high}" if high is not None else ""]
        fixed = "" if symbol.specialized_to is None else f"fixed to {symbol.specialized_to}"
        cells = [escape(plain_name(symbol.subject)), escape(" and ".join(filter(None, limits)) or "any"), escape(fixed)]
        rows.append([f"<code>{escape(symbol.name)}</code>", *cells, place(symbol.specialized_by, sources)])
    if not rows:
        return ""
    return f"<h4>dynamic sizes</h4>{table(['symbol', 'is', 'known', 'lost', 'because of'], rows)}"


def _lines(compiled: Compile) -> list[str]:
    groups = grouped(compiled)
    lines = [f"{compiled.function} entry {compiled.compile_id}: {count(len(compiled.guards), 'guard')}"]
    for root, found in groups.items():
        lines.append(f"  {root}")
        lines += [f"    {w.subject}: {w.holds} (broken by {w.breaks})" for w in found[:_MOST]]
    if compiled.symbols:
        lines.append(describe_symbols(compiled))
    return lines
