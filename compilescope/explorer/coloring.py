"""Code with colors: Pygments' tokens as single marks inside the text, which the page turns into spans.

A page holds each text once. ``<span class=k>`` around each token would triple it; one private-use character opens a
color and one closes it.
"""

from __future__ import annotations

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, Operator, String, _TokenType

MARKS = {"k": "\ue000", "s": "\ue001", "n": "\ue002", "c": "\ue003", "f": "\ue004"}
"""Class to the character that opens it: keyword, string, number, comment, function or class name."""
CLOSE = "\ue00f"
LONGEST_LINE = 240
"""Characters shown of a line; generated metadata reaches thousands."""

_KINDS: dict[_TokenType, str] = {
    Comment: "c", String: "s", Number: "n", Keyword: "k", Operator.Word: "k",
    Name.Function: "f", Name.Class: "f", Name.Decorator: "f",
}  # fmt: skip

_LEXERS: dict[str, Lexer] = {}


def color_lines(text: str, language: str) -> list[str]:
    """The lines of `text`, marked. `language`: ``python``, ``cpp``, ``ptx`` or anything else for plain text."""
    plain = [_cut(_clean(line)) for line in text.split("\n")]
    if language not in ("python", "cpp", "ptx"):
        return plain
    marked = [""]
    for token, value in _lexer(language).get_tokens("\n".join(plain)):
        kind = _kind(token)
        for i, piece in enumerate(value.split("\n")):
            if i:
                marked.append("")
            marked[-1] += MARKS[kind] + piece + CLOSE if kind and piece.strip() else piece
    return marked[: len(plain)] + plain[len(marked) :]


def _lexer(language: str) -> Lexer:
    if language not in _LEXERS:
        _LEXERS[language] = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    return _LEXERS[language]


def _kind(token: _TokenType) -> str:
    return next((_KINDS[parent] for parent in reversed(token.split()) if parent in _KINDS), "")


def _clean(line: str) -> str:
    return "".join("\ufffd" if "\ue000" <= c <= "\ue00f" else c for c in line) if not line.isascii() else line


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 2]} …"
