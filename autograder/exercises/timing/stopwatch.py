"""timing_1: seconds of work that a device does while the host is already back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.judging import called
from compilescope.clockwork import ClockworkGpu

LABEL = "timed(fn, synchronize, clock)"
_CASES = ("an idle device", "work still in the queue", "a host slower than the device")


def ask(draw: Draw) -> Values:
    """Three times of kernels in seconds, for a device made of clockwork: idle, busy before, and one that waits."""
    cases = []
    for name in _CASES:
        kernels = [draw.size(1, 20) * 1e-3 for _ in range(draw.size(2, 5))]
        cases.append(
            {
                "name": name,
                "launch": draw.size(5, 20) * 1e-6,
                "pending": [draw.size(30, 90) * 1e-3] if name == _CASES[1] else [],
                "python": 2 * sum(kernels) if name == _CASES[2] else draw.size(1, 9) * 1e-4,
                "kernels": kernels,
            }
        )
    return {"cases": cases, "device": draw.device}


def _device(case: Values) -> tuple[ClockworkGpu, Callable[[], Any], list[int]]:
    """The device with what is already in its queue, the function to time, and the number of its calls."""
    gpu, calls = ClockworkGpu(case["launch"]), [0]
    for seconds in case["pending"]:
        gpu.launch("before", seconds)

    def fn() -> Any:
        calls[0] += 1
        result = gpu.buffer("x")
        for seconds in case["kernels"]:
            result = gpu.launch("kernel", seconds, result)
        gpu.work(case["python"], "python")
        return result

    return gpu, fn, calls


def probe(answer: Answer, asked: Values) -> Values:
    """What `timed` says of each case, and how often it called; on a real GPU, whether that was waited for."""
    said, calls = [], []
    for case in asked["cases"]:
        gpu, fn, called_so_often = _device(case)
        value = called(LABEL, answer.timed, fn, gpu.synchronize, gpu.clock)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            kind = "None" if value is None else f"a {type(value).__name__}"
            raise NotYet(LABEL, f"returned {kind}", "seconds as a number are wanted", "Look at your return line.")
        said.append(float(value))
        calls.append(called_so_often[0])
    return {"seconds": said, "calls": calls, "gpu": _on_the_gpu(answer) if asked["device"] == "cuda" else {}}


def _on_the_gpu(answer: Answer) -> Values:
    """Whether the GPU was idle when the function began, and when `timed` returned: facts, no seconds."""
    x = torch.randn(4096, 4096, device="cuda")
    before, after, idle = torch.cuda.Event(), torch.cuda.Event(), [False]

    def work() -> torch.Tensor:
        y = x
        for _ in range(20):
            y = y @ x
        return y

    def fn() -> torch.Tensor:
        idle[0] = before.query()
        y = work()
        after.record()
        return y

    ticks = iter(range(10**6))
    work()
    before.record()
    called(LABEL, answer.timed, fn, torch.cuda.synchronize, lambda: float(next(ticks)))
    return {"when fn began": idle[0], "when it returned": after.query()}


def judge(asked: Values, found: Values) -> str:
    """The seconds from an idle device until the last kernel is done, for each case; one call each."""
    for case, said, calls in zip(asked["cases"], found["seconds"], found["calls"], strict=True):
        if calls != 1:
            times = f"called fn {calls} times"
            raise NotYet(LABEL, times, "one call is wanted", "Warming up is the caller's part.")
        _same_seconds(case, said)
    for when, idle in found["gpu"].items():
        if not idle:
            raise NotYet(LABEL, f"left the real GPU busy {when}", "its queue has to be empty", "Look at synchronize.")
    return "right to the microsecond"


def _same_seconds(case: Values, said: float) -> None:
    gpu, fn, _ = _device(case)
    gpu.synchronize()
    start = gpu.clock()
    fn()
    back = gpu.clock() - start
    gpu.synchronize()
    true = gpu.clock() - start
    if abs(said - true) <= 1e-9:
        return
    pending = sum(case["pending"])
    look = "Look at what clock() says, and in which unit."
    if abs(said - back) <= 1e-9 or said < true / 2:
        look = "Look at what the device does when you read the clock the second time."
    elif case["pending"] and true < said <= true + pending + 1e-9:
        look = "Look at what is in the queue when the clock starts."
    got = f"says {said * 1e3:.3f} ms for {case['name']}"
    raise NotYet(LABEL, got, f"the work takes {true * 1e3:.3f} ms", look)


def _timed(*lines: str) -> str:
    return "import time\ndef timed(fn, synchronize, clock):\n" + "".join(f"    {line}\n" for line in lines)


_SECOND_LOOK, _QUEUE = "read the clock the second time", "in the queue when the clock starts"

EXERCISE = Exercise(
    name="timing_1",
    lesson="02_timing",
    points=2,
    asks_for=("timed",),
    check=Check(ask, probe, judge),
    hints=(
        "Look at the two time lines above: where do the two looks at the clock stand?",
        "A stopwatch starts when nothing is left from before, and stops when the work is done: the host has to wait "
        "at both moments.",
        "synchronize(), then start = clock(), then fn(), then synchronize(), then return clock() - start.",
    ),
    known_mistakes=(
        KnownMistake(_timed("start = clock()", "fn()", "return clock() - start"), _SECOND_LOOK),
        KnownMistake(_timed("start = clock()", "fn()", "synchronize()", "return clock() - start"), _QUEUE),
        KnownMistake(_timed("synchronize()", "start = clock()", "fn()", "return clock() - start"), _SECOND_LOOK),
        KnownMistake(
            _timed("start = clock()", "synchronize()", "fn()", "synchronize()", "return clock() - start"), _QUEUE
        ),
        KnownMistake(  # the clock of the real host knows nothing of this device
            _timed("synchronize()", "start = time.perf_counter()", "fn()", "synchronize()")
            + "    return time.perf_counter() - start\n",
            "the work takes",
        ),
        KnownMistake(
            _timed("fn()", "synchronize()", "start = clock()", "fn()", "synchronize()", "return clock() - start"),
            "called fn 2 times",
        ),
        KnownMistake(
            _timed("synchronize()", "start = clock()", "fn()", "synchronize()", "return 1e3 * (clock() - start)"),
            "in which unit",
        ),
        KnownMistake(_timed("synchronize()", "start = clock()", "fn()", "synchronize()"), "returned None"),
        KnownMistake(_timed("return 0.031"), "called fn 0 times"),
    ),
    alternatives=(
        _timed("synchronize()", "start = clock()", "fn()", "synchronize()", "return clock() - start"),
        _timed(
            "def now():", "    synchronize()", "    return clock()", "start = now()", "fn()", "return -(start - now())"
        ),
        """
from contextlib import contextmanager

def timed(fn, synchronize, clock):
    @contextmanager
    def window():
        synchronize()
        times = [clock()]
        yield times
        synchronize()
        times.append(clock())

    with window() as times:
        fn()
    return times[1] - times[0]
""",
    ),
)
