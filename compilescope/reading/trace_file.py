"""Files that ``TORCH_TRACE`` writes, read record by record; a cut-off or damaged file gives what is left of it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_HEAD = re.compile(r"^(?:\[rank\d+\]:)?[VIWEC]\d{4} [\d:.]+ \d+ [^\]]*\] (\{.*\})\s*$")
_HEAD_BEGINS = re.compile(r"^(?:\[rank\d+\]:)?[VIWEC]\d{4} \d\d:")
_RANK = re.compile(r"_rank_(\d+)_")


@dataclass
class TraceFile:
    """One file of a trace folder: iterate over `records` once, then read what was wrong with it."""

    path: Path
    damaged: int = 0
    """Records that were left out: their head is no JSON, or their text is not the one torch wrote."""
    cut_off: bool = False
    """The last record is incomplete."""
    stray: int = 0
    """Lines that belong to no record."""
    read: int = 0
    """Records that were whole."""
    _open: list[str] = field(default_factory=list)

    @property
    def rank(self) -> int | None:
        """The rank that torch put into the file's name; None for a single process."""
        match = _RANK.search(self.path.name)
        return int(match[1]) if match else None

    def records(self) -> Iterator[tuple[dict[str, Any], str | None]]:
        """Each whole record in the order written: its dictionary, and its text or None."""
        head: str | None = None
        lines: list[str] = []
        # torch ends lines with \n only; a text may hold other line ends
        with self.path.open(encoding="utf-8", errors="replace", newline="\n") as stream:
            for line in stream:
                if line.startswith("\t"):
                    lines.append(line[1:].removesuffix("\n"))
                elif _HEAD_BEGINS.match(line):
                    yield from self._record(head, lines, last=False)
                    head, lines = line, []
                else:
                    self.stray += 1
        yield from self._record(head, lines, last=True)

    def _record(self, head: str | None, lines: list[str], *, last: bool) -> Iterator[tuple[dict[str, Any], str | None]]:
        if head is None:
            self.stray += len(lines)
            return
        found = _read_record(head, lines)
        if found is not None:
            self.read += 1
            yield found
        elif last:
            self.cut_off = True
        else:
            self.damaged += 1

    def troubles(self) -> tuple[str, ...]:
        """A sentence for each thing that was wrong; empty for a sound file."""
        name = self.path.name
        if not self.read:
            return (f"{name} holds no record of a TORCH_TRACE: nothing was read from it.",)
        found = []
        if self.cut_off:
            found.append(f"{name} is cut off in the middle of a record: these are the facts up to there.")
        if self.damaged:
            found.append(f"{name} is damaged: {self.damaged} of its records could not be read and are left out.")
        if self.stray:
            found.append(f"{name} holds {self.stray} lines that belong to no record: they are left out.")
        return tuple(found)


def _read_record(head: str, lines: list[str]) -> tuple[dict[str, Any], str | None] | None:
    match = _HEAD.match(head)
    if not match:
        return None
    try:
        meta = json.loads(match[1])
    except ValueError:
        return None
    if "has_payload" not in meta:
        return meta, None
    text = "\n".join(lines)
    # torch signs each text with its MD5, so that a text that lost lines is not taken for a whole one
    signature = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    return (meta, text) if signature == meta["has_payload"] else None
