"""A small table of modes, as a recording would hold it."""

from compilescope.facts import Autotuning, Choice, CudaGraphs, GraphSkip, Origin, Run, Source
from compilescope.facts_modes import ModeTable, TimedCall, Trial, Workload

ORIGIN = Origin("recorded", "NVIDIA H200", "2.11.0", date="2026-11-29")
MIB = 2**20
LINE = Source("cell 3", 4, "count_up", "x.add_(1)")
TUNED = Autotuning(
    "algorithm",
    "mm 8x8, 8x8",
    (Choice("triton_mm_1", 10.0, "BLOCK_M=16"), Choice("mm", 12.0), Choice("triton_mm_0", 30.0), Choice("bad", None)),
    "triton_mm_1",
)
RECORDED = (
    TimedCall(8.0, compiles=1, warmed_up=1, pool_bytes=2 * MIB),
    TimedCall(0.5, recorded=1, pool_bytes=20 * MIB),
    *(TimedCall(1e-3, replayed=1, pool_bytes=20 * MIB) for _ in range(4)),
)


def trial(mode, first, steady, **more):
    calls = more.pop("calls", (TimedCall(first, compiles=int(mode != "eager")), *(TimedCall(steady / 1e6),) * 5))
    return Trial("decode", mode, calls, steady_us=steady, kept_bytes=more.pop("kept_bytes", 0), **more)


TRIALS = (
    trial("eager", 0.01, 5000.0),
    trial("default", 10.0, 3000.0),
    trial("reduce-overhead", 8.0, 1000.0, calls=RECORDED, kept_bytes=100 * MIB, cuda_graphs=CudaGraphs(1, 1, 4)),
    trial("max-autotune-no-cudagraphs", 50.0, 2500.0, autotuning=(TUNED,), cuda_graphs=CudaGraphs()),
)
SKIPPED = Trial(
    "counter",
    "reduce-overhead",
    (TimedCall(1.0, 1, pool_bytes=0), TimedCall(1e-4, pool_bytes=0)),
    cuda_graphs=CudaGraphs(skipped=(GraphSkip("mutated inputs (1 instances)", LINE),)),
)
FAILED = Trial("counter", "default", (), error="RuntimeError: out of <memory>")
TABLE = ModeTable(
    ORIGIN,
    (Workload("decode", "one token"), Workload("counter", "counts up", "skips")),
    (*TRIALS, SKIPPED, FAILED),
    {"default": {}, "reduce-overhead": {"triton.cudagraphs": True}},
    {"triton.cudagraphs": False},
)


def run(what):
    """A run of one call that did this with CUDA graphs, or nothing."""
    return Run(ORIGIN, cuda_graphs=CudaGraphs(**{what: 1}) if what else CudaGraphs())
