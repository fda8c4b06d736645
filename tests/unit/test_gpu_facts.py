"""Facts that only a GPU gives: what a CPU says of them, how torch's words are read; and the door leaves no trace."""

import types

import pytest
import torch
from torch._inductor import cudagraph_trees, cudagraph_utils, select_algorithm
from torch._inductor.runtime import triton_heuristics

from compilescope import describe, observe
from compilescope.facts import NO_GPU, CudaGraphs, GraphSkip, Kernel, Run
from compilescope.reading.cells import CellNames
from compilescope.reading.generated import read_code, with_loaded
from compilescope.torch_internals import gpu
from compilescope.watching_gpu import GpuWatch, read_skip

SKIP = """skipping cudagraphs due to mutated inputs (1 instances). Found from :
   File "lesson.py", line 12, in count_up
    x.add_(1)
"""


@pytest.fixture
def on_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    torch.compiler.reset()


@pytest.fixture
def watch():
    """A watch that believes in a GPU, and listens."""
    watch = GpuWatch(lambda: True)
    watch.there = True
    stop = gpu.listen(watch.event)
    yield watch
    stop()


def facts(watch):
    return watch.facts(CellNames({}))


def doors():
    manager = cudagraph_trees.CUDAGraphTreeManager
    return (
        manager.run_eager, manager.record_function, manager.execute_node, triton_heuristics.CachingAutotuner.bench,
        list(cudagraph_utils.cudagraphs_log.handlers),
        list(select_algorithm.get_algorithm_selector_cache().feedback_saver_fns),
    )  # fmt: skip


# ---------------------------------------------------------------------- without a GPU
def test_without_a_gpu_each_of_its_facts_is_none_and_says_why(on_the_cpu):
    run = observe(torch.compile(lambda x: x + 1, backend="eager"), torch.ones(4))
    assert (run.cuda_graphs, run.peak_memory_bytes, run.autotuning) == (None, None, ())
    assert {fact for fact, reason in run.missing.items() if reason == NO_GPU} == {
        "registers", "cuda_graphs", "peak_memory_bytes",
    }  # fmt: skip


def test_the_text_does_not_tell_a_learner_on_a_cpu_what_only_a_gpu_has(on_the_cpu):
    run = observe(torch.compile(lambda x: x + 1, backend="eager"), torch.ones(4))
    assert NO_GPU in run.missing.values()
    assert "Not known" not in describe(run)


def test_listening_replaces_names_and_puts_them_back_with_the_last_listener():
    before = doors()
    stop, stop_inner = gpu.listen(lambda *_: None), gpu.listen(lambda *_: None)
    during = doors()
    assert all(now is not then for now, then in zip(during[:4], before[:4], strict=True))
    assert [len(one) for one in during[4:]] == [len(one) + 1 for one in before[4:]]
    stop_inner()
    assert doors() == during
    stop()
    assert doors() == before


def test_listening_waits_for_the_cache_of_algorithms_and_does_not_make_it(monkeypatch):
    monkeypatch.setattr(select_algorithm, "_ALGORITHM_SELECTOR_CACHE", None)
    begin = select_algorithm.AlgorithmSelectorCache.__init__
    stop = gpu.listen(lambda *_: None)
    assert select_algorithm._ALGORITHM_SELECTOR_CACHE is None
    made = select_algorithm.get_algorithm_selector_cache()
    assert len(made.feedback_saver_fns) == 1
    stop()
    assert made.feedback_saver_fns == []
    assert select_algorithm.AlgorithmSelectorCache.__init__ is begin


def test_feedback_savers_of_others_stay():
    def theirs(*_):
        pass

    savers = select_algorithm.get_algorithm_selector_cache().feedback_saver_fns
    savers.append(theirs)
    try:
        observe(torch.compile(lambda x: x + 1, backend="eager"), torch.ones(4))
        assert theirs in select_algorithm.get_algorithm_selector_cache().feedback_saver_fns
    finally:
        savers.remove(theirs)


# ---------------------------------------------------------------------- candidates
def launcher(block, registers=16, spills=0):
    config = types.SimpleNamespace(kwargs={"XBLOCK": block}, num_warps=4, num_stages=1)
    return types.SimpleNamespace(config=config, n_regs=registers, n_spills=spills, shared=0)


def tuner(name, launchers):
    made = object.__new__(triton_heuristics.CachingAutotuner)
    made.fn, made.launchers, made.compile_id = types.SimpleNamespace(__name__=name), launchers, None
    return made


@pytest.fixture
def timed(monkeypatch):
    """`bench` gives the time that the test says."""
    times = {}
    monkeypatch.setattr(
        triton_heuristics.CachingAutotuner, "bench", lambda self, one, *_, **__: times[one.config.kwargs["XBLOCK"]]
    )
    return times


def test_configurations_that_were_timed_come_fastest_first_with_the_one_in_use(timed, watch):
    timed.update({128: 0.004, 256: 0.002, 512: float("inf")})
    candidates = [launcher(128), launcher(256, 32), launcher(512, 255, 40)]
    kernel = tuner("triton_poi_fused_add_0", candidates)
    assert [kernel.bench(one) for one in candidates] == [0.004, 0.002, float("inf")]
    kernel.launchers = [candidates[1]]
    watch.end([])
    (found,) = facts(watch)["autotuning"]
    assert (found.kind, found.subject) == ("configuration", "triton_poi_fused_add_0")
    assert [choice.time_us for choice in found.choices] == [2.0, 4.0, None]
    assert found.chosen == found.choices[0].name == "XBLOCK: 256, num_warps: 4, num_stages: 1"
    assert [choice.registers for choice in found.choices] == [32, 16, 255]
    assert found.choices[2].spills == 40


