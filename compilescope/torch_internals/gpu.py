"""What a GPU run did beside compiling: candidates that were timed, CUDA graphs, the binaries that were loaded.

Names of torch are replaced while anybody listens, once for the process, and put back with the last listener. Each
module is hooked when it is imported by torch itself: importing Inductor takes seconds, so we do not.
"""

from __future__ import annotations

import functools
import logging
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch._guards

Sink = Callable[[str, dict[str, Any]], None]
Undo = Callable[[], None]

_lock = threading.Lock()
_sinks: list[Sink] = []
_undo: dict[str, Undo] = {}


def listen(sink: Sink) -> Undo:
    """Hand each event to `sink` by name, in the thread where it happens; returns how to stop.

    ``algorithm``, ``configuration``: candidates were timed (`_hook_algorithms`, `_hook_configurations`). ``graph``:
    ``what`` is ``warmed_up``, ``recorded`` or ``replayed``. ``graph_skip``: ``reason``. ``missing``: ``fact`` and
    ``reason``, for what this torch cannot tell.
    """
    with _lock:
        _sinks.append(sink)
    attach()

    def stop() -> None:
        with _lock:
            _sinks[:] = [one for one in _sinks if one is not sink]
            while _undo and not _sinks:
                _undo.popitem()[1]()

    return stop


def attach() -> None:
    """Begin to listen to those modules of torch that are imported by now."""
    if not _sinks or len(_undo) == len(_HOOKS):
        return
    missing = []
    with _lock:
        for name, hook in _HOOKS.items():
            module = sys.modules.get(name)
            if name in _undo or module is None or getattr(module.__spec__, "_initializing", False):
                continue
            try:
                _undo[name] = hook(module)
            except AttributeError as error:
                _undo[name] = _nothing
                missing.append({"fact": _FACTS[name], "reason": f"this torch has no {error}."})
    for one in missing:
        _tell("missing", one)


def _nothing() -> None:
    """There is nothing to put back."""


def _tell(event: str, facts: dict[str, Any]) -> None:
    for sink in list(_sinks):
        try:
            sink(event, dict(facts))
        except Exception:
            continue


def _unreadable(fact: str, error: Exception) -> dict[str, str]:
    return {"fact": fact, "reason": f"{type(error).__name__} while this was read from torch: {error}"}


def _current_compile_id() -> str | None:
    """``0/1``, from ``torch._guards.CompileContext.current_compile_id`` (2.11 to 2.15)."""
    found = torch._guards.CompileContext.current_compile_id()
    return None if found is None else str(found)


def _hook_algorithms(module: Any) -> Undo:
    """``algorithm``: ``name``, ``sizes``, ``choices`` (name, milliseconds, details), ``compile_id``.

    Leans on ``torch._inductor.select_algorithm._ALGORITHM_SELECTOR_CACHE``, None until it is needed, an
    ``AlgorithmSelectorCache``, whose ``feedback_saver_fns`` is a list of functions that are told ``(timings, name,
    input_nodes, choices, profiled_time_fn, precompile_times)`` (2.11 to 2.15). ``clear_feedback_savers`` would also
    take away those of others.
    """

    def saver(timings: dict[Any, float], name: str, input_nodes: Any, *_: Any) -> None:
        try:
            sizes = ["x".join(str(size) for size in node.get_size()) for node in input_nodes]
            choices = [
                (str(getattr(choice, "name", choice)), float(time), str(getattr(choice, "description", "") or ""))
                for choice, time in timings.items()
            ]
        except Exception as error:
            _tell("missing", _unreadable("autotuning", error))
            return
        _tell("algorithm", {"name": name, "sizes": sizes, "choices": choices, "compile_id": _current_compile_id()})

    kind, made = module.AlgorithmSelectorCache, module._ALGORITHM_SELECTOR_CACHE
    begin = kind.__init__

    @functools.wraps(begin)
    def made_later(self: Any, *args: Any, **options: Any) -> None:
        begin(self, *args, **options)
        self.feedback_saver_fns.append(saver)

    if made is None:  # making it hashes all of Triton, which a first observation need not wait for
        kind.__init__ = made_later
    else:
        made.feedback_saver_fns.append(saver)

    def undo() -> None:
        kind.__init__ = begin if kind.__init__ is made_later else kind.__init__
        if (made := module._ALGORITHM_SELECTOR_CACHE) is not None:
            made.feedback_saver_fns[:] = [one for one in made.feedback_saver_fns if one is not saver]

    return undo


def _hook_configurations(module: Any) -> Undo:
    """``configuration``: one was timed: ``kernel``, ``name``, ``time_ms``, ``registers``, ``spills``, ``compile_id``.

    ``key`` is one number for all configurations of one kernel, ``chosen()`` the one that it uses now. Leans on
    ``torch._inductor.runtime.triton_heuristics.CachingAutotuner.bench(launcher, *args)`` in milliseconds, its
    ``fn``, ``launchers`` and ``compile_id``, and the launcher's ``config``, ``n_regs``, ``n_spills`` (2.11 to 2.15).
    """
    tuner_class = module.CachingAutotuner
    bench = tuner_class.bench

    @functools.wraps(bench)
    def replacement(self: Any, launcher: Any, *args: Any, **kwargs: Any) -> Any:
        time = bench(self, launcher, *args, **kwargs)
        try:
            facts = {"time_ms": time, **_configuration(self, launcher)}
        except Exception as error:
            _tell("missing", _unreadable("autotuning of configurations", error))
            return time
        _tell("configuration", facts)
        return time

    tuner_class.bench = replacement
    return functools.partial(setattr, tuner_class, "bench", bench)


