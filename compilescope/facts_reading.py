"""Facts of a torch that this version does not know: what can be read is read, and the rest is named. No torch."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import cattrs
from cattrs.errors import AttributeValidationNote, IterableValidationNote

OLDEST, NEWEST = (2, 11), (2, 15)
"""The torch versions whose facts are known."""
_MOST_NAMED = 5
T = TypeVar("T")


def strange(torch: object) -> str:
    """A sentence for a reader if `torch` is no version that is known; empty if it is, or if nothing is said."""
    number = re.match(r"(\d+)\.(\d+)", str(torch))
    if not str(torch) or (number and OLDEST <= (int(number[1]), int(number[2])) <= NEWEST):
        return ""
    known = " to ".join(".".join(map(str, one)) for one in (OLDEST, NEWEST))
    return (
        f"These facts come from torch {torch}; compilescope knows {known}: some may be missing or mean something else."
    )


def read_what_fits(converter: cattrs.Converter, stored: Any, kind: type[T]) -> tuple[T, str]:
    """`stored` as a `kind` without what does not fit, and a sentence that names what was left out, or ``""``.

    A field that does not fit is left at its default; where it has none, the item of a list that it belongs to is left
    out. `stored` is changed. Raises BaseValidationError where that does not help.
    """
    lost: list[str] = []
    while True:
        try:
            found = converter.structure(stored, kind)
        except cattrs.BaseValidationError as error:
            cut = [_cut(stored, path) for path in sorted(_paths(error), key=_order, reverse=True)]
            if not any(cut):
                raise
            lost += [name for name in reversed(cut) if name and not any(one.startswith(f"{name}.") for one in lost)]
            continue
        more = f" and {len(lost) - _MOST_NAMED} more" if len(lost) > _MOST_NAMED else ""
        return found, f"Left out, because they do not fit: {', '.join(lost[:_MOST_NAMED])}{more}." if lost else ""


Path = tuple[str | int, ...]


def _order(path: Path) -> tuple[tuple[bool, str | int], ...]:
    """Sorts items of a list by number, so that the last can go first."""
    return tuple((isinstance(step, str), step) for step in path)


def _paths(error: BaseException, above: Path = ()) -> list[Path]:
    """Where `error` and those inside it happened: ``("compiles", 0, "graphs", 1, "stage")``."""
    path = above
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, IterableValidationNote):
            path = (*path, note.index)
        elif isinstance(note, AttributeValidationNote):
            path = (*path, note.name)
    inside = getattr(error, "exceptions", ())
    return [found for one in inside for found in _paths(one, path)] if inside else [path]


def _cut(stored: Any, path: Path) -> str:
    """Remove what lies at `path`, or the item of the nearest list around it; its name, or ``""`` if nothing can go."""
    holders: list[Any] = [stored]
    for step in path[:-1]:
        try:
            holders.append(holders[-1][step])
        except (KeyError, IndexError, TypeError):
            break
    for depth in reversed(range(len(holders))):
        holder, step = holders[depth], path[depth]
        in_list = isinstance(holder, list) and isinstance(step, int) and step < len(holder)
        if in_list or (isinstance(holder, dict) and depth == len(path) - 1 and step in holder):
            value = holder.pop(step)
            name = ".".join(map(str, path[: depth + 1]))
            return f"{name} ({value!r})" if isinstance(value, str) and len(value) < 40 else name
    return ""
