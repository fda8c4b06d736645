"""Try workloads in every mode, each from a cold cache, and write down what each cost and did.

A workload is a function of the device that gives a dict: ``model`` (a module or function), ``calls`` (argument
tuples, taken in turn), and where they are not the usual, ``use(compiled, args)`` for what one call is, ``dynamic``,
``reference=False`` where float64 has nothing to compare.
"""

from __future__ import annotations

import copy
import dataclasses
import gc
import inspect
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from compilescope.facts import Autotuning, CudaGraphs, Origin, Run
from compilescope.facts_modes import ModeTable, TimedCall, Trial, Workload
from compilescope.observe import observe
from compilescope.torch_internals import modes

FIRST_CALLS = 6
STEADY_SECONDS = 0.6
MOST_TABLES = 16
_LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaGraphLaunch", "cuGraphLaunch", "cudaMemcpyAsync")

Case = dict[str, Any]


def attempt(name: str, mode: str, make: Callable[[str], Case], device: str) -> Trial:
    """One trial; whatever is raised becomes its `error`, beside the facts gathered before."""
    trial = Trial(name, mode)
    try:
        with torch.no_grad(), modes.cold_caches():
            for reached in _stages(trial, make, device):
                trial = reached
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        trial = dataclasses.replace(trial, error=f"{type(error).__name__}: {first}"[:400])
    finally:
        torch.compiler.reset()
        torch.set_float32_matmul_precision("highest")
        _collect(device)
    return trial


def _stages(trial: Trial, make: Callable[[str], Case], device: str) -> Iterator[Trial]:
    torch.compiler.reset()
    torch.manual_seed(0)
    case = make(device)
    held = _collect(device)
    model, calls = case["model"], case["calls"]
    use = case.get("use") or (lambda fn, args: fn(*args))
    compiled = _compiled(model, trial.mode, case.get("dynamic"))
    runs: list[Run] = []
    for number in range(max(FIRST_CALLS, case.get("first_calls", 0))):
        timed, run, error = _observed(use, compiled, calls[number % len(calls)], device)
        runs.append(run)
        trial = dataclasses.replace(
            trial, calls=(*trial.calls, timed), cuda_graphs=_graphs(runs), autotuning=_tables(runs)
        )
        yield trial
        if error:
            raise error
    if case.get("reference", True):
        trial = dataclasses.replace(trial, rounding=_rounding(model, compiled, calls[0]))
    yield trial
    trial = dataclasses.replace(trial, **_steady(use, compiled, calls, device))
    yield trial
    if device == "cuda":
        trial = dataclasses.replace(trial, **_launched(use, compiled, calls), **_memory(use, compiled, calls, held))
        yield trial


def _compiled(model: Any, mode: str, dynamic: bool | None) -> Any:
    return model if mode == "eager" else torch.compile(model, mode=mode, dynamic=dynamic)


def _observed(
    use: Callable[..., Any], compiled: Any, args: Any, device: str
) -> tuple[TimedCall, Run, Exception | None]:
    error = None
    with observe() as run:
        start = time.perf_counter()
        try:
            use(compiled, args)
        except Exception as raised:
            error = raised
        _wait(device)
        seconds = time.perf_counter() - start
    graphs = run.cuda_graphs or CudaGraphs()
    pool = modes.graph_pool_bytes() if device == "cuda" else None
    timed = TimedCall(seconds, len(run.graphs), graphs.warmed_up, graphs.recorded, graphs.replayed, pool)
    return timed, run, error


def _graphs(runs: list[Run]) -> CudaGraphs | None:
    found = [run.cuda_graphs for run in runs if run.cuda_graphs]
    if not found:
        return None
    skipped = {skip.reason: skip for one in found for skip in one.skipped}
    warmed, recorded, replayed = (sum(getattr(g, n) for g in found) for n in ("warmed_up", "recorded", "replayed"))
    return CudaGraphs(warmed, recorded, replayed, tuple(skipped.values()))


def _tables(runs: list[Run]) -> tuple[Autotuning, ...]:
    """One table for each subject, algorithms first, then those with most candidates; `MOST_TABLES` at most."""
    found = {one.subject: one for run in runs for one in run.autotuning}
    order = sorted(found.values(), key=lambda one: (one.kind != "algorithm", -len(one.choices)))
    return tuple(order[:MOST_TABLES])


