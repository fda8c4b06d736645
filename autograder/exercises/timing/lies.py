"""timing_5: what is wrong with a benchmark, told from what host and device did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.judging import called
from compilescope.clockwork import Buffer, ClockworkGpu
from compilescope.facts_timing import Span

LABEL = "find_lie(spans)"
LIES = ("no wait", "first call", "same input", "no work", "honest")
_WHY = {
    "no wait": "the last kernel ends after the clock was read",
    "first call": "a compile lies between the looks at the clock",
    "same input": "a buffer is read again and again, so it comes from the cache",
    "no work": "no kernel runs between the looks at the clock",
    "honest": "it waits, is warm, reads fresh inputs, and computes",
}
Model = Callable[[Buffer], Buffer]


def ask(draw: Draw) -> Values:
    """The time lines of five benchmarks in random order, one for each answer, each span as a dict."""
    order = sorted(LIES, key=lambda _: draw.size(0, 10**6))
    return {"benchmarks": [[_plain(span) for span in time_line(kind, draw)] for kind in order]}


def time_line(kind: str, draw: Draw) -> tuple[Span, ...]:
    """What a benchmark of that kind does on a device made of clockwork: warm-up, then some calls between two looks."""
    gpu = ClockworkGpu(draw.size(3, 9) * 1e-6)
    kernels, calls = [draw.size(20, 90) * 1e-6 for _ in range(draw.size(2, 3))], draw.size(3, 6)

    def model(x: Buffer) -> Buffer:
        for i, seconds in enumerate(kernels):
            x = gpu.launch(f"kernel_{i}", seconds, x)
        return x

    inputs = [gpu.buffer("x0" if kind == "same input" else f"x{i}") for i in range(calls + 1)]
    compiled = gpu.compiled(model, draw.number(0.2, 0.9) * 1e-3)
    wait_later = draw.choice((True, False))
    if kind != "first call":
        compiled(gpu.buffer("warm"))
        if kind == "no work":
            compiled = gpu.compiled(lambda x: model(x) and None, 2e-4)
            compiled(inputs[0])
    _between_two_looks(gpu, compiled, inputs[1:], wait=kind != "no wait")
    if wait_later or kind == "no wait":
        gpu.synchronize()
    return gpu.spans


def _between_two_looks(gpu: ClockworkGpu, fn: Callable[[Buffer], Any], inputs: Sequence[Buffer], wait: bool) -> None:
    gpu.synchronize()
    gpu.clock()
    for x in inputs:
        fn(x)
    if wait:
        gpu.synchronize()
    gpu.clock()


def _plain(span: Span) -> Values:
    return {"lane": span.lane, "name": span.name, "start": span.start, "seconds": span.seconds, "reads": [*span.reads]}


def spans_of(plain: Sequence[Values]) -> tuple[Span, ...]:
    """The spans that `ask` wrote down."""
    return tuple(Span(one["lane"], one["name"], one["start"], one["seconds"], tuple(one["reads"])) for one in plain)


def probe(answer: Answer, asked: Values) -> Values:
    """What the function says of each benchmark."""
    return {"said": [_said(called(LABEL, answer.find_lie, spans_of(one))) for one in asked["benchmarks"]]}


def _said(value: Any) -> str:
    if value not in LIES:
        raise NotYet(LABEL, f"returned {str(value)[:30]!r}", f"one of {', '.join(LIES)}", "Look at the docstring.")
    return str(value)


def lie_of(spans: Sequence[Span]) -> str:
    """What is wrong, from the spans alone."""
    start, stop = (one.start for one in spans if one.name == "clock")
    inside = [one for one in spans if start <= one.start < stop]
    kernels = [one for one in spans if one.lane == "device" and one.start >= start]
    read = [buffer for one in kernels for buffer in one.reads]
    if not kernels:
        return "no work"
    if any(one.end > stop + 1e-12 for one in kernels):
        return "no wait"
    if any(one.name == "compile" for one in inside):
        return "first call"
    return "same input" if len(set(read)) < len(read) else "honest"


def judge(asked: Values, found: Values) -> str:
    """The right answer for each of the five."""
    for plain, said in zip(asked["benchmarks"], found["said"], strict=True):
        spans = spans_of(plain)
        true = lie_of(spans)
        if said != true:
            start, stop = (one.start for one in spans if one.name == "clock")
            ran = f"find_lie of a benchmark that says {1e6 * (stop - start):.0f} µs"
            raise NotYet(ran, f"answers {said!r}", f"{true!r} is right: {_WHY[true]}", "Look at its time line.")
    return "four lies found, one benchmark cleared"


_RIGHT = """
def find_lie(spans):
    start, stop = [span.start for span in spans if span.name == "clock"]
    kernels = [span for span in spans if span.lane == "device" and span.start >= start]
    if not kernels:
        return "no work"
    if any(span.end > stop for span in kernels):
        return "no wait"
    if any(span.name == "compile" and start <= span.start < stop for span in spans):
        return "first call"
    read = [name for span in kernels for name in span.reads]
    return "same input" if len(read) > len(set(read)) else "honest"
