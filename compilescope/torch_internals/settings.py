"""Settings of torch that a compile is observed with."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple

_INDUCTOR = {"trace.provenance_tracking_level": 1}
_FUNCTORCH = {"force_non_lazy_backward_lowering": True}
_CACHES_OFF = ({"fx_graph_cache": False, "fx_graph_remote_cache": False}, {"enable_autograd_cache": False})

_Wanted = tuple[tuple[ModuleType, dict[str, Any]], ...]


class _Held(NamedTuple):
    users: int
    """How many observations want these settings."""
    patch: Any


_Holdings = Mapping[str, _Held]
_lock = threading.Lock()
_of_process: _Holdings = {}
_of_thread: ContextVar[_Holdings] = ContextVar("settings held by observations", default=MappingProxyType({}))
_observers: list[bool] = []
"""For each open observation of the process: whether it leaves the caches aside."""


@contextlib.contextmanager
def observing(bypass_caches: bool) -> Iterator[dict[str, str]]:
    """Keep node-to-kernel provenance, compile the backward with the forward, and leave the graph caches aside.

    Gives facts that this torch cannot tell for want of a setting, with the reason. Observations may overlap in any
    order, also in threads: the first one changes a setting and the last one puts it back.
    Leans on ``torch._inductor.config`` (``trace.provenance_tracking_level``, ``fx_graph_cache``,
    ``fx_graph_remote_cache``), ``torch._functorch.config`` (``force_non_lazy_backward_lowering``,
    ``enable_autograd_cache``) and ``torch.compiler.config.cache_key_tag``, 2.11 to 2.15. Compiled C++ libraries stay
    cached: only ``force_disable_caches`` would make g++ run again. With the caches in use, the tag keeps the
    entries of observed compiles apart: an entry made without provenance would have none to give.
    """
    missing: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        for config, values in _wanted(bypass_caches):
            for name in (name for name in values if not _has(config, name)):
                missing[name] = f"this torch has no setting {config.__name__}.{name}."
        stack.enter_context(_all_held(bypass_caches))
        _observers.append(bypass_caches)
        stack.callback(_observers.remove, bypass_caches)
        yield missing


@contextlib.contextmanager
def as_observed() -> Iterator[None]:
    """What compiles in this block has the settings of an observation that another thread began.

    From torch 2.13 on, what one thread sets no other thread has: one that is started inside ``with observe()`` would
    compile as if nobody looked. Without an observation, or with the settings in place, nothing changes.
    """
    observers = list(_observers)
    if not observers or _holdings():
        yield
        return
    with _all_held(any(observers)):
        yield


def _wanted(bypass_caches: bool) -> _Wanted:
    import torch._functorch.config as functorch_config
    import torch._inductor.config as inductor_config
    import torch.compiler.config as compiler_config

    caches: _Wanted = ((compiler_config, {"cache_key_tag": "observed"}),)
    if bypass_caches:
        caches = ((inductor_config, _CACHES_OFF[0]), (functorch_config, _CACHES_OFF[1]))
    return ((inductor_config, _INDUCTOR), (functorch_config, _FUNCTORCH), *caches)


@contextlib.contextmanager
def _all_held(bypass_caches: bool) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for config, values in _wanted(bypass_caches):
            for name, value in values.items():
                if _has(config, name):
                    stack.enter_context(_held(config, name, value))
        yield


@contextlib.contextmanager
def _held(config: ModuleType, name: str, value: Any) -> Iterator[None]:
    """The setting has this value until everybody who asked for it is done. Leans on ``config.patch`` (2.11 to 2.15)."""
    key = f"{config.__name__}.{name}"
    with _lock:
        held = _holdings().get(key)
        if held is None:
            held = _Held(0, config.patch({name: value}))  # type: ignore[attr-defined]
            held.patch.__enter__()
        _keep({**_holdings(), key: _Held(held.users + 1, held.patch)})
    try:
        yield
    finally:
        with _lock:
            held = _holdings()[key]
            if held.users > 1:
                _keep({**_holdings(), key: _Held(held.users - 1, held.patch)})
            else:
                _keep({other: one for other, one in _holdings().items() if other != key})
                held.patch.__exit__(None, None, None)


def _holdings() -> _Holdings:
    return _of_thread.get() if _threads_have_their_own() else _of_process


def _keep(holdings: _Holdings) -> None:
    global _of_process
    if _threads_have_their_own():
        _of_thread.set(holdings)
    else:
        _of_process = holdings


def _threads_have_their_own() -> bool:
    """Whether a setting is one thread's, or of the whole process.

    Leans on ``torch.utils._config_module`` keeping what is set in a ``ContextVar`` (2.13 to 2.15; not in 2.11).
    """
    from torch.utils import _config_module

    return hasattr(_config_module, "ContextVar")


def _has(config: ModuleType, name: str) -> bool:
    try:
        for part in name.split("."):
            config = getattr(config, part)
    except AttributeError:
        return False
    return True
