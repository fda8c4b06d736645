"""Facts that only a real GPU can give, kept as JSON: each recording says where it is from and which recipe made it.

A recipe is a Python file in ``assets/recorded/recipes`` with ``model``, ``inputs(device)`` and, where a plain call is
not all, ``call(compiled, args)``; or one with ``WORKLOADS``, each tried in every mode (`compilescope.trials`).
One with ``measured()`` also gives timings, speeds, spans and numbers (`compilescope.facts_timing`).
``python -m compilescope.recorded`` runs the recipes on a GPU and writes the recordings; a test compares the hash of
each recipe with the one in its recording, without any GPU.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import hashlib
import json
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from compilescope.facts import Code, Kernel, Origin, Run
from compilescope.facts_modes import ModeTable
from compilescope.facts_timing import Measurements

FOLDER = Path(__file__).parents[1] / "assets" / "recorded"
TIMED_CALLS = 20


def recorded(name: str, folder: Path = FOLDER) -> Run:
    """The recorded Run called `name`. Raises ValueError with the names there are, or what is wrong with the file."""
    return Run.from_json(_stored(name, "run", folder))


def recorded_modes(name: str, folder: Path = FOLDER) -> ModeTable:
    """The recorded table of modes called `name`. Raises ValueError as `recorded` does."""
    return ModeTable.from_json(_stored(name, "modes", folder))


def recorded_times(name: str, folder: Path = FOLDER) -> Measurements:
    """What the recipe called `name` measured by the clock. Raises ValueError as `recorded` does."""
    return Measurements.from_dict(json.loads(_stored(name, "measurements", folder)))


def _stored(name: str, what: str, folder: Path) -> str:
    path = folder / f"{name}.json"
    if not path.is_file():
        known = ", ".join(sorted(one.stem for one in folder.glob("*.json"))) or "none"
        raise ValueError(f"There is no recording {name!r} (there is: {known}). On a GPU, make record writes it.")
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return json.dumps(stored[what])
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{path.name} is no recording: write it again on a GPU with make record.") from error


def recipe_hash(path: Path) -> str:
    """SHA-256 of the recipe's text, the same on each platform."""
    text = path.read_text(encoding="utf-8").replace("\r\n", "\n")
    return hashlib.sha256(text.encode()).hexdigest()


def stale(folder: Path = FOLDER) -> list[str]:
    """A sentence for each recording whose recipe changed or is gone. Needs no GPU."""
    found = []
    for path in sorted(folder.glob("*.json")):
        recipe = folder / "recipes" / f"{path.stem}.py"
        stored = json.loads(path.read_text(encoding="utf-8"))
        if not recipe.is_file():
            found.append(f"{path.name} has no recipe: delete it, or bring back recipes/{recipe.name}.")
        elif stored.get("recipe") != recipe_hash(recipe):
            found.append(f"recipes/{recipe.name} changed after {path.name} was recorded: make record, on a GPU.")
    return found


def unrecorded(folder: Path = FOLDER) -> list[str]:
    """Names of the recipes that have no recording yet."""
    return sorted(p.stem for p in (folder / "recipes").glob("*.py") if not (folder / f"{p.stem}.json").is_file())


def record(recipe: Path, out: Path, seconds: float = 400) -> Path:
    """Run a recipe and write its recording to `out`; gives the file's path. Raises RuntimeError without a GPU.

    A table of modes begins no further trial after `seconds`.
    """
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("There is no GPU here: a recording needs one.")
    made = runpy.run_path(str(recipe))
    path = out / f"{recipe.stem}.json"
    if "WORKLOADS" in made:
        from compilescope.trials import tables

        for modes in tables(made, "cuda", seconds):  # what is there survives an end that comes too early
            print(str(modes.trials[-1:])[:300], flush=True)
            told = dataclasses.replace(modes, origin=_origin())
            _write(path, recipe, {"modes": _clean(json.loads(told.to_json()))})
        return path
    facts = {"run": json.loads(normalized(_observed(made)).to_json())}
    if "measured" in made:
        measurements = Measurements(_origin(), **made["measured"]()).from_origin(_origin())
        facts["measurements"] = _clean(measurements.to_dict())
    _write(path, recipe, facts)
    return path


def record_rounds(
    recipe: Path,
    known: Path,
    out: Path,
    seconds: float = 400,
    only: Sequence[str] = (),
    anew: bool = False,
    longest: float = 60,
) -> Path:
    """A recorded table of modes, `known`, with its steady states measured anew, in rounds; gives the new file's path.

    `only`, `anew` and `longest` as in `compilescope.rounds.in_rounds`. Raises ValueError if the recipe changed since,
    RuntimeError without a GPU.
    """
    import torch

    from compilescope.rounds import in_rounds

    if not torch.cuda.is_available():
        raise RuntimeError("There is no GPU here: a recording needs one.")
    if json.loads(known.read_text(encoding="utf-8")).get("recipe") != recipe_hash(recipe):
        raise ValueError(f"{recipe.name} changed after {known.name} was recorded: record it as a whole.")
    path = out / f"{recipe.stem}.json"
    table = recorded_modes(known.stem, known.parent)
    if anew and not only:
        table = dataclasses.replace(table, origin=_origin())
    for modes in in_rounds(recipe, table, "cuda", seconds, only, anew, longest):
        _write(path, recipe, {"modes": _clean(json.loads(modes.to_json()))})
        print(*(f"{one.workload}, {one.mode}: {one.steady_us}" for one in modes.trials), sep="\n", flush=True)
    return path


