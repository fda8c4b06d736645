"""The steady state of every mode once more, all modes of a workload in turn: on a busy machine only this is fair.

It fills in a table that `compilescope.trials` made. Modes that the table lacks are tried with all their facts first.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import re
import runpy
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from compilescope.facts_modes import ModeTable, Trial
from compilescope.torch_internals import modes
from compilescope.trials import (
    Case,
    Subject,
    after_calls,
    attempt,
    first_calls,
    held_by,
    one_line,
    prepare,
    steady,
    subject,
)

Key = tuple[str, str]
"""Workload and mode."""
_NOTE = "Steady states: the modes of a workload took turns, round by round."
SECONDS = 3.0
LONGEST = 60.0
"""A mode that takes longer to start is left out, and one of which nothing is known is expected to take so long."""
_WITH_GRAPHS = "max-autotune", "reduce-overhead"
_ORDER = ("eager", "default", "max-autotune-no-cudagraphs", *_WITH_GRAPHS)
"""Graphs come last: while there are some, the memory they hold would be counted with what another mode keeps. What a
workload tuned is found again by its next modes, unless facts are taken anew."""


def in_rounds(
    recipe: Path,
    table: ModeTable,
    device: str,
    seconds: float,
    only: Sequence[str] = (),
    anew: bool = False,
    longest: float = LONGEST,
) -> Iterator[ModeTable]:
    """The table with the steady states of some more workloads, each time; `seconds` bound what is begun.

    Workloads with the same words are ways to do the same, and take turns with each other. `only` names workloads that
    shall have their turn, with those of the same words; the others stay as they are. `anew` takes all other facts
    anew, too, each from a cold cache. A mode of a workload that there is no time for, or that takes more than `longest`
    seconds to start, loses its steady state: it was not measured beside the others.
    """
    start = time.perf_counter()
    prepare(device)
    names = [one.name for one in table.workloads]
    known = {(one.workload, one.mode): one for one in table.trials}
    trials = {} if anew and not only else dict(known)  # one origin for all of it
    done: list[str] = []
    for group in together(table, only):
        left = seconds - (time.perf_counter() - start)
        if left < 3 * SECONDS:
            break
        kept = {key: _timeless(one) for key, one in trials.items() if key[0] in group}
        with torch.no_grad(), modes.cold_caches():
            found = _workloads(recipe, group, {} if anew else kept, known, device, left, longest)
        trials |= kept | found
        torch.compiler.reset()
        torch.set_float32_matmul_precision("highest")
        order = sorted(trials.values(), key=lambda one: (names.index(one.workload), _ORDER.index(one.mode)))
        done += group
        yield dataclasses.replace(table, trials=tuple(order), notes=_notes(table, done))


def together(table: ModeTable, only: Sequence[str] = ()) -> list[list[str]]:
    """Names of the workloads that take turns, in order; with `only`, those where one of them is named.

    Raises ValueError for a name that the table does not have.
    """
    if unknown := set(only) - {one.name for one in table.workloads}:
        raise ValueError(f"There is no workload {min(unknown)!r}.")
    groups: dict[str, list[str]] = {}
    for one in table.workloads:
        groups.setdefault(one.words, []).append(one.name)
    return [group for group in groups.values() if not only or set(group) & set(only)]


def _notes(table: ModeTable, done: Sequence[str]) -> tuple[str, ...]:
    """The table's notes but those on workloads that had their turn, with the day of each turn."""
    every = [one.name for one in table.workloads]
    notes = [one for one in table.notes if "left out" not in one and not one.startswith((_NOTE, *done))]
    for one in table.notes if set(done) < set(every) else ():
        if match := re.fullmatch(rf"{re.escape(_NOTE)} (.*): (\S+)\.", one):
            before = every if match[1] == "All" else match[1].split(", ")
            left = [name for name in before if name not in done]
            notes += [f"{_NOTE} {', '.join(left)}: {match[2]}."] if left else []
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return (*notes, f"{_NOTE} {'All' if set(done) == set(every) else ', '.join(done)}: {today}.")


def _expected(trials: dict[Key, Trial], name: str, mode: str, longest: float = LONGEST) -> float:
    """Seconds that this compile will take, as far as the table knows; if it does not, no more than is allowed."""
    like = trials.get((name, mode)) or trials.get((name, "max-autotune-no-cudagraphs"))
    return (like.start_s or 0.0) if like is not None else min(LONGEST, longest)


def _reserved(trials: dict[Key, Trial], name: str, mode: str) -> float:
    """Seconds to leave for modes that must not be missing beside `mode`."""
    others = ("default", "reduce-overhead") if mode.startswith("max-autotune") else ()
    return sum(_expected(trials, name, one) for one in others if (name, one) in trials) + SECONDS


def _workloads(
    recipe: Path,
    names: list[str],
    trials: dict[Key, Trial],
    known: dict[Key, Trial],
    device: str,
    seconds: float,
    longest: float,
) -> dict[Key, Trial]:
    """Trials of the workloads `names`: `trials`, and those that it lacks, with steady states; `known` says how long."""
    end = time.perf_counter() + seconds
    subjects: dict[Key, Subject] = {}
    found = {key: trials[key] for key, _ in _wanted(recipe, names) if key in trials}
    # The group's caches are empty for the first, too, and what they keep spares it its second compile.
    caches: contextlib.nullcontext[None] | None = contextlib.nullcontext()
    for key, make in _wanted(recipe, names):  # before there are others, whose graphs would be counted with its own
        if device == "cuda" and key not in trials and key[1] in _WITH_GRAPHS and _in_time(known, key, end, longest):
            found[key], caches = _timeless(attempt(*key, make, device, caches)), None
    for key, make in _wanted(recipe, names):
        if not _in_time(known | found, key, end, longest):
            continue
        try:
            ready = subject(key[1], make, device)
            if key not in found:
                found[key] = _all_facts(Trial(*key), ready, device)
            for number in range(2 * max(4, len(ready.calls))):
                ready.call(number)
            subjects[key] = ready
        except Exception as error:
            found[key] = dataclasses.replace(found.get(key, Trial(*key)), error=one_line(error))
    if subjects:
        for key, times in steady(subjects, device, SECONDS * len(names)).items():
            found[key] = dataclasses.replace(found[key], **times)
    return found


def _wanted(recipe: Path, names: list[str]) -> Iterator[tuple[Key, Callable[[str], Case]]]:
    """What to try, and how it is made: from code of its own each time, so that no cache is shared between modes."""
    for mode, name in ((mode, name) for mode in _ORDER for name in names):
        made = runpy.run_path(str(recipe))["WORKLOADS"][name]
        if mode in made.get("modes", _ORDER) and not (mode == "max-autotune" and made.get("group") == "precision"):
            yield (name, mode), made["make"]


def _in_time(trials: dict[Key, Trial], key: Key, end: float, longest: float) -> bool:
    takes = _expected(trials, *key, longest)
    return takes <= longest and time.perf_counter() + takes + _reserved(trials, *key) <= end


def _timeless(trial: Trial) -> Trial:
    return dataclasses.replace(trial, steady_us=None, steady_low_us=None, steady_high_us=None, timed_calls=0)


def _all_facts(trial: Trial, ready: Subject, device: str) -> Trial:
    """The trial with all that is not its steady state: the first calls from a cold cache of their own."""
    with modes.cold_caches():
        held = held_by(device)
        for reached in first_calls(trial, ready, device):
            trial = reached
        return dataclasses.replace(trial, **after_calls(ready, held)) if device == "cuda" else trial