def _rounding(model: Any, compiled: Any, args: Any) -> float | None:
    def double(value: Any) -> Any:
        return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else copy.copy(value)

    given = tuple(one.clone() if isinstance(one, torch.Tensor) else one for one in args)
    exact = copy.deepcopy(model).double() if isinstance(model, torch.nn.Module) else model
    want = exact(*map(double, args))
    got = compiled(*given)
    if not isinstance(want, torch.Tensor):
        return None
    return float((got.double() - want).norm() / want.norm())


def _steady(use: Callable[..., Any], compiled: Any, calls: Any, device: str) -> dict[str, Any]:
    times: list[float] = []
    end = time.perf_counter() + STEADY_SECONDS
    while len(times) < 200 and (time.perf_counter() < end or len(times) < 10):
        start = time.perf_counter()
        use(compiled, calls[len(times) % len(calls)])
        _wait(device)
        times.append(1e6 * (time.perf_counter() - start))
    deciles = statistics.quantiles(times, n=10)
    return {
        "steady_us": statistics.median(times),
        "steady_low_us": deciles[0],
        "steady_high_us": deciles[-1],
        "timed_calls": len(times),
    }


def _launched(use: Callable[..., Any], compiled: Any, calls: Any) -> dict[str, Any]:
    from torch.profiler import ProfilerActivity, profile

    rounds = max(3, len(calls))
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        for number in range(rounds):
            use(compiled, calls[number % len(calls)])
        torch.cuda.synchronize()
    events = seen.events() or []
    kernels = sum(str(one.device_type).endswith("CUDA") and not one.name.startswith("Mem") for one in events)
    launches = sum(one.name.startswith(_LAUNCHES) for one in events)
    return {"kernels": kernels / rounds, "launches": launches / rounds}


def _memory(use: Callable[..., Any], compiled: Any, calls: Any, held: tuple[int, int]) -> dict[str, Any]:
    torch.cuda.reset_peak_memory_stats()
    for args in calls:
        use(compiled, args)
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - held[0]
    _, reserved = _collect("cuda")
    return {"peak_bytes": peak, "kept_bytes": reserved - held[1], "pool_bytes": modes.graph_pool_bytes()}


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _collect(device: str) -> tuple[int, int]:
    """Give unused memory back; bytes that tensors hold now, and bytes that the allocator holds."""
    gc.collect()
    if device != "cuda":
        return 0, 0
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return torch.cuda.memory_allocated(), torch.cuda.memory_reserved()


def tables(recipe: dict[str, Any], device: str, seconds: float) -> Iterator[ModeTable]:
    """All workloads of a recipe in all its modes, cheap modes first: the table so far, after each trial.

    The recipe has ``WORKLOADS``, name to `Workload` fields and ``make``, and where it wants fewer, ``MODES``. What
    `seconds` leave no time for is left out, and a note says so.
    """
    start = time.perf_counter()
    options = modes.mode_options()
    wanted = recipe.get("MODES") or ("eager", *sorted(options, key=lambda mode: len(options[mode])))
    makers = recipe["WORKLOADS"]
    works = tuple(
        Workload(name, one["words"], one.get("group", "modes"), inspect.getsource(one["make"]))
        for name, one in makers.items()
    )
    defaults = modes.option_defaults({option for given in options.values() for option in given})
    notes = ["The first call was observed by compilescope, which makes it a little slower."]
    found: list[Trial] = []
    _import_everything(device)
    for mode, name in ((m, n) for m in wanted for n in makers if m in makers[n].get("modes", wanted)):
        if (spent := time.perf_counter() - start) > seconds:
            notes.append(f"{name} in mode {mode} was left out: {spent:.0f} s were spent by then.")
        else:
            found.append(attempt(name, mode, makers[name]["make"], device))
        found.sort(key=lambda trial: (list(makers).index(trial.workload), wanted.index(trial.mode)))
        yield ModeTable(Origin("live", device, torch.__version__), works, tuple(found), options, defaults, tuple(notes))


def _import_everything(device: str) -> None:
    """Inductor's imports and workers belong to no workload."""
    with torch.no_grad(), modes.cold_caches():
        square = torch.ones(64, 64, device=device)
        torch.compile(lambda x: (x @ x).sin(), mode="max-autotune" if device == "cuda" else None)(square)
        _wait(device)
    torch.compiler.reset()
