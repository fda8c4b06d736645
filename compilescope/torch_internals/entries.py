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


def guard_trees(code: CodeType) -> dict[str, str]:
    """Compile id to the printed guard tree of each entry. Leans on ``str(entry.guard_manager)`` (2.11 to 2.15)."""
    return {str(entry.compile_id): str(entry.guard_manager) for entry in entries(code)}


def verdicts(code: CodeType, values: dict[str, Any], backend: Any = None) -> list[dict[str, Any]]:
    """For each entry: ``compile_id``, ``accepts``, the ``failed`` guards' expressions, their ``stack``; without a call.

    With a `backend`, an entry that another backend compiled does not accept.
    Leans on ``guard_manager.check_verbose`` and its ``result``, ``verbose_code_parts``, and ``user_stack`` where
    there is one (2.11 to 2.15).
    """
    answers = []
    for entry in entries(code):
        answer = entry.guard_manager.check_verbose(values)
        failed = [] if answer.result else [str(part) for part in answer.verbose_code_parts]
        if answer.result and backend is not None and not _same_backend(entry.backend, backend):
            failed = ["compiled by another backend"]
        stack = [
            {"filename": frame.filename, "line": frame.lineno, "name": frame.name, "loc": frame.line}
            for frame in getattr(answer, "user_stack", None) or ()
        ]
        answers.append({"compile_id": str(entry.compile_id), "accepts": not failed, "failed": failed, "stack": stack})
    return answers


def _same_backend(one: Any, other: Any) -> bool:
    """As Dynamo compares them: the same object, or equal compiler wrappers (2.11 to 2.15)."""
    try:
        return one is other or bool(one == other)
    except Exception:
        return False


def holds(expression: str, values: dict[str, Any], module_globals: dict[str, Any]) -> bool | None:
    """Whether a guard's expression is true now; None if it cannot be told.

    A guard on dynamic sizes reports all its expressions when one of them is false (2.11 to 2.15).
    """
    names: dict[str, Any] = {"L": values, "G": module_globals}
    try:
        return bool(eval(expression.partition("  #")[0], {"__builtins__": {"len": len}}, names))
    except Exception:
        return None


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
