"""Dynamo's printed guard tree, read into `Guard`s."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

from compilescope.facts import Guard, Source, Symbol

_LEAF = re.compile(r"^(?P<bar>[| ]*)\+- (?P<kind>[A-Za-z_]+): (?P<rest>.*)$")
_SOURCE = re.compile(r"source=(.*?), accessed_by")
_WHERE = re.compile(
    r"\s+#(?: (?P<code>.*?)\s*#)? (?P<file>cell \w+|[^\s#]+?):(?P<line>\d+) in (?P<function>\S+)(?: \(.*)?\s*$"
)
_RANGE = re.compile(r"^(?:(?P<low>\d+) <= )?(?P<subject>L\[.*?\]|G\[.*?\])(?: <= (?P<high>\d+))?$")


def read_guards(text: str, files: Iterable[str] = ()) -> tuple[Guard, ...]:
    """The leaves of the tree in the order they are checked; `subject` is the source of the branch they hang on.

    torch prints only the end of a file's name there: `files` are the whole names that it may stand for.
    """
    whole_names = tuple(files)
    guards: list[Guard] = []
    subject_at: dict[int, str] = {}
    for line in text.splitlines():
        match = _LEAF.match(line)
        if not match:
            continue
        depth, rest = match["bar"].count("|"), match["rest"]
        if rest.startswith("source=") or match["kind"].endswith("Manager"):
            found = _SOURCE.search(rest)
            subject_at[depth] = found[1] if found else ""
            continue
        where = _WHERE.search(rest)
        source = (
            Source(_whole(where["file"], whole_names), int(where["line"]), where["function"], where["code"] or "")
            if where
            else None
        )
        expression = (rest[: where.start()] if where else rest).strip()
        guards.append(Guard(match["kind"], expression, subject_at.get(depth - 1, ""), depth, source))
    return tuple(guards)


def line_of(subject: str, guards: Iterable[Guard]) -> Source | None:
    """The line that made torch guard `subject`, ``x`` or ``L['x']``; None if none is known."""
    names = (subject, f"L['{subject}']")
    return next((guard.source for guard in guards if guard.subject in names and guard.source), None)


def with_ranges(symbols: Iterable[Symbol], guards: Iterable[Guard]) -> tuple[Symbol, ...]:
    """The symbols with the ranges that are checked in the end: branches on a size make them narrower."""
    found = {}
    for guard in guards:
        if match := _RANGE.match(guard.expression):
            found[match["subject"]] = match

    def narrowed(one: Symbol) -> Symbol:
        match = found.get(one.subject)
        if match is None:
            return one
        low, high = (
            int(match[side]) if match[side] else known for side, known in (("low", one.minimum), ("high", one.maximum))
        )
        return dataclasses.replace(one, minimum=low, maximum=high)

    return tuple(narrowed(one) for one in symbols)


def _whole(end: str, files: tuple[str, ...]) -> str:
    return next((file for file in files if file.endswith(end)), end)
