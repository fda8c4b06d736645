"""See what torch.compile does: `observe` gives one `Run` for the code it is put around."""

from __future__ import annotations

import contextlib
import linecache
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import torch

from compilescope.facts import Origin, Run
from compilescope.pretend import previewing
from compilescope.reading.build import Builder, sources_of
from compilescope.reading.stacks import belongs_to_learner
from compilescope.torch_internals import records, settings


@overload
def observe(*, on: str | Sequence[str] = ()) -> contextlib.AbstractContextManager[Run]: ...
@overload
def observe(fn: Callable[..., Any], /, *args: Any, on: str | Sequence[str] = (), **kwargs: Any) -> Run: ...


def observe(
    fn: Callable[..., Any] | None = None, /, *args: Any, on: str | Sequence[str] = (), **kwargs: Any
) -> Run | contextlib.AbstractContextManager[Run]:
    """Facts of what torch.compile did.

    ``run = observe(fn, *args, **kwargs)`` calls `fn` once; its return value is ``run.result``.
    ``with observe() as run:`` watches the block; `run` is filled when the block ends, also when it raises.
    With ``on="h100"`` (``"a100"``, ``"t4"``, or several) `run.pretended` also holds a Run for each of these GPUs: the
    Triton code it would get for the same graphs. They need not be there, and nothing runs on them.
    """
    if fn is None:
        return _watching(on)
    with _watching(on) as run:
        result = fn(*args, **kwargs)
    object.__setattr__(run, "result", result)
    return run


@contextlib.contextmanager
def _watching(on: str | Sequence[str]) -> Iterator[Run]:
    run = Run(_origin())
    builder = Builder()
    began = time.time() * 1e6
    stop = records.listen(builder.add)
    try:
        with settings.observing(bypass_caches=True), previewing(on) as preview:
            yield run
    finally:
        stop()
        _fill(run, builder, began)
    if on:
        pretended, notes = preview.runs(run)
        object.__setattr__(run, "pretended", pretended)
        object.__setattr__(run, "notes", run.notes + notes)


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
