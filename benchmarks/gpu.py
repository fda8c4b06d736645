"""Modes, regional and nested compile, placements over two GPUs: first call, steady state, share of the roofline.

``python benchmarks/gpu.py`` makes the table from the recordings in ``assets/recorded``; on a GPU machine
``python -m compilescope.recorded modes depth --out FOLDER`` measures them again; ``--recordings FOLDER`` shows those.
The floor of a case is the longer of two: its bytes (weights, inputs and results, each once) over the bandwidth, and
its FLOP over the rate of its precision, both as the data sheet of the H200 SXM gives them, dense.
"""

from __future__ import annotations

import argparse
import json
import runpy
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from compilescope.facts_modes import ModeTable, Trial
from compilescope.recorded import FOLDER, recipe_hash, recorded_modes
from compilescope.text import seconds

BANDWIDTH = 4.8e12
RATES = {"float32": 67e12, "TF32": 494.5e12, "bfloat16": 989e12}
MODES = "eager", "default", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune"
"""Those that torch.compile documents; torch lists ``lite``, too."""
PRECISIONS = {"fp32 high": "TF32", "fp32 medium": "bfloat16"}


class LargeOnMeta(str):
    """Device ``meta`` that recipes take for a GPU: their large sizes, and no memory."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other == "cuda"

    __hash__ = str.__hash__


def size_of(tensors: Any) -> int:
    """Bytes of the tensors among these."""
    return sum(one.numel() * one.element_size() for one in tensors if isinstance(one, torch.Tensor))


def floor_s(name: str, made: dict[str, Any]) -> float:
    """The least seconds that one call of the workload can take, by the data sheet."""
    torch.manual_seed(0)
    with torch.no_grad(), FlopCounterMode(display=False) as counted:
        case = made["make"](LargeOnMeta("meta"))
        model, args = case["model"], case["calls"][0]
        result = model(*args)
    weights = tuple(model.parameters()) if isinstance(model, torch.nn.Module) else ()
    moved = size_of((*weights, *args, result))
    rate = RATES[PRECISIONS.get(name, str(result.dtype).removeprefix("torch."))]
    return max(moved / BANDWIDTH, counted.get_total_flops() / rate)


def rows(recipe: Path, table: ModeTable) -> list[str]:
    """A row for each trial of the table: what it cost first, costs from then on, and its share of the floor."""
    workloads = runpy.run_path(str(recipe))["WORKLOADS"]
    lines = [
        "| case | mode | first call | until nothing compiles | a call | against eager | share of the roofline |",
        "|---|---|---|---|---|---|---|",
    ]
    for workload in table.workloads:
        made = workloads[workload.name]
        floor = floor_s(workload.name, made)
        trials = trials_of(table, workload.name)
        wanted = made.get("modes", MODES)
        trials += [Trial(workload.name, mode) for mode in wanted if mode not in {one.mode for one in trials}]
        eager = next((one.steady_us for one in _eager(table, workload.name) if one.steady_us), None)
        lines += [_row(workload.name, one, eager, floor) for one in trials]
    torch.set_float32_matmul_precision("highest")
    return lines


def trials_of(table: ModeTable, name: str) -> list[Trial]:
    """The trials of a workload that were recorded."""
    return [one for one in table.trials if one.workload == name]


def _eager(table: ModeTable, name: str) -> list[Trial]:
    """The trials that a workload is compared with: its own in eager, or ``eager DEPTH`` for ``whole DEPTH``."""
    depth = name.rpartition(" ")[2]
    names = {name, f"eager {depth}"}
    found = [one for one in table.trials if one.workload in names and one.mode == "eager"]
    return sorted(found, key=lambda one: one.workload != f"eager {depth}")


def _row(name: str, trial: Trial, eager_us: float | None, floor: float) -> str:
    if trial.steady_us is None:
        reason = trial.error or ("no steady state in this recording" if trial.calls else "not recorded")
        return f"| {name} | {trial.mode} | {_s(trial.first_s)} | {_s(trial.start_s)} | – | {reason} | – |"
    against = f"×{eager_us / trial.steady_us:.2f}" if eager_us else "–"
    share = floor / (trial.steady_us / 1e6)
    steady = seconds(trial.steady_us / 1e6)
    return f"| {name} | {trial.mode} | {_s(trial.first_s)} | {_s(trial.start_s)} | {steady} | {against} | {share:.0%} |"


def _s(value: float | None) -> str:
    return "–" if value is None else seconds(value)


def losses(tables: list[ModeTable]) -> list[str]:
    """A sentence for each case that is slower than eager, or slower than ``default`` under ``max-autotune``."""
    said = []
    for table in tables:
        for workload in table.workloads:
            timed = {one.mode: one.steady_us for one in trials_of(table, workload.name) if one.steady_us}
            eager = next((one.steady_us for one in _eager(table, workload.name) if one.steady_us), None)
            compared = [("eager", one, eager) for one in timed if eager and one in ("eager", "default")]
            if "default" in timed and "max-autotune" in timed:
                compared.append(("default", "max-autotune", timed["default"]))
            for other, mode, least in compared:
                if timed[mode] > 1.02 * least:
                    times = f"{timed[mode] / least:.2f} times slower than {other}"
                    said.append(f"- {workload.name}{'' if mode == other else f', {mode}'}: {times}.")
    return said


def placements(file: Path) -> tuple[list[str], list[str]]:
    """Rows of the recording over two GPUs, and a sentence for each placement that compiling makes slower."""
    stored = json.loads(file.read_text(encoding="utf-8"))
    eager = {
        row["placement"].partition(",")[0]: row["step_ms"]
        for row in stored["rows"]
        if "not compiled" in row["placement"]
    }
    size = ", ".join(f"{key} {value}" for key, value in stored["size"].items())
    lines = [
        f"## Two GPUs: {stored['device']}, {stored['backend']}, torch {stored['torch']}, {stored['date']}",
        "",
        size,
        "",
    ]
    lines += ["| placement | graphs | breaks | first call | a step | against eager |", "|---|---|---|---|---|---|"]
    slower = []
    for row in stored["rows"]:
        against = eager[row["placement"].partition(",")[0]] / row["step_ms"]
        first, step = seconds(row["first_s"]), seconds(row["step_ms"] / 1e3)
        lines.append(f"| {row['placement']} | {row['graphs']} | {row['breaks']} | {first} | {step} | ×{against:.2f} |")
        if against < 0.98:
            slower.append(f"- {row['placement']}: {1 / against:.2f} times slower than not compiled.")
    return lines, slower


def main() -> None:
    """Prints the page, or writes it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recordings", type=Path, default=FOLDER)
    parser.add_argument("-o", "--out", type=Path)
    options = parser.parse_args()
    tables = [recorded_modes(name, options.recordings) for name in ("modes", "depth")]
    page = ["# The course's cases on a GPU", "", "Made by `python benchmarks/gpu.py -o benchmarks/gpu.md`.", ""]
    for name, table in zip(("modes", "depth"), tables, strict=True):
        recipe, origin = FOLDER / "recipes" / f"{name}.py", table.origin
        stored = json.loads((options.recordings / f"{name}.json").read_text(encoding="utf-8"))["recipe"]
        where = f"{origin.device}, torch {origin.torch}, triton {origin.triton}, {origin.date}"
        page += [f"## Recording `{name}`: {where}", ""]
        page += ["The recipe changed since; floors are of the new one.", ""] if stored != recipe_hash(recipe) else []
        page += [*rows(recipe, table), "", *table.notes, ""]
    two, slower = placements(FOLDER / "ranks" / "placements.json")
    page += [*two, "", "## Where compiling loses", "", *losses(tables), *slower]
    text = "\n".join(page) + "\n"
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
