"""Frames that Dynamo looked at and left to plain Python: why, and what to do about it."""

from __future__ import annotations

import ast
from collections.abc import Callable

from compilescope.facts import GraphBreak, NotCompiled, Source

_BLOCKS: dict[type[ast.AST], str] = {
    ast.For: "loop", ast.While: "loop", ast.AsyncFor: "loop", ast.With: "with", ast.AsyncWith: "with", ast.Try: "try",
}  # fmt: skip
_BLOCK_WORDS = {
    "loop": ("a loop", "Take it out of the loop, or compile the function that the loop calls."),
    "with": ("a with block", "Take it out of the with block, or compile the function that the block calls."),
    "try": ("a try block", "Take it out of the try block, or compile the function that the block calls."),
}
RECOMPILE_LIMIT = "GB0039"
_RAISES = "GB0088"

LIMIT_REASON = "The recompile limit is reached, and no cached entry accepts the call."
REMEDIES = {
    "plain": "Compile it: torch.compile(f) returns the compiled function, and that is what to call.",
    "stance": 'torch.compiler.set_stance("default") lets it compile again.',
    "environment": "Unset TORCHDYNAMO_DISABLE and start Python again.",
    "library frame": (
        "Call torch.compile(module) instead of module.compile(), or put the call into a function or module of your own."
    ),
    "disabled": "Remove torch.compiler.disable, or call the function outside the compiled one.",
    "no tensor": "Nothing to gain here: compile a function that computes with tensors.",
    "generator": "Compile the function that makes each item, not the generator.",
    "raises": "Run it without torch.compile first, and mend what it raises.",
    "error": "Read the error; backend='eager' tells whether it comes from Dynamo or from the backend.",
    "graph break": "Remove the break: the frame cannot be resumed after it.",
    "skipped": "TORCH_LOGS=dynamo tells what Dynamo decided on this frame.",
    "limit": "Look at the guard that keeps failing: make its value a tensor, a dynamic size, or a constant.",
}
"""Kind of `NotCompiled` to what to do about it."""


def enclosing_block(text: str, line: int) -> str:
    """``loop``, ``with``, ``try`` or empty: the innermost such block of the same function round that line."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, RecursionError, ValueError):
        return ""
    return _block_in(tree, line, "")


def _block_in(node: ast.AST, line: int, block: str) -> str:
    for child in ast.iter_child_nodes(node):
        first, last = getattr(child, "lineno", None), getattr(child, "end_lineno", None)
        if first is None or last is None or not first <= line <= last:
            continue
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return _block_in(child, line, "")
        kind = _BLOCKS.get(type(child))
        return _block_in(child, line, kind if kind and _in_body(child, line) else block)
    return block


def _in_body(block: ast.AST, line: int) -> bool:
    """The line is inside the block, not in its header."""
    parts = [part for name in ("body", "orelse", "handlers", "finalbody") for part in getattr(block, name, ())]
    return any(part.lineno <= line <= (part.end_lineno or part.lineno) for part in parts)


def skipped_at_break(
    found: GraphBreak, function: str, source: Source | None, text_of: Callable[[str], str], resumed: bool
) -> NotCompiled:
    """`NotCompiled` for a frame that Dynamo gave up at this break; `source` is the break's line in that frame.

    `resumed`: the frame is the part of the function after an earlier break.
    """
    if found.gb == RECOMPILE_LIMIT:
        return NotCompiled(function, LIMIT_REASON, REMEDIES["limit"], source, "limit")
    if found.gb == _RAISES:
        return NotCompiled(function, "It raises while it is traced.", REMEDIES["raises"], source, "raises")
    block = enclosing_block(text_of(source.file), source.line) if source else ""
    if block:
        words, remedy = _BLOCK_WORDS[block]
        what = "the rest of the function" if resumed else "the whole function"
        reason = f"A graph break inside {words} cannot be resumed, so {what} runs as plain Python."
        return NotCompiled(function, reason, remedy, source, f"break in {block}")
    return NotCompiled(
        function,
        f"A graph break that cannot be resumed: {found.reason}.",
        REMEDIES["graph break"],
        source,
        "graph break",
    )
