"""The facts of a run, from what a watch has heard. Each is read on its own: one that fails costs only itself."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any, Literal

from compilescope.facts import Call, Compile, GraphBreak, NotCompiled, Refusal, Source
from compilescope.reading.cells import CellNames
from compilescope.reading.finish import sources_of
from compilescope.reading.outcomes import Outcomes
from compilescope.reading.skips import REMEDIES
from compilescope.reading.stacks import belongs_to_learner
from compilescope.torch_internals import functions, registry
from compilescope.watching import Watch, source_of_code

Caches = Literal["bypass", "use"]


def facts_of(watch: Watch, fn: Callable[..., Any] | None, caches: Caches) -> dict[str, Any]:
    """The fields of a `Run`: what cannot be read is in ``missing``, with the reason; nothing is raised."""
    missing = watch.missing

    def read(name: str, default: Any, how: Callable[[], Any]) -> Any:
        try:
            return how()
        except Exception as error:
            missing[name] = f"{type(error).__name__} while this was put together: {error}"
            return default

    cells = CellNames(watch.cell_numbers)
    builder = watch.built(cells)
    refused = read("refusals", {}, lambda: _asked(watch, builder.refused(), cells))
    compiles = read("compiles", (), lambda: tuple(_completed(one, refused, caches) for one in builder.compiles()))
    skipped = read("not_compiled", (), lambda: builder.not_compiled(lambda file: cells.sources({file}).get(file, "")))
    found, reasons = read("calls", ((), ()), lambda: Outcomes(watch.calls, compiles, skipped, refused).facts())
    found, reasons = read("calls", (found, reasons), lambda: _calls_of_plain_code(found, reasons, fn, watch))
    facts: dict[str, Any] = {
        "calls": tuple(_shown(one, cells) for one in found),
        "compiles": compiles,
        "breaks": read("breaks", (), lambda: tuple(_shown(_numbered(one), cells) for one in builder.breaks())),
        "not_compiled": tuple(_shown(one, cells) for one in reasons),
        "phases": read("phases", (), lambda: builder.phases(watch.began * 1e6)),
        "notes": _notes(found, compiles, reasons),
    }
    facts |= read("autotuning", {}, lambda: watch.gpu.facts(cells))
    missing.update(watch.gpu.missing)
    files = {source.file for source in sources_of(tuple(facts.values()))}
    facts["sources"] = cells.sources({file for file in files if belongs_to_learner(file)})
    facts["missing"] = {**missing, **builder.problems, **_hidden_by_hits(compiles)}
    return facts


def _asked(watch: Watch, refused: dict[str, tuple[Refusal, ...]], cells: CellNames) -> dict[str, tuple[Refusal, ...]]:
    return {
        compile_id: tuple(watch.completed(compile_id, one, cells) for one in refusals)
        for compile_id, refusals in refused.items()
    }


def _numbered(one: GraphBreak) -> GraphBreak:
    return one if one.gb else dataclasses.replace(one, gb=registry.number_of(one.reason))


def _hidden_by_hits(compiles: tuple[Compile, ...]) -> dict[str, str]:
    if not any("hit" in (one.caches.get("fx_graph"), one.caches.get("aot_autograd")) for one in compiles):
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
