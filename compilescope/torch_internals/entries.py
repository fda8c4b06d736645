"""Dynamo's cache of one function: which entries it holds, and which of them accepts a call."""

from __future__ import annotations

from types import CodeType
from typing import Any

_SHOWN = (int, float, str, bool, complex, bytes, type(None))


def entries(code: CodeType) -> list[Any]:
    """The cached entries of a code object, in the order they are tried.

    Leans on ``torch._dynamo.eval_frame._debug_get_cache_entry_list`` (2.11 to 2.15).
    """
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list

    return list(_debug_get_cache_entry_list(code))


def verdicts(code: CodeType, values: dict[str, Any]) -> list[dict[str, Any]]:
    """For each entry: ``compile_id``, ``accepts``, and the ``failed`` guards' expressions, without a call.

    Leans on ``guard_manager.check_verbose`` and its ``result``, ``verbose_code_parts`` (2.11 to 2.15).
    """
    answers = []
    for entry in entries(code):
        answer = entry.guard_manager.check_verbose(values)
        failed = [] if answer.result else [str(part) for part in answer.verbose_code_parts]
        answers.append({"compile_id": str(entry.compile_id), "accepts": bool(answer.result), "failed": failed})
    return answers


def value_of(subject: str, values: dict[str, Any], module_globals: dict[str, Any]) -> str | None:
    """What a guard's subject (``L['n']``, ``G['scale']``, ``len(xs)``) is now, as text; None if it cannot be told.

    Dynamo evaluates the same expressions on each call, so looking does what a call does anyway.
    """
    names: dict[str, Any] = {"L": values, "G": module_globals, **values}
    try:
        value = eval(subject, {"__builtins__": {"len": len, "type": type, "set": set, "list": list}}, names)
    except Exception:
        return None
    if isinstance(value, _SHOWN):
        return repr(value)[:200]
    return value.__qualname__ if isinstance(value, type) else f"a {type(value).__name__}"