def _write(path: Path, recipe: Path, facts: dict[str, Any]) -> None:
    stored = {"recipe": recipe_hash(recipe), **facts}
    path.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _observed(made: dict[str, Any]) -> Run:
    import torch

    from compilescope.observe import observe

    args = made["inputs"]("cuda")
    call: Callable[[Any, Any], Any] = made.get("call") or (lambda compiled, given: compiled(*given))
    torch.compiler.reset()
    compiled = torch.compile(made["model"])
    run = observe(lambda: call(compiled, args))
    torch.cuda.reset_peak_memory_stats()
    times = _kernel_times(lambda: call(compiled, args))
    peak = torch.cuda.max_memory_allocated()
    notes = (*run.notes, f"Peak memory of a call: {peak / 2**20:,.0f} MiB.")
    return dataclasses.replace(with_times(run, times), origin=_origin(), notes=notes)


def _origin() -> Origin:
    import platform

    import torch

    from compilescope.torch_internals.pretend_world import driver_version, triton_version

    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return Origin(
        "recorded", torch.cuda.get_device_name(), torch.__version__, triton_version(), platform.python_version(), today,
        driver_version(),
    )  # fmt: skip


def _kernel_times(call: Callable[[], Any]) -> dict[str, float]:
    """Mean microseconds of each GPU kernel over `TIMED_CALLS` calls, by the kernel's name."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    for _ in range(3):
        call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        for _ in range(TIMED_CALLS):
            call()
        torch.cuda.synchronize()
    return {
        event.key: event.self_device_time_total / event.count
        for event in found.key_averages()
        if event.count and event.self_device_time_total
    }


def with_times(run: Run, times: dict[str, float]) -> Run:
    """The run with ``time_us`` of each Triton kernel whose name was measured."""

    def timed(kernel: Kernel) -> Kernel:
        return dataclasses.replace(kernel, time_us=times.get(kernel.name, kernel.time_us))

    def timed_code(code: Code) -> Code:
        return dataclasses.replace(code, kernels=tuple(timed(kernel) for kernel in code.kernels))

    compiles = tuple(
        dataclasses.replace(one, code=tuple(timed_code(code) for code in one.code)) for one in run.compiles
    )
    return dataclasses.replace(run, compiles=compiles)


_FOLDERS = re.compile(r"(?<![\w:/.])(?:[A-Za-z]:)?(?:[/\\][\w.@+~-]+)+[/\\](?=[\w.@+~-]+\.\w+)")
_OF_ONE_PROCESS = (
    (_FOLDERS, ""),
    # a folder that torch cut off on its left, but for torch's own
    (re.compile(r"(?<= # )(?!_dynamo/)[\w.@+~/-]+/(?=[\w.@+~-]+\.py:\d+ in )"), ""),
    (re.compile(r"\b0x[0-9a-f]{6,}\b"), "0x0"),
    (re.compile(r"(___check_(?:obj|type)_id\([^\n]*?, )\d{6,}"), r"\g<1>0"),
    (re.compile(r"(?<=__optimizer)(?:_\d{6,})+"), ""),
    (re.compile(r"(?<=__compiled_fn_)(\d+)_[0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12}\b"), r"\1"),
    (re.compile(r"\nGuard latency = .*"), ""),
)
"""What no second run says again, and what stands for it."""


def normalized(run: Run) -> Run:
    """The run without folders, addresses, random parts of names: what the next process would say otherwise."""
    return Run.from_json(json.dumps(_clean(json.loads(run.to_json()))))


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        for pattern, plain in _OF_ONE_PROCESS:
            value = pattern.sub(plain, value)
        return value
    if isinstance(value, list):
        return [_clean(one) for one in value]
    return {_clean(key): _clean(one) for key, one in value.items()} if isinstance(value, dict) else value


def main(arguments: list[str] | None = None) -> int:
    """``python -m compilescope.recorded [NAME...] [--out FOLDER]``: record the recipes, or say which are stale."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", help="recipes to run; all of them if none is named")
    parser.add_argument("--out", type=Path, default=FOLDER, help="where the recordings go")
    parser.add_argument("--seconds", type=float, default=400, help="no further trial of a table begins after these")
    parser.add_argument("--rounds", type=Path, help="a recorded table whose steady states are to be measured anew")
    parser.add_argument("--only", nargs="+", default=(), help="with --rounds: workloads that have their turn")
    parser.add_argument("--anew", action="store_true", help="with --rounds: take all other facts anew, too")
    parser.add_argument(
        "--longest", type=float, default=60, help="with --rounds: seconds that a mode may take to start"
    )
    parser.add_argument("--check", action="store_true", help="only say which recordings are stale")
    options = parser.parse_args(arguments)
    if options.check:
        problems = stale() + [f"recipes/{name}.py was never recorded: make record, on a GPU." for name in unrecorded()]
        print("\n".join(problems) or "Each recording fits its recipe.")
        return 1 if problems else 0
    options.out.mkdir(parents=True, exist_ok=True)
    recipes = sorted((FOLDER / "recipes").glob("*.py"))
    chosen = [one for one in recipes if not options.names or one.stem in options.names]
    if len(chosen) > 1 and not options.rounds:  # the second recipe of a process compiles with other names and phases
        settings = "--out", str(options.out), "--seconds", str(options.seconds)
        commands = ([sys.executable, "-m", "compilescope.recorded", one.stem, *settings] for one in chosen)
        return int(any(subprocess.run(command, check=False).returncode for command in commands))
    for recipe in chosen:
        try:
            if options.rounds:
                asked = options.only, options.anew, options.longest
                print(record_rounds(recipe, options.rounds, options.out, options.seconds, *asked))
            else:
                print(record(recipe, options.out, options.seconds))
        except (RuntimeError, ValueError) as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
