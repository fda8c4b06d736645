"""What a learner compiled, behind the wrappers that torch puts round it."""

from __future__ import annotations

import inspect
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch

_MODULE_CALLS = ("__call__", "_call_impl", "_wrapped_call_impl")


def is_compiled(fn: Any) -> bool:
    """True for what ``torch.compile`` returned, and for a module after ``module.compile()``.

    Leans on ``_torchdynamo_orig_callable`` and ``Module._compiled_call_impl`` (2.11 to 2.15).
    """
    if isinstance(fn, torch.nn.Module) and getattr(fn, "_compiled_call_impl", None) is not None:
        return True
    return hasattr(fn, "_torchdynamo_orig_callable") and not is_disabled(fn)


def is_disabled(fn: Any) -> bool:
    """True for a function under ``torch.compiler.disable``. Leans on ``_torchdynamo_disable`` (2.11 to 2.15)."""
    return bool(getattr(fn, "_torchdynamo_disable", False))


def innermost(fn: Any) -> Any:
    """The learner's own function or module.

    Leans on ``_torchdynamo_orig_callable``, ``OptimizedModule._orig_mod`` and the ``__wrapped__`` of
    ``torch._dynamo.external_utils.wrap_inline`` (2.11 to 2.15).
    """
    inner: Any
    for _ in range(20):
        if isinstance(fn, torch.nn.Module):
            inner = fn.__dict__.get("_modules", {}).get("_orig_mod")
            if inner is None:
                return fn
        else:
            inner = getattr(fn, "_torchdynamo_orig_callable", None)
            if inner is None and _is_wrap_inline(fn):
                inner = fn.__wrapped__
        if inner is None:
            break
        fn = inner
    owner: Any = getattr(fn, "__self__", None)
    if isinstance(owner, torch.nn.Module) and fn.__name__ in _MODULE_CALLS:
        return innermost(owner)
    return fn


def _is_wrap_inline(fn: Any) -> bool:
    code = getattr(fn, "__code__", None)
    return hasattr(fn, "__wrapped__") and code is not None and code.co_filename.endswith("external_utils.py")


def readable_name(fn: Any) -> str:
    """``price``, ``Model.forward`` for a method, ``Model`` for a module: without wrappers and enclosing functions."""
    fn = innermost(fn)
    if isinstance(fn, torch.nn.Module):
        return type(fn).__name__
    name = getattr(fn, "__qualname__", None) or type(fn).__name__
    return str(name).rpartition("<locals>.")[2]


def readable_frame(code: CodeType, values: Any) -> str:
    """``price`` or ``Model.forward`` for the code of a frame with these local variables.

    The frame that ``torch._dynamo.external_utils.wrap_inline`` puts round a library module has the module's name
    (2.11 to 2.15).
    """
    if code.co_name == "inner" and code.co_filename.endswith("external_utils.py"):
        return readable_name(values["fn"]) if "fn" in values else code.co_name
    return code.co_qualname.rpartition("<locals>.")[2]


def code_and_locals(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[CodeType, dict[str, Any]] | None:
    """The code object that Dynamo's cache hangs on, and the local variables of a call with these arguments.

    None for what has no Python code. TypeError, as Python says it, when the arguments do not fit.
    """
    plain = _function_with_cache(fn)
    if isinstance(plain, MethodType):
        args = (plain.__self__, *args)
        plain = plain.__func__
    if not isinstance(plain, FunctionType):
        return None
    # `signature` follows __wrapped__, but the frame has the parameters of this very function
    bound = inspect.signature(plain, follow_wrapped=False).bind(*args, **kwargs)
    bound.apply_defaults()
    values = dict(bound.arguments)
    for name, cell in zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=False):
        try:
            values[name] = cell.cell_contents
        except ValueError:  # a name of the enclosing function that has no value yet
            continue
    return plain.__code__, values


def code_of(fn: Any) -> tuple[CodeType | None, dict[str, Any]]:
    """The code object that Dynamo's cache hangs on, and the function's module globals; None for what has none."""
    plain = _function_with_cache(fn)
    plain = getattr(plain, "__func__", plain)
    return getattr(plain, "__code__", None), getattr(plain, "__globals__", {})


def _function_with_cache(fn: Any) -> Any:
    """The function or method whose code has the cache.

    A module whose ``forward`` is torch's own is called through ``wrap_inline``: then that wrapper has it.
    """
    plain = fn
    while not isinstance(plain, torch.nn.Module) and hasattr(plain, "_torchdynamo_orig_callable"):
        plain = plain._torchdynamo_orig_callable
    if isinstance(plain, torch.nn.Module) and "_orig_mod" in plain._modules:
        wrapped = getattr(plain.forward, "_torchdynamo_orig_callable", None)
        plain = wrapped if wrapped is not None and _is_wrap_inline(wrapped) else plain._orig_mod
    owner = getattr(plain, "__self__", None)
    if isinstance(owner, torch.nn.Module) and getattr(plain, "__name__", "") in _MODULE_CALLS:
        plain = owner
    if isinstance(plain, torch.nn.Module):
        plain = plain.forward
    return plain if isinstance(plain, FunctionType | MethodType) else inspect.unwrap(plain)


def disabled_by_environment() -> bool:
    """True where ``TORCHDYNAMO_DISABLE=1`` (or ``torch._dynamo.config.disable``) turns compiling off, 2.11 to 2.15."""
    import os

    import torch._dynamo.config as config

    return os.environ.get("TORCHDYNAMO_DISABLE", "") == "1" or bool(getattr(config, "disable", False))


def stance() -> str:
    """The stance set by ``torch.compiler.set_stance``, ``default`` if none.

    Leans on ``torch._dynamo.eval_frame._stance.stance`` (2.11 to 2.15).
    """
    from torch._dynamo import eval_frame

    return str(getattr(getattr(eval_frame, "_stance", None), "stance", "default"))


def recompile_limit(fn: Any) -> int:
    """How many entries the cache of `fn` may hold.

    ``torch.compile(fn, recompile_limit=…)`` (2.12 to 2.15), else ``torch._dynamo.config.recompile_limit``
    (2.11 to 2.15).
    """
    import torch._dynamo.config as config

    converter = getattr(_callback_of(fn), "_torchdynamo_orig_backend", None)
    own = getattr(converter, "_recompile_limit", None)
    return int(own if isinstance(own, int) else config.recompile_limit)


def backend_of(fn: Any) -> Any:
    """The backend object that entries of `fn` carry; None if it cannot be told.

    Leans on ``torch._dynamo.eval_frame.innermost_backend`` (2.11 to 2.15).
    """
    from torch._dynamo import eval_frame

    callback = _callback_of(fn)
    innermost_backend = getattr(eval_frame, "innermost_backend", None)
    return innermost_backend(callback) if callable(callback) and innermost_backend else None


def _callback_of(fn: Any) -> Any:
    """Dynamo's callback behind what ``torch.compile`` returned.

    Leans on ``OptimizedModule.dynamo_ctx.callback``, and on the variable ``callback`` that the wrapper of a function
    closes over (2.11 to 2.15).
    """
    if isinstance(fn, torch.nn.Module):
        context = fn.__dict__.get("dynamo_ctx")
        if context is not None:
            return getattr(context, "callback", None)
        fn = getattr(fn, "_compiled_call_impl", None)
    code, cells = getattr(fn, "__code__", None), getattr(fn, "__closure__", None)
    if code is None or not cells or "callback" not in code.co_freevars:
        return None
    return cells[code.co_freevars.index("callback")].cell_contents
