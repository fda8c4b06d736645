"""Dynamo's report of a graph break, and of a guard that refused, read into facts."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

from compilescope.facts import GraphBreak, Refusal, Source
from compilescope.reading.stacks import belongs_to_learner, learners_line, read_stack, without_machinery

_WHERE = re.compile(r"Graph [Bb]reak in user code at (.+?):(\d+)")
_URL = re.compile(r"https?://\S+/(gb\d+)\.html")


def read_break(payload: str, compile_id: str) -> GraphBreak:
    """A `GraphBreak` from the record ``dynamo_graph_break_reason``."""
    body = payload.split("Graph Break Reason:", 1)[-1]
    message, _, stack_text = body.partition("User code traceback:")
    stack = without_machinery(read_stack(stack_text.split("\nTraceback (most recent")[0]))
    head, _, rest = message.partition("  Explanation:")
    explanation, _, hints = rest.partition("\n  Hint:")
    hint_text, _, context = ("  Hint:" + hints if hints else rest).partition("Developer debug context:")
    found_hints = [hint.strip() for hint in re.split(r"\n?\s*Hint:\s*", hint_text) if hint.strip()] if hints else []
    url = _URL.search(payload)
    where = _WHERE.search(payload)
    source = learners_line(stack) or (Source(where[1], int(where[2])) if where else None)
    lines = [line for line in head.strip().splitlines() if line.strip()]
    return GraphBreak(
        compile_id=compile_id,
        gb=url[1].upper() if url else None,
        reason=lines[-1].strip() if lines else "",
        explanation=_one_line(explanation.partition("Developer debug context:")[0]),
        hints=tuple(_one_line(hint) for hint in found_hints),
        context=context.split("\n\n")[0].strip(),
        url=url[0] if url else None,
        source=source,
        stack=stack,
    )


def is_numbered(reason: str) -> bool:
    """True if a failure's text ends with a link to PyTorch's graph-break registry."""
    return bool(_URL.search(reason))


def read_failure(metrics: dict[str, Any], compile_id: str) -> GraphBreak:
    """A `GraphBreak` from ``compilation_metrics`` whose frame failed: with fullgraph=True there is no other record."""
    text = str(metrics.get("fail_reason") or "")
    found = read_break(f"Graph Break Reason:{text}", compile_id)
    file, line = metrics.get("fail_user_frame_filename"), metrics.get("fail_user_frame_lineno")
    if not file or not line or not belongs_to_learner(str(file)):
        # it stopped inside a library: the frame itself is all that torch tells of the learner's code
        file, line = metrics.get("co_filename"), metrics.get("co_firstlineno")
    source = Source(str(file), int(line)) if file and line else None
    head = text.partition("  Explanation:")[0].partition("Got graph break/error:")
    lines = [line for line in (head[2] or head[0]).splitlines() if line.strip()]
    return dataclasses.replace(found, reason=lines[0].strip() if lines else "", source=source)


def _one_line(text: str) -> str:
    return " ".join(text.split())


_REFUSAL = re.compile(
    r"^(?P<id>\d+/\d+): (?P<guard>.*?)"
    r"(?:\s+# (?P<code>.*?)\s+# (?P<file>[^#]+?):(?P<line>\d+) in (?P<function>\S+)"
    r"(?: \((?:HINT: (?P<hint>.*)|user code.*)\)?)?)?$"
)


def read_refusals(payload: str) -> tuple[Refusal, ...]:
    """One `Refusal` for each cached entry that did not accept the call, from the record ``recompile_reasons``."""
    try:
        items = json.loads(payload)
    except json.JSONDecodeError:
        items = [payload]
    return tuple(_refusal(str(item)) for item in (items if isinstance(items, list) else [items]))


def _refusal(item: str) -> Refusal:
    first, _, rest = item.partition("\n")
    match = _REFUSAL.match(first)
    if not match:
        return Refusal("", first.strip())
    source = learners_line(read_stack(rest))
    if source is None and match["file"]:
        source = Source(match["file"], int(match["line"]), match["function"], match["code"])
    refusal = make_refusal(match["id"], match["guard"].strip(), source)
    return dataclasses.replace(refusal, hint=_hint(match["hint"]) or refusal.hint)


_MISMATCH = re.compile(
    r"^tensor '(?P<subject>[^']+)' (?P<what>.+?)\. expected (?P<expected>.+?), actual (?P<actual>.+?)\.?$"
)
_REQUIRES_GRAD = re.compile(
    r"^tensor '(?P<subject>[^']+)' requires_grad mismatch\. expected requires_grad=(?P<expected>\w+)"
)
_PLAIN_MISMATCH = re.compile(r"^tensor '(?P<subject>[^']+)' (?P<what>.+)$")
_STATE = re.compile(r"^GLOBAL_STATE changed: (?P<subject>\w+)")
_MADE_BY = re.compile(r"\s+# \(.*$")
"""torch's remark on which of its own lines made a guard, or that it does not know."""
_EQUAL_AT_FIRST = re.compile(r"\s+# (?P<hint>duck sizing .+?)(?: \(.*)?$")
"""torch's remark on a guard that two sizes are equal, because they were when it was compiled; then an option for it."""
_BOUND = re.compile(r"^\d+ <=? (?P<subject>\S+\]|\w+)(?: <=? \d+)?$")
"""``2 <= x.size()[0]``, ``2 <= x.size()[0] <= 64``: a range, not a value that was compiled in."""
_COMPARISON = re.compile(r"^(?P<subject>.+?) (?:==|is|<=|>=|<|>|!=) (?P<expected>.+)$")


