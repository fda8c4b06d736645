"""Two cache entries of one function: what each assumes that the other does not, so why one was not enough."""

from __future__ import annotations

from compilescope.facts import Compile
from compilescope.views.card import card, escape, table
from compilescope.views.display import Display
from compilescope.views.guard_words import words

_NOTHING = "not guarded"


def compare_entries(first: Compile, second: Compile) -> Display:
    """The guards in which two entries differ, one value a row; a recompile is explained by the rows that differ."""
    mine, theirs = _assumed(first), _assumed(second)
    subjects = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
    said = [(name, mine.get(name, _NOTHING), theirs.get(name, _NOTHING)) for name in subjects]
    heads = ["value", f"entry {first.compile_id}", f"entry {second.compile_id}"]
    rows = [[f"<code>{escape(name)}</code>", escape(a), escape(b)] for name, a, b in said]
    body = table(heads, rows) if rows else "<p>Both assume the same of your values.</p>"
    lines = [f"{name}: {a} in {first.compile_id}, {b} in {second.compile_id}" for name, a, b in said]
    same = sum(mine.get(name) == assumed for name, assumed in theirs.items())
    title = f"{first.function}: entries {first.compile_id} and {second.compile_id} differ in {len(said)} guards"
    return card(title, body, "\n".join(lines) or "The same guards.", f"{same} more are the same in both")


def _assumed(compiled: Compile) -> dict[str, str]:
    """Value to what is assumed of it; several guards on one value are joined."""
    found: dict[str, list[str]] = {}
    for guard in compiled.guards:
        if said := words(guard):
            found.setdefault(said.subject, []).append(said.holds)
    return {subject: ", ".join(holds) for subject, holds in found.items()}
