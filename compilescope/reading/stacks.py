"""Stack lines as torch prints them, read into `Source`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from compilescope.facts import Source

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)\n[ \t]*(\S.*)?')
_LIBRARY = re.compile(
    r"[/\\](?:site-packages|dist-packages|lib[/\\]python3[\d.]*)[/\\]|^<(?:frozen|string|eval_with_key)"
)
_MACHINERY = re.compile(r"[/\\]torch[/\\](?:_dynamo[/\\]|nn[/\\]modules[/\\]module\.py$)")
_OURS = str(Path(__file__).parent.parent)
RESUME = re.compile(r"torch_dynamo_resume_in_(?P<base>.+)_at_(?P<line>\d+)$")
"""What torch calls the function in which it goes on after a break."""


def written_name(function: str) -> str:
    """``price`` for ``torch_dynamo_resume_in_price_at_12``, which nobody wrote; any other name as it is."""
    match = RESUME.match(function)
    return match["base"] if match else function


def belongs_to_learner(file: str) -> bool:
    """True for a file or notebook cell of the learner; False for a library, torch or the standard library."""
    return bool(file) and not file.startswith(_OURS) and not _LIBRARY.search(file)


def read_stack(text: str) -> tuple[Source, ...]:
    """Frames of a printed Python stack, outermost first."""
    return tuple(
        Source(file, int(line), written_name(function), (code or "").strip())
        for file, line, function, code in _FRAME.findall(text)
    )


def read_frames(frames: list[dict[str, Any]], strings: dict[int, str]) -> tuple[Source, ...]:
    """Frames of a stack in a record, outermost first; `strings` are the trace's interned file names."""
    return tuple(
        Source(
            strings.get(frame.get("filename", -1), ""),
            int(frame.get("line") or 0),
            written_name(str(frame.get("name", ""))),
            str(frame.get("loc") or ""),
        )
        for frame in frames
    )


def without_machinery(stack: tuple[Source, ...]) -> tuple[Source, ...]:
    """The stack without the frames of Dynamo, of the calling of modules, and of this package."""
    return tuple(source for source in stack if not source.file.startswith(_OURS) and not _MACHINERY.search(source.file))


def learners_line(stack: tuple[Source, ...]) -> Source | None:
    """The innermost frame that belongs to the learner; without one, the innermost frame."""
    for source in reversed(stack):
        if belongs_to_learner(source.file):
            return source
    return stack[-1] if stack else None