_LOCAL = re.compile(r"L\['(\w+)'\]")
_COMMENT = re.compile(
    r"\s+# (?P<code>.*?)\s+# (?P<file>[^#]+?):(?P<line>\d+) in (?P<function>\S+)"
    r"(?: \((?:HINT: (?P<hint>.*)|user code.*)\)?)?$"
)


def read_guard_failure(compile_id: str, text: str) -> Refusal:
    """A `Refusal` from the text that a live guard gives: its expression, and perhaps a comment with its line."""
    first = _LOCAL.sub(r"\1", text.partition("\n")[0])
    match = _COMMENT.search(first)
    if not match:
        return make_refusal(compile_id, first.strip())
    source = Source(match["file"], int(match["line"]), match["function"], match["code"])
    refusal = make_refusal(compile_id, first[: match.start()].strip(), source)
    return dataclasses.replace(refusal, hint=_hint(match["hint"]) or refusal.hint)


def _hint(text: str | None) -> str:
    return (text or "").rstrip(")")


def make_refusal(compile_id: str, expression: str, source: Source | None = None, actual: str | None = None) -> Refusal:
    """A `Refusal` with the subject and the expected value that the guard's expression tells."""
    expression = _MADE_BY.sub("", expression)
    if match := _MISMATCH.match(expression):
        return Refusal(compile_id, expression, match["subject"], match["expected"], match["actual"], source)
    if match := _REQUIRES_GRAD.match(expression):
        wanted = match["expected"] in ("1", "True")
        return Refusal(compile_id, expression, match["subject"], str(wanted), str(not wanted), source)
    if match := _STATE.match(expression):
        return Refusal(compile_id, expression, match["subject"], None, actual, source)
    if match := _PLAIN_MISMATCH.match(expression):
        return Refusal(compile_id, expression, match["subject"], None, actual, source)
    if match := _BOUND.match(expression):
        return Refusal(compile_id, expression, match["subject"], None, actual, source)
    hint = ""
    if match := _EQUAL_AT_FIRST.search(expression):
        expression, hint = expression[: match.start()], match["hint"]
    if match := _COMPARISON.match(expression):
        return Refusal(compile_id, expression, match["subject"], match["expected"], actual, source, hint)
    return Refusal(compile_id, expression, "", None, actual, source)