def test_one_configuration_alone_is_no_choice(timed, watch):
    timed[128] = 0.004
    kernel = tuner("triton_poi_fused_add_0", [launcher(128)])
    kernel.bench(kernel.launchers[0])
    watch.end([])
    assert facts(watch)["autotuning"] == ()


def test_a_launcher_that_cannot_be_read_is_a_missing_fact_and_the_time_comes_back(timed, watch):
    timed[128] = 0.004
    kernel = tuner("triton_poi_fused_add_0", [])
    del kernel.fn
    assert kernel.bench(launcher(128)) == 0.004
    assert "AttributeError" in watch.missing["autotuning of configurations"]


@pytest.mark.timeout(300)
def test_max_autotune_on_a_cpu_lists_the_algorithms_with_their_times(on_the_cpu):
    model, x = torch.nn.Linear(64, 64).eval(), torch.randn(32, 64)
    with torch.no_grad(), torch._inductor.config.patch(freezing=True):
        run = observe(torch.compile(model, mode="max-autotune"), x)
    (found,) = run.autotuning
    assert found.kind == "algorithm"
    assert found.compile_id == run.compiles[0].compile_id
    assert len(found.choices) >= 2
    assert any(choice.name.startswith("cpp_") for choice in found.choices)
    times = [choice.time_us for choice in found.choices]
    assert times == sorted(times)
    assert times[0] > 0
    assert found.chosen == found.choices[0].name
    assert Run.from_json(run.to_json()) == run
    assert f"{found.chosen} " in describe(run)


# ---------------------------------------------------------------------- CUDA graphs
def test_a_skip_is_read_into_its_reason_and_the_line_it_blames():
    skip = read_skip(SKIP)
    assert skip.reason == "mutated inputs (1 instances)"
    assert (skip.source.file, skip.source.line, skip.source.code) == ("lesson.py", 12, "x.add_(1)")
    assert read_skip("skipping cudagraphs due to cpu device (arg0_1)") == GraphSkip("cpu device (arg0_1)")


def test_what_torch_says_when_it_skips_is_heard_once(watch):
    for _ in range(2):
        cudagraph_utils.log_cudagraph_skip_and_bump_counter(SKIP)
    watch.end([({"compilation_metrics": {"cudagraph_skip_reason": SKIP}}, None, [])])
    assert facts(watch)["cuda_graphs"] == CudaGraphs(skipped=(read_skip(SKIP),))


def test_graphs_are_counted_by_what_the_manager_does(monkeypatch):
    manager = cudagraph_trees.CUDAGraphTreeManager
    for name in ("run_eager", "record_function", "execute_node"):
        monkeypatch.setattr(manager, name, lambda self, *_: "the outputs")
    watch = GpuWatch(lambda: True)
    watch.there = True
    stop = gpu.listen(watch.event)
    made = object.__new__(manager)
    assert made.run_eager([], 0) == "the outputs"
    assert made.record_function([], 0) == "the outputs"
    assert [made.execute_node(None, []) for _ in range(2)] == ["the outputs"] * 2
    stop()
    made.execute_node(None, [])
    assert facts(watch)["cuda_graphs"] == CudaGraphs(1, 1, 2)


def test_events_of_a_thread_that_has_its_own_watch_are_left_to_that_one():
    watch = GpuWatch(lambda: False)
    watch.there = True
    stop = gpu.listen(watch.event)
    cudagraph_utils.log_cudagraph_skip_and_bump_counter(SKIP)
    stop()
    assert facts(watch)["cuda_graphs"] == CudaGraphs()


# ---------------------------------------------------------------------- binaries and memory
def test_a_kernel_gets_what_its_loaded_binary_uses():
    code = read_code("", "0/0")
    code = type(code)("0/0", "inference", "", (Kernel("k", "triton"), Kernel("mm", "extern")))
    loaded = {"k": {"registers": 32, "spills": 0, "shared_bytes": 64, "configs": ["XBLOCK: 1"]}}
    kernel, library = with_loaded(code, loaded).kernels
    assert (kernel.registers, kernel.spills, kernel.shared_bytes, kernel.configs) == (32, 0, 64, ("XBLOCK: 1",))
    assert (library.registers, library.configs) == (None, ())


def test_code_for_a_gpu_says_so():
    assert read_code("with torch.cuda._DeviceGuard(0):\n    pass\n", "0/0").target == "cuda"
    assert read_code("def call(args):\n    pass\n", "0/0").target == "cpu"


@pytest.mark.parametrize(
    ("before", "after", "told", "why"),
    [
        ((100, 100), (150, 400), 300, ""),
        ((100, 100), (100, 100), 0, ""),
        ((100, 900), (150, 900), None, "reset_peak_memory_stats"),
        ((100, 900), (150, 300), None, "reset torch's peak itself"),
    ],
    ids=["a new peak", "nothing was needed", "hidden by an earlier peak", "reset in the block"],
)
def test_peak_memory_is_told_only_where_torch_still_knows_it(watch, before, after, told, why):
    watch.before, watch.after = before, after
    assert facts(watch)["peak_memory_bytes"] == told
    assert why in watch.missing.get("peak_memory_bytes", "")
    assert (told is None) == ("peak_memory_bytes" in watch.missing)
