"""See what torch.compile does: `observe` gives one `Run` for the code it is put around."""

from __future__ import annotations

import contextlib
import functools
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import torch

from compilescope.facts import Origin, Run
from compilescope.filling import Caches, facts_of
from compilescope.pretend import keep_graphs, previewing
from compilescope.reading.cells import CellNames, cell_numbers
from compilescope.torch_internals import calls, fusion, gpu, records, settings
from compilescope.unread import read_later
from compilescope.waiting import waiting_line
from compilescope.watching import Watch

Devices = str | Sequence[str]


@overload
def observe(*, on: Devices = (), caches: Caches = "bypass") -> contextlib.AbstractContextManager[Run]: ...
@overload
def observe(fn: Callable[..., Any], /, *args: Any, on: Devices = (), **kwargs: Any) -> Run: ...


def observe(
    fn: Callable[..., Any] | None = None, /, *args: Any, on: Devices = (), **kwargs: Any
) -> Run | contextlib.AbstractContextManager[Run]:
    """Facts of what torch.compile did, measured while it did it.

    ``run = observe(fn, *args, **kwargs)`` calls `fn` once; what it returns is ``run.result``.
    ``with observe() as run:`` watches a block; `run` is filled when the block ends, also when the block raises.
    With ``on="h100"`` (``"a100"``, ``"t4"``, or several) `run.pretended` also holds a Run for each of these GPUs: the
    Triton code it would get for the same graphs. They need not be there, and nothing runs on them.
    ``observe(caches="use")`` leaves torch's graph caches on: a cache hit then hides facts, and ``run.missing`` says
    which. By default they are left aside, so that every compile is seen.

    An exception of the observed code comes out unchanged. Settings, loggers, hooks and caches are as before when
    the block ends; what was compiled in it stays compiled. Observations may be nested, and made in several threads.
    A thread without an observation of its own is seen by all that are open, and compiles with their settings.
    """
    if fn is None:
        return _watching(on, **kwargs)
    with _watching(on, fn=fn) as run:
        result = fn(*args, **kwargs)
    object.__setattr__(run, "result", result)
    return run


@contextlib.contextmanager
def _watching(on: Devices, caches: Caches = "bypass", fn: Callable[..., Any] | None = None) -> Iterator[Run]:
    if caches not in ("bypass", "use"):
        raise ValueError(f'caches is "bypass" or "use", not {caches!r}.')
    run = Run(live_origin())
    watch = Watch()
    with contextlib.ExitStack() as stack, previewing(on) as preview:
        if on:
            stack.callback(_add_pretended, run, preview)
        stack.callback(_end, run, watch, fn, caches)
        stack.enter_context(waiting_line())
        watch.begin()
        stack.callback(watch.end)
        stack.callback(records.listen(watch.record))
        stack.callback(fusion.listen(watch.not_fused))
        stack.callback(gpu.listen(watch.gpu.event))
        watch.missing.update(stack.enter_context(calls.watching(watch)))
        watch.missing.update(stack.enter_context(settings.observing(bypass_caches=caches == "bypass")))
        watch.entered = time.perf_counter()
        yield run


def live_origin() -> Origin:
    """This machine, now."""
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    triton = None
    with contextlib.suppress(ImportError):
        import triton as installed

        triton = str(installed.__version__)
    return Origin("live", name, torch.__version__, triton, platform.python_version(), time.strftime("%Y-%m-%d"))


def _end(run: Run, watch: Watch, fn: Callable[..., Any] | None, caches: Caches) -> None:
    fill = functools.partial(_fill, run, watch, fn, caches)
    if watch.calls:
        read_later(run, fill)
    else:
        fill()  # why nothing was compiled can be told only now: a setting may be the cause


def _fill(run: Run, watch: Watch, fn: Callable[..., Any] | None, caches: Caches) -> None:
    """Put the facts into the run. What cannot be read goes to `missing`: nothing is raised into the learner's code."""
    try:
        facts = facts_of(watch, fn, caches)
    except Exception as error:
        facts = {"missing": {**watch.missing, "run": f"The facts could not be read: {type(error).__name__}: {error}"}}
    for name, value in facts.items():
        object.__setattr__(run, name, value)


def _add_pretended(run: Run, preview: Any) -> None:
    pretended, notes = preview.runs(run)
    cells = CellNames(cell_numbers())
    # also inside the generated code, whose remarks name the cell's temporary file
    shown = tuple(Run.from_json(cells.text(one.to_json())) for one in pretended)
    for one, named in zip(pretended, shown, strict=True):
        keep_graphs(one, named)
    object.__setattr__(run, "pretended", shown)
    object.__setattr__(run, "notes", run.notes + notes)
