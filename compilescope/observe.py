"""See what torch.compile does: `observe` gives one `Run` for the code it is put around."""

from __future__ import annotations

import contextlib
import dataclasses
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, overload

import torch

from compilescope.facts import Call, Compile, NotCompiled, Origin, Refusal, Run, Source
from compilescope.pretend import previewing
from compilescope.reading.cells import CellNames, cell_numbers
from compilescope.reading.finish import sources_of
from compilescope.reading.outcomes import Outcomes
from compilescope.reading.skips import REMEDIES
from compilescope.reading.stacks import belongs_to_learner
from compilescope.torch_internals import calls, functions, fusion, records, registry, settings
from compilescope.watching import Watch, source_of_code

Caches = Literal["bypass", "use"]
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
    run = Run(_origin())
    watch = Watch()
    with contextlib.ExitStack() as stack, previewing(on) as preview:
        if on:
            stack.callback(_add_pretended, run, preview)
        stack.callback(_fill, run, watch, fn, caches)
        watch.begin()
        stack.callback(watch.end)
        stack.callback(records.listen(watch.record))
        stack.callback(fusion.listen(watch.not_fused))
        watch.missing.update(stack.enter_context(calls.watching(watch)))
        watch.missing.update(stack.enter_context(settings.observing(bypass_caches=caches == "bypass")))
        watch.entered = time.perf_counter()
        yield run


def _origin() -> Origin:
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    triton = None
    with contextlib.suppress(ImportError):
        import triton as installed

        triton = str(installed.__version__)
    return Origin("live", name, torch.__version__, triton, platform.python_version(), time.strftime("%Y-%m-%d"))


def _fill(run: Run, watch: Watch, fn: Callable[..., Any] | None, caches: Caches) -> None:
    """Put the facts into the run. What cannot be read goes to `missing`: nothing is raised into the learner's code."""
    try:
        facts = _facts(watch, fn, caches)
    except Exception as error:
        facts = {"missing": {**watch.missing, "run": f"The facts could not be read: {type(error).__name__}: {error}"}}
    for name, value in facts.items():
        object.__setattr__(run, name, value)


def _add_pretended(run: Run, preview: Any) -> None:
    pretended, notes = preview.runs(run)
    cells = CellNames(cell_numbers())
    # also inside the generated code, whose remarks name the cell's temporary file
    shown = tuple(Run.from_json(cells.text(one.to_json())) for one in pretended)
    object.__setattr__(run, "pretended", shown)
    object.__setattr__(run, "notes", run.notes + notes)


def _facts(watch: Watch, fn: Callable[..., Any] | None, caches: Caches) -> dict[str, Any]:
    cells = CellNames(cell_numbers())
    builder = watch.built(cells)
    refused = {
        compile_id: tuple(watch.with_actual(compile_id, one) for one in refusals)
        for compile_id, refusals in builder.refused().items()
    }
    compiles = tuple(_completed(one, refused, caches) for one in builder.compiles())
    skipped = builder.not_compiled(lambda file: cells.sources({file}).get(file, ""))
    found_calls, not_compiled = Outcomes(watch.calls, compiles, skipped, refused).facts()
    found_calls, not_compiled = _calls_of_plain_code(found_calls, not_compiled, fn, watch)
    breaks = tuple(
        one if one.gb else dataclasses.replace(one, gb=registry.number_of(one.reason)) for one in builder.breaks()
    )
    facts: dict[str, Any] = {
        "calls": tuple(_shown(one, cells) for one in found_calls),
        "compiles": compiles,
        "breaks": tuple(_shown(one, cells) for one in breaks),
        "not_compiled": tuple(_shown(one, cells) for one in not_compiled),
        "phases": builder.phases(watch.began * 1e6),
        "notes": _notes(found_calls, compiles, not_compiled),
    }
    files = {source.file for source in sources_of(tuple(facts.values()))}
    facts["sources"] = cells.sources({file for file in files if belongs_to_learner(file)})
    facts["missing"] = {**watch.missing, **_hidden_by_hits(compiles)}
    return facts


def _hidden_by_hits(compiles: tuple[Compile, ...]) -> dict[str, str]:
    if not any("hit" in one.caches.values() for one in compiles):
        return {}
    reason = 'A cache of torch answered instead of a compile; observe with caches="bypass" to see it.'
    return dict.fromkeys(("not_fused", "origins of AOTAutograd's nodes"), reason)


def _completed(compiled: Compile, refused: dict[str, tuple[Refusal, ...]], caches: Caches) -> Compile:
    """With the values that guards met, and the caches that were left aside."""
    refusals = refused.get(compiled.compile_id, ())
    known = dict(compiled.caches)
    if caches == "bypass" and compiled.code:
        known = {"fx_graph": "bypass", "aot_autograd": "bypass", **known}
    return dataclasses.replace(compiled, refusals=refusals, caches=known)


def _calls_of_plain_code(
    found: tuple[Call, ...], reasons: tuple[NotCompiled, ...], fn: Callable[..., Any] | None, watch: Watch
) -> tuple[tuple[Call, ...], tuple[NotCompiled, ...]]:
    """What is not compiled at all: a plain function given to `observe`, or compiling turned off from outside."""
    if functions.disabled_by_environment():
        reason = "TORCHDYNAMO_DISABLE is set: torch.compile gives functions back as they are."
        name = functions.readable_name(fn) if fn else "everything"
        reasons = (*reasons, NotCompiled(name, reason, REMEDIES["environment"], None, "environment"))
    elif fn is not None and not found and not functions.is_compiled(fn):
        kind = "disabled" if functions.is_disabled(fn) else "plain"
        reason = "torch.compiler.disable is on it." if kind == "disabled" else "It is plain Python: not compiled."
        fact = NotCompiled(functions.readable_name(fn), reason, REMEDIES[kind], _source_of(fn), kind)
        reasons = (*reasons, fact)
    if fn is not None and not found:
        seconds = time.perf_counter() - watch.entered
        found = (Call(functions.readable_name(fn), "never compiled", seconds),)
    return found, reasons


def _source_of(fn: Any) -> Source | None:
    """Where the learner's function is defined; None if it has no Python code."""
    inner = functions.innermost(fn)
    code = getattr(getattr(inner, "forward", inner), "__code__", None)
    return source_of_code(code) if code is not None and belongs_to_learner(code.co_filename) else None


def _shown(fact: Any, cells: CellNames) -> Any:
    source: Source | None = fact.source
    if source is None:
        return fact
    code = source.code or cells.line(source.file, source.line)
    return dataclasses.replace(fact, source=dataclasses.replace(source, file=cells.file(source.file), code=code))


def _notes(
    found: tuple[Call, ...], compiles: tuple[Compile, ...], not_compiled: tuple[NotCompiled, ...]
) -> tuple[str, ...]:
    if compiles:
        return ()
    if not found:
        return ("No compiled function was called here.",)
    if all(call.outcome == "hit" for call in found):
        return ("Nothing was compiled: it was compiled before. torch.compiler.reset() lets you see it compile again.",)
    if all(call.outcome == "error" for call in found):
        return ("0 graphs: it raised before anything was compiled.",)
    return ("0 graphs: everything ran as plain Python.",)