"""

EXERCISE = Exercise(
    name="timing_5",
    lesson="02_timing",
    points=3,
    asks_for=("find_lie",),
    check=Check(ask, probe, judge),
    hints=(
        "Find the two looks at the clock first. What counts is what lies between them, on both lanes.",
        "No kernel: nothing computed. A kernel that ends after the second look: no wait. A compile between: first "
        "call. A buffer read twice: same input.",
        "start, stop = [span.start for span in spans if span.name == 'clock'], then four ifs over the spans between, "
        "and return 'honest' at the end.",
    ),
    known_mistakes=(
        KnownMistake("def find_lie(spans):\n    return 'honest'\n", "is right"),
        KnownMistake(  # a wait somewhere is not enough
            _RIGHT.replace(
                "any(span.end > stop for span in kernels)", "not any(span.name == 'wait' for span in spans)"
            ),
            "ends after the clock was read",
        ),
        KnownMistake(  # a compile before the clock starts is as it should be
            _RIGHT.replace(" and start <= span.start < stop for", " for"), "is right"
        ),
        KnownMistake(_RIGHT.replace("len(read) > len(set(read))", "len(set(read)) == 1"), "is right"),
        KnownMistake(  # kernels of the warm-up are work, but not what the clock saw
            _RIGHT.replace("    if not kernels:", "    if not any(span.lane == 'device' for span in spans):"),
            "no kernel runs",
        ),
        KnownMistake(_RIGHT.replace('return "no work"', 'return "nothing"'), "one of no wait"),
        KnownMistake(  # judges by what it claims
            "def find_lie(spans):\n"
            "    start, stop = [span.start for span in spans if span.name == 'clock']\n"
            "    return 'no wait' if stop - start < 5e-5 else 'honest'\n",
            "is right",
        ),
    ),
    alternatives=(
        _RIGHT,
        """
def find_lie(spans):
    looks = [i for i, span in enumerate(spans) if span.name == "clock"]
    begin, end = spans[looks[0]].start, spans[looks[-1]].start
    busy = sum(min(s.end, end) - s.start for s in spans if s.lane == "device" and begin <= s.start <= end)
    if busy == 0 and not any(s.lane == "device" and s.start > end for s in spans):
        return "no work"
    last = max(span.end for span in spans if span.lane == "device")
    if last > end:
        return "no wait"
    names = {span.name for span in spans if span.lane == "host" and begin <= span.start <= end}
    if "compile" in names:
        return "first call"
    seen = set()
    for span in spans:
        if span.lane == "device" and span.start >= begin:
            if seen & set(span.reads):
                return "same input"
            seen |= set(span.reads)
    return "honest"
""",
        """
from collections import Counter

def find_lie(spans):
    start, stop = sorted(span.start for span in spans if span.name == "clock")
    host = [s.name for s in spans if s.lane == "host" and start <= s.start <= stop]
    device = [s for s in spans if s.lane == "device" and s.start >= start]
    reads = Counter(name for s in device for name in s.reads)
    facts = {
        "no work": "launch" not in host,
        "no wait": max((s.end for s in device), default=0) > stop,
        "first call": "compile" in host,
        "same input": max(reads.values(), default=0) > 1,
        "honest": True,
    }
    return next(name for name, holds in facts.items() if holds)
""",
    ),
)