def _configuration(tuner: Any, launcher: Any) -> dict[str, Any]:
    found = getattr(tuner, "compile_id", None)
    return {
        "key": id(tuner),
        "kernel": str(getattr(tuner.fn, "__name__", "")),
        "name": config_text(getattr(launcher, "config", None)),
        "registers": getattr(launcher, "n_regs", None),
        "spills": getattr(launcher, "n_spills", None),
        "compile_id": None if found is None else str(found),
        "chosen": lambda: [config_text(one.config) for one in tuner.launchers],
    }


def config_text(config: Any) -> str:
    """``XBLOCK: 256, num_warps: 4, num_stages: 1`` of a ``triton.Config`` (triton 3.6, 3.7)."""
    given = dict(getattr(config, "kwargs", None) or {})
    given |= {name: getattr(config, name, None) for name in ("num_warps", "num_stages")}
    return ", ".join(f"{name}: {value}" for name, value in given.items() if value is not None)


def _hook_graphs(module: Any) -> Undo:
    """``graph``.

    Leans on ``torch._inductor.cudagraph_trees.CUDAGraphTreeManager.run_eager`` (the warm-up), ``record_function`` and
    ``execute_node`` (2.11 to 2.15).
    """
    manager = module.CUDAGraphTreeManager
    names = {"run_eager": "warmed_up", "record_function": "recorded", "execute_node": "replayed"}
    originals = {name: getattr(manager, name) for name in names}

    def replacement(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def told(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            _tell("graph", {"what": names[name]})
            return result

        return told

    for name, original in originals.items():
        setattr(manager, name, replacement(name, original))

    def undo() -> None:
        for name, original in originals.items():
            setattr(manager, name, original)

    return undo


class _SkipListener(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text.startswith("skipping cudagraph"):
            _tell("graph_skip", {"reason": text})


def _hook_skips(module: Any) -> Undo:
    """``graph_skip``.

    Leans on the logger ``torch._inductor.cudagraph_utils.cudagraphs_log``, which warns of each skip with a text that
    begins with ``skipping cudagraph`` (2.11 to 2.15). A function that is skipped for its inputs is told of once.
    """
    logger, listener = module.cudagraphs_log, _SkipListener(logging.WARNING)
    logger.addHandler(listener)
    return lambda: logger.removeHandler(listener)


_HOOKS: dict[str, Callable[[Any], Undo]] = {
    "torch._inductor.select_algorithm": _hook_algorithms,
    "torch._inductor.runtime.triton_heuristics": _hook_configurations,
    "torch._inductor.cudagraph_trees": _hook_graphs,
    "torch._inductor.cudagraph_utils": _hook_skips,
}
_FACTS = {
    "torch._inductor.select_algorithm": "autotuning",
    "torch._inductor.runtime.triton_heuristics": "autotuning of configurations",
    "torch._inductor.cudagraph_trees": "cuda_graphs",
    "torch._inductor.cudagraph_utils": "cuda_graphs skipped",
}


def loaded_kernels(paths: set[str]) -> dict[str, dict[str, dict[str, Any]]]:
    """For each generated module of these files that is loaded: kernel name to what its binary uses.

    ``registers`` per thread, ``spills`` in 4-byte words, ``shared_bytes``, ``configs``: of the configuration in use;
    several configurations, and no numbers, for a kernel that has not run yet. Leans on
    ``torch._inductor.codecache.PyCodeCache.modules``, on ``CachingAutotuner.launchers`` in them, and on each
    launcher's ``config``, ``n_regs``, ``n_spills``, ``shared``, which come from triton's ``CompiledKernel`` or torch's
    static launcher (torch 2.11 to 2.15, triton 3.6 and 3.7).
    """
    codecache = sys.modules.get("torch._inductor.codecache")
    heuristics = sys.modules.get("torch._inductor.runtime.triton_heuristics")
    if codecache is None or heuristics is None:
        return {}
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for module in codecache.PyCodeCache.modules:
        path = getattr(module, "__file__", None)
        if path in paths:
            names = vars(module).items()
            found[path] = {name: _loaded(one) for name, one in names if isinstance(one, heuristics.CachingAutotuner)}
    return found


def _loaded(tuner: Any) -> dict[str, Any]:
    launchers = list(tuner.launchers)
    facts: dict[str, Any] = {"configs": [config_text(getattr(one, "config", None)) for one in launchers]}
    if len(launchers) == 1:
        names = {"registers": "n_regs", "spills": "n_spills", "shared_bytes": "shared"}
        facts |= {fact: getattr(launchers[0], name, None) for fact, name in names.items()}
    return facts
