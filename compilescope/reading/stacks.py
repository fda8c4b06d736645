"""Stack lines as torch prints them, read into `Source`."""

from __future__ import annotations

import re

from compilescope.facts import Source

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)\n[ \t]*(\S.*)?')
_NOT_THE_LEARNERS = re.compile(
    r"[/\\](?:site-packages|dist-packages|torch|compilescope|lib[/\\]python3[\d.]*)[/\\]|^<(?!ipython)"
)
_CELL = re.compile(r"[/\\]ipykernel_\d+[/\\]|^<ipython-input|^cell \d+")


def belongs_to_learner(file: str) -> bool:
    """True for a file or notebook cell of the learner; False for a library, torch or the standard library."""
    if _CELL.search(file):
        return True
    return bool(file) and not _NOT_THE_LEARNERS.search(file)


def read_stack(text: str) -> tuple[Source, ...]:
    """Frames of a printed Python stack, outermost first."""
    return tuple(
        Source(file, int(line), function, (code or "").strip()) for file, line, function, code in _FRAME.findall(text)
    )


def learners_line(stack: tuple[Source, ...]) -> Source | None:
    """The innermost frame that belongs to the learner; without one, the innermost frame."""
    for source in reversed(stack):
        if belongs_to_learner(source.file):
            return source
    return stack[-1] if stack else None
