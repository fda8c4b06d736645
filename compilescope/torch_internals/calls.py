"""Calls of compiled functions while they happen: their beginning, their end, and each frame that Dynamo looked at.

Four names of torch are replaced while anybody watches, once for the process, and put back with the last watcher.
A replaced function does its own work whatever a watcher does: what a watcher raises is dropped.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Protocol

from compilescope.torch_internals import settings


class Watcher(Protocol):
    """What is told; each method is called in the thread where it happens."""

    def call_begins(self, call: dict[str, Any]) -> None:
        """`call`: ``key``, ``fn``, ``args``, ``kwargs``, ``frame`` of the wrapper, ``compiles`` (False: by stance)."""

    def call_ends(self, key: int, raised: bool) -> None:
        """The call with this key is over."""

    def disabled_call(self, fn: Any, frame: FrameType) -> None:
        """A function under ``torch.compiler.disable`` is called."""

    def frame_begins(self, frame: Any) -> None:
        """Dynamo starts to look at a frame."""

    def frame_ends(self, frame: Any, facts: dict[str, Any]) -> None:
        """`facts`: ``backend``, ``had_entries``, ``compiled``, and ``new_code``, ``skip_reason``, ``error`` or None."""

    def lookup(self, hit: bool) -> None:
        """A function that has cached entries was called: one accepted, or none."""


_lock = threading.Lock()
_watchers: list[Watcher] = []
_undo: list[Callable[[], None]] = []
_missing: dict[str, str] = {}
_open_calls = threading.local()


@contextlib.contextmanager
def watching(watcher: Watcher) -> Iterator[dict[str, str]]:
    """Tell `watcher` until the block ends; gives facts that this torch cannot tell, with the reason."""
    with _lock:
        if not _watchers:
            _install()
        _watchers.append(watcher)
        missing = dict(_missing)
    try:
        yield missing
    finally:
        with _lock:
            _watchers[:] = [one for one in _watchers if one is not watcher]
            if not _watchers:
                while _undo:
                    _undo.pop()()


def _install() -> None:
    _missing.clear()
    for fact, install in (("calls", _watch_calls), ("not_compiled", _watch_frames), ("hits", _watch_lookups)):
        try:
            _undo.append(install())
        except (ImportError, AttributeError) as error:
            _missing[fact] = f"this torch has no {error}: its calls cannot be told one by one."


def _tell(method: str, *values: Any) -> None:
    for watcher in list(_watchers):
        try:
            getattr(watcher, method)(*values)
        except Exception as error:
            # the learner's call goes on whatever happens here; the watcher reports that a fact is missing
            with contextlib.suppress(Exception):
                watcher.problem(method, error)  # type: ignore[attr-defined]


def _watch_calls() -> Callable[[], None]:
    """Calls begin and end.

    Leans on ``torch._dynamo.eval_frame._callback_from_stance`` and ``_maybe_set_eval_frame``, module globals that
    the wrapper made by ``torch.compile`` calls at its beginning and its end, and on the wrapper's local names
    ``self``, ``fn``, ``args``, ``kwargs`` (2.11 to 2.15).
    """
    from torch._dynamo import eval_frame

    from_stance, set_frame = eval_frame._callback_from_stance, eval_frame._maybe_set_eval_frame

    def callback_from_stance(callback: Any) -> Any:
        chosen = from_stance(callback)
        frame = sys._getframe(1)
        try:
            _begin(frame, callback, chosen)
        except Exception:
            return chosen
        return chosen

    def maybe_set_eval_frame(callback: Any) -> Any:
        stack = getattr(_open_calls, "stack", None)
        if stack and stack[-1][0] is sys._getframe(1):
            if stack[-1][1]:
                _, _, key, handled = stack.pop()
                _tell("call_ends", key, sys.exc_info()[1] is not handled)
            else:
                stack[-1][1] = True
        return set_frame(callback)

    eval_frame._callback_from_stance = callback_from_stance
    eval_frame._maybe_set_eval_frame = maybe_set_eval_frame

    def undo() -> None:
        eval_frame._callback_from_stance = from_stance
        eval_frame._maybe_set_eval_frame = set_frame

    return undo


def _begin(frame: FrameType, callback: Any, chosen: Any) -> None:
    if callback in (None, False):
        if frame.f_code.co_name == "_fn":  # the wrapper of torch.compiler.disable
            _tell("disabled_call", frame.f_locals.get("fn"), frame)
        return
    seen = frame.f_locals
    if "fn" not in seen or "args" not in seen:
        return
    if not hasattr(_open_calls, "stack"):
        _open_calls.stack = []
    key = id(frame)
    _open_calls.stack.append([frame, False, key, sys.exc_info()[1]])
    call = {
        "key": key,
        "fn": seen["fn"],
        "args": seen["args"],
        "kwargs": seen.get("kwargs", {}),
        "frame": frame,
        "compiles": chosen not in (None, False),
    }
    _tell("call_begins", call)


def _watch_frames() -> Callable[[], None]:
    """Frames are looked at.

    Leans on ``torch._dynamo.convert_frame.CatchErrorsWrapper.__call__(frame, cache_entry, frame_state)`` and the
    ``guarded_code`` and ``skip_reason`` of what it returns (2.11 to 2.15; ``skip_reason`` where it exists).
    """
    from torch._dynamo.convert_frame import CatchErrorsWrapper

    convert = CatchErrorsWrapper.__call__

    def __call__(self: Any, frame: Any, cache_entry: Any, frame_state: Any) -> Any:  # noqa: N807
        _tell("frame_begins", frame)
        facts: dict[str, Any] = {
            "backend": _backend_name(self),
            "had_entries": cache_entry is not None, "compiled": False,
            "new_code": None, "skip_reason": None, "error": None,
        }  # fmt: skip
        try:
            with settings.as_observed():
                result = convert(self, frame, cache_entry, frame_state)
        except BaseException as error:
            facts["error"] = error
            _tell("frame_ends", frame, facts)
            raise
        guarded = getattr(result, "guarded_code", None)
        facts["compiled"], facts["new_code"] = guarded is not None, getattr(guarded, "code", None)
        facts["skip_reason"] = getattr(result, "skip_reason", None)
        _tell("frame_ends", frame, facts)
        return result

    CatchErrorsWrapper.__call__ = __call__  # type: ignore[method-assign]

    def undo() -> None:
        CatchErrorsWrapper.__call__ = convert  # type: ignore[method-assign]

    return undo


def _backend_name(callback: Any) -> str:
    """``inductor``, ``aot_eager``…: from ``_torchdynamo_orig_backend`` and ``compiler_name`` (2.11 to 2.15)."""
    for _ in range(5):
        inner = getattr(callback, "_torchdynamo_orig_backend", None)
        if inner is None:
            break
        callback = inner
    return str(getattr(callback, "compiler_name", None) or getattr(callback, "__name__", ""))


def _watch_lookups() -> Callable[[], None]:
    """Cached entries are tried.

    Leans on ``torch._C._dynamo.eval_frame.set_guard_complete_hook(hook)``: the hook is told whether an entry
    accepted, and decides with its answer whether that entry is used (2.11 to 2.15).
    """
    from torch._C._dynamo.eval_frame import set_guard_complete_hook

    previous: Callable[[bool], bool] | None = None

    def hook(hit: bool) -> bool:
        _tell("lookup", bool(hit))
        return previous(hit) if previous else hit

    previous = set_guard_complete_hook(hook)  # type: ignore[arg-type,assignment]

    def undo() -> None:
        set_guard_complete_hook(previous)

    return undo
