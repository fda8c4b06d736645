"""See what torch.compile does: `observe` gives one `Run` for the code it is put around."""

from __future__ import annotations

import contextlib
import linecache
import platform
import time
from collections.abc import Callable, Iterator
from typing import Any, overload

import torch

from compilescope.facts import Origin, Run
from compilescope.reading.build import Builder, sources_of
from compilescope.reading.stacks import belongs_to_learner
from compilescope.torch_internals import records, settings


@overload
def observe() -> contextlib.AbstractContextManager[Run]: ...
@overload
def observe(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Run: ...


def observe(
    fn: Callable[..., Any] | None = None, /, *args: Any, **kwargs: Any
) -> Run | contextlib.AbstractContextManager[Run]:
    """Facts of what torch.compile did.

    ``run = observe(fn, *args, **kwargs)`` calls `fn` once; its return value is ``run.result``.
    ``with observe() as run:`` watches the block; `run` is filled when the block ends, also when it raises.
    """
    if fn is None:
        return _watching()
    with _watching() as run:
        result = fn(*args, **kwargs)
    object.__setattr__(run, "result", result)
    return run


@contextlib.contextmanager
def _watching() -> Iterator[Run]:
    run = Run(_origin())
    builder = Builder()
    began = time.time() * 1e6
    stop = records.listen(builder.add)
    try:
        with settings.observing(bypass_caches=True):
            yield run
    finally:
        stop()
        _fill(run, builder, began)


def _origin() -> Origin:
    return Origin("live", "CPU", torch.__version__, python=platform.python_version())


def _fill(run: Run, builder: Builder, began: float) -> None:
    compiles, breaks = builder.compiles(), builder.breaks()
    values = {
        "compiles": compiles,
        "breaks": breaks,
        "phases": builder.phase_facts(began),
        "missing": dict(builder.problems),
        "sources": _texts({source.file for source in sources_of((compiles, breaks))}),
    }
    for name, value in values.items():
        object.__setattr__(run, name, value)


def _texts(files: set[str]) -> dict[str, str]:
    return {
        file: text for file in sorted(files) if belongs_to_learner(file) and (text := "".join(linecache.getlines(file)))
    }
