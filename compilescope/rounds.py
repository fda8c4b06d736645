"""The steady state of every mode once more, all modes of a workload in turn: on a busy machine only this is fair.

It fills in a table that `compilescope.trials` made. Modes that the table lacks are tried with all their facts first.
"""

from __future__ import annotations

import dataclasses
import math
import runpy
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from compilescope.facts_modes import ModeTable, Trial
from compilescope.torch_internals import modes
from compilescope.trials import Subject, first_calls, kept_by, one_line, prepare, steady, subject

_NOTE = "Steady states: the modes of a workload took turns, round by round."
SECONDS = 3.0
LONGEST = 60.0
"""A mode that takes longer to start is left out."""
_ORDER = ("eager", "max-autotune", "default", "reduce-overhead", "max-autotune-no-cudagraphs")
"""The first compile of a workload is cold; the others find what was tuned or compiled before."""


def in_rounds(recipe: Path, table: ModeTable, device: str, seconds: float) -> Iterator[ModeTable]:
    """The table with the steady states of one more workload, each time; `seconds` bound what is begun.

    A mode of a workload that there is no time for loses its steady state: it was not measured beside the others.
    """
    start = time.perf_counter()
    prepare(device)
    names = [one.name for one in table.workloads]
    trials = {(one.workload, one.mode): one for one in table.trials}
    for name in names:
        left = seconds - (time.perf_counter() - start)
        if left < 3 * SECONDS:
            break
        with torch.no_grad(), modes.cold_caches():
            trials |= _workload(recipe, name, trials, device, left)
        torch.compiler.reset()
        torch.set_float32_matmul_precision("highest")
        order = sorted(trials.values(), key=lambda one: (names.index(one.workload), _ORDER.index(one.mode)))
        notes = tuple(one for one in table.notes if "left out" not in one and one != _NOTE)
        yield dataclasses.replace(table, trials=tuple(order), notes=(*notes, _NOTE))


def _expected(trials: dict[tuple[str, str], Trial], name: str, mode: str) -> float:
    """Seconds that this compile will take, as far as the table knows; infinite if nothing is known."""
    like = trials.get((name, mode)) or trials.get((name, "max-autotune-no-cudagraphs"))
    return (like.start_s or 0.0) if like is not None else math.inf


def _reserved(trials: dict[tuple[str, str], Trial], name: str, mode: str) -> float:
    """Seconds to leave for modes that must not be missing beside `mode`."""
    others = ("default", "reduce-overhead") if mode == "max-autotune" else ()
    return sum(_expected(trials, name, one) for one in others if (name, one) in trials) + SECONDS


def _workload(
    recipe: Path, name: str, trials: dict[tuple[str, str], Trial], device: str, seconds: float
) -> dict[tuple[str, str], Trial]:
    end = time.perf_counter() + seconds
    subjects: dict[str, Subject] = {}
    found: dict[tuple[str, str], Trial] = {}
    for mode in _ORDER:
        made = runpy.run_path(str(recipe))["WORKLOADS"][name]  # code of its own: no cache is shared between modes
        if mode not in made.get("modes", _ORDER) or (mode == "max-autotune" and made.get("group") == "precision"):
            continue
        known = trials.get((name, mode))
        if known is not None:
            found[name, mode] = dataclasses.replace(
                known, steady_us=None, steady_low_us=None, steady_high_us=None, timed_calls=0
            )
        takes = _expected(trials, name, mode)
        if takes > LONGEST or time.perf_counter() + takes + _reserved(trials, name, mode) > end:
            continue
        try:
            held = kept_by(device)
            ready = subject(mode, made["make"], device)
            if known is None:
                found[name, mode] = _all_facts(Trial(name, mode), ready, device, held)
            for number in range(2 * max(4, len(ready.calls))):
                ready.call(number)
            subjects[mode] = ready
        except Exception as error:
            found[name, mode] = dataclasses.replace(known or Trial(name, mode), error=one_line(error))
    if subjects:
        for mode, times in steady(subjects, device, SECONDS).items():
            found[name, mode] = dataclasses.replace(found[name, mode], **times)
    return found


def _all_facts(trial: Trial, ready: Subject, device: str, held: int) -> Trial:
    for reached in first_calls(trial, ready, device):
        trial = reached
    return dataclasses.replace(trial, kept_bytes=kept_by(device) - held)
