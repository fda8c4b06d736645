"""Try workloads in every mode, each from a cold cache, and write down what each cost and did.

A workload is a function of the device that gives a dict: ``model`` (a module or function), ``calls`` (argument
tuples, taken in turn), and where they are not the usual, ``use(compiled, args)`` for what one call is, ``dynamic``,
``reference=False`` where float64 has nothing to compare.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import gc
import inspect
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

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
K = TypeVar("K")


def attempt(
    name: str,
    mode: str,
    make: Callable[[str], Case],
    device: str,
    caches: contextlib.AbstractContextManager[None] | None = None,
) -> Trial:
    """One trial; whatever is raised becomes its `error`, beside the facts gathered before.

    Inside `caches`, which are empty, or in empty ones of its own.
    """
    trial = Trial(name, mode)
    try:
        with torch.no_grad(), caches or modes.cold_caches():
            for reached in _stages(trial, make, device):
                trial = reached
    except Exception as error:
        trial = dataclasses.replace(trial, error=one_line(error))
    finally:
        torch.compiler.reset()
        torch.set_float32_matmul_precision("highest")
        held_by(device)
    return trial


def _stages(trial: Trial, make: Callable[[str], Case], device: str) -> Iterator[Trial]:
    torch.compiler.reset()
    made = subject(trial.mode, make, device)
    held = held_by(device)
    for reached in first_calls(trial, made, device):
        trial = reached
        yield trial
    trial = dataclasses.replace(trial, **steady({trial.mode: made}, device, STEADY_SECONDS)[trial.mode])
    yield trial
    if device == "cuda":
        trial = dataclasses.replace(trial, **after_calls(made, held))
        yield trial


def first_calls(trial: Trial, made: Subject, device: str) -> Iterator[Trial]:
    """The trial with each of the first calls, then with its rounding. Raises what a call raises, after its facts."""
    runs: list[Run] = []
    for number in range(made.first_calls):
        timed, run, error = _observed(made, number, device)
        runs.append(run)
        trial = dataclasses.replace(
            trial, calls=(*trial.calls, timed), cuda_graphs=_graphs(runs), autotuning=_tables(runs)
        )
        yield trial
        if error:
            raise error
    if made.reference:
        yield dataclasses.replace(trial, rounding=_rounding(made))


@dataclasses.dataclass(frozen=True)
class Subject:
    """A workload in one mode, ready to be called: ``call(0)``, ``call(1)``… take its arguments in turn."""

    model: Any
    compiled: Any
    calls: list[tuple[Any, ...]]
    use: Callable[..., Any]
    first_calls: int
    reference: bool

    def call(self, number: int) -> None:
        """One call."""
        self.use(self.compiled, self.calls[number % len(self.calls)])


def subject(mode: str, make: Callable[[str], Case], device: str) -> Subject:
    """The workload that `make` describes, in that mode, always with the same weights and inputs."""
    torch.manual_seed(0)
    case = make(device)
    model = case["model"]
    compiled = model if mode == "eager" else torch.compile(model, mode=mode, dynamic=case.get("dynamic"))
    use = case.get("use") or (lambda fn, args: fn(*args))
    firsts = max(FIRST_CALLS, case.get("first_calls", 0))
    return Subject(model, compiled, case["calls"], use, firsts, case.get("reference", True))


def _observed(made: Subject, number: int, device: str) -> tuple[TimedCall, Run, Exception | None]:
    error = None
    with observe() as run:
        start = time.perf_counter()
        try:
            made.call(number)
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


def _rounding(made: Subject) -> float | None:
    def double(value: Any) -> Any:
        return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else copy.copy(value)

    given = tuple(one.clone() if isinstance(one, torch.Tensor) else one for one in made.calls[0])
    exact = copy.deepcopy(made.model).double() if isinstance(made.model, torch.nn.Module) else made.model
    want = exact(*map(double, made.calls[0]))
    got = made.compiled(*given)
    if not isinstance(want, torch.Tensor):
        return None
    return float((got.double() - want).norm() / want.norm())


def steady(subjects: dict[K, Subject], device: str, seconds: float) -> dict[K, dict[str, Any]]:
    """Steady state of each, from calls in turn, round by round in random order, so that all meet the same machine."""
    times: dict[K, list[float]] = {one: [] for one in subjects}
    shuffled, end = random.Random(0), time.perf_counter() + seconds
    number = 0
    while number < 10 or (number < 1000 and time.perf_counter() < end):
        for one in shuffled.sample(list(subjects), len(subjects)):
            start = time.perf_counter()
            subjects[one].call(number)
            _wait(device)
            times[one].append(1e6 * (time.perf_counter() - start))
        number += 1
    return {one: _median(found) for one, found in times.items()}


def _median(times: list[float]) -> dict[str, Any]:
    deciles = statistics.quantiles(times, n=10)
    return {
        "steady_us": statistics.median(times),
        "steady_low_us": deciles[0],
        "steady_high_us": deciles[-1],
        "timed_calls": len(times),
    }


def after_calls(made: Subject, held: tuple[int, int]) -> dict[str, Any]:
    """Kernels, launches and memory of a steady call on a GPU; `held` is what `held_by` gave before the first one."""
    return {**_launched(made), **_memory(made, held)}


def _launched(made: Subject) -> dict[str, Any]:
    from torch.profiler import ProfilerActivity, profile

    rounds = max(3, len(made.calls))
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        for number in range(rounds):
            made.call(number)
        torch.cuda.synchronize()
    events = seen.events() or []
    kernels = sum(str(one.device_type).endswith("CUDA") and not one.name.startswith("Mem") for one in events)
    launches = sum(one.name.startswith(_LAUNCHES) for one in events)
    return {"kernels": kernels / rounds, "launches": launches / rounds}


def _memory(made: Subject, held: tuple[int, int]) -> dict[str, Any]:
    torch.cuda.reset_peak_memory_stats()
    for number in range(len(made.calls)):
        made.call(number)
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - held[0]
    _, reserved = held_by("cuda")
    return {"peak_bytes": peak, "kept_bytes": reserved - held[1], "pool_bytes": modes.graph_pool_bytes()}


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def one_line(error: Exception) -> str:
    """Type and first line of what was raised."""
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}"[:400]


def held_by(device: str) -> tuple[int, int]:
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
    prepare(device)
    for mode, name in ((m, n) for m in wanted for n in makers if m in makers[n].get("modes", wanted)):
        if (spent := time.perf_counter() - start) > seconds:
            notes.append(f"{name} in mode {mode} was left out: {spent:.0f} s were spent by then.")
        else:
            found.append(attempt(name, mode, makers[name]["make"], device))
        found.sort(key=lambda trial: (list(makers).index(trial.workload), wanted.index(trial.mode)))
        yield ModeTable(Origin("live", device, torch.__version__), works, tuple(found), options, defaults, tuple(notes))


def try_modes(fn: Any, /, *args: Any, modes_wanted: Sequence[str] = (), seconds: float = 300.0) -> ModeTable:
    """A module or function of yours in every mode of this torch (or those wanted), live, each from cold caches.

    It is called without gradients, always with `args`; compiling for all modes may take minutes on a GPU, and no
    further mode begins after `seconds`. Raises ValueError for a mode that this torch does not have.
    """
    known = ("eager", *modes.mode_options())
    if unknown := [mode for mode in modes_wanted if mode not in known]:
        raise ValueError(f"There is no mode {unknown[0]!r}: choose among {', '.join(known)}.")
    name = getattr(fn, "__name__", type(fn).__name__)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    work = {"words": f"{name}, live", "make": lambda device: {"model": fn, "calls": [args], "reference": False}}
    recipe = {"WORKLOADS": {name: work}, **({"MODES": tuple(modes_wanted)} if modes_wanted else {})}
    *_, found = tables(recipe, device, seconds)
    here = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    return dataclasses.replace(found, origin=Origin("live", here, torch.__version__))


def prepare(device: str) -> None:
    """Import Inductor and start its workers: these belong to no workload."""
    with torch.no_grad(), modes.cold_caches():
        square = torch.ones(64, 64, device=device)
        torch.compile(lambda x: (x @ x).sin(), mode="max-autotune" if device == "cuda" else None)(square)
        _wait(device)
    torch.compiler.reset()
