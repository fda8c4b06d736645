"""Notebook cells: a readable name instead of the temporary file name that the kernel gives them."""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Callable
from typing import Any

_CELL_FILE = re.compile(r"[^\s\"',:]*[/\\]ipykernel_\d+[/\\]\d+\.py|<ipython-input-\d+-\w+>")
_SHORTENED = re.compile(r"(# )(\S*\d+\.py)(?=:\d+ in )")


_known: dict[str, int] = {}


def know_numbers(numbers: dict[str, int]) -> None:
    """In a process that a notebook started: the notebook's `cell_numbers`."""
    _known.update(numbers)


def cell_numbers() -> dict[str, int]:
    """File name to execution count of the cells run so far in this notebook; empty outside IPython."""
    if _known:
        return dict(_known)
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    names = getattr(getattr(shell, "compile", None), "_filename_map", None)
    return dict(names) if isinstance(names, dict) else {}


class CellNames:
    """Gives each cell file that occurs in a text a name such as ``cell 3``, and remembers the cell's text."""

    def __init__(self, numbers: dict[str, int], text_of: Callable[[str], str] | None = None) -> None:
        self.numbers = numbers
        self.text_of = text_of or (lambda file: "".join(linecache.getlines(file)))
        self.names: dict[str, str] = {}

    def file(self, file: str) -> str:
        """The name to show for this file: itself, unless it is a cell."""
        if not _CELL_FILE.fullmatch(file):
            return file
        # guard comments carry only the end of a path
        file = next((whole for whole in (*self.numbers, *self.names) if whole.endswith(file)), file)
        if file not in self.names:
            number = self.numbers.get(file)
            self.names[file] = f"cell {number}" if number else f"cell {chr(ord('A') + len(self.names) % 26)}"
        return self.names[file]

    def text(self, text: str) -> str:
        """`text` with the name of each cell in place of its file."""
        if "ipykernel_" not in text and "<ipython-input" not in text and not self.names:
            return text
        text = _CELL_FILE.sub(lambda match: self.file(match[0]), text)
        return _SHORTENED.sub(self._full, text) if self.names else text

    def _full(self, match: re.Match[str]) -> str:
        # guard comments carry only the end of a path
        file = next((file for file in self.names if file.endswith(match[2])), None)
        return match[1] + (self.names[file] if file else match[2])

    def record(self, meta: dict[str, Any]) -> dict[str, Any]:
        """A trace record's metadata with shown names in place of cell files."""
        if "str" in meta:
            text, number = meta["str"]
            return {**meta, "str": (self.file(text), number)}
        for key in ("compilation_metrics", "bwd_compilation_metrics"):
            value = meta.get(key)
            if isinstance(value, dict):
                shown = {name: self.text(one) if isinstance(one, str) else one for name, one in value.items()}
                return {**meta, key: shown}
        return meta

    def line(self, file: str, number: int) -> str:
        """One line of a file or cell, without its indent; empty if there is none."""
        lines = self.sources({file}).get(file, "").splitlines()
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""

    def sources(self, files: set[str]) -> dict[str, str]:
        """Shown file name to text, for each of these names that has one."""
        behind = {shown: file for file, shown in self.names.items()}
        texts = {file: self.text_of(behind.get(file, file)) for file in sorted(files)}
        return {file: text for file, text in texts.items() if text}
