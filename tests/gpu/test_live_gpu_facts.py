"""What a live run on a GPU gives beside a run on the CPU: binaries, timed candidates, CUDA graphs, memory."""

import pytest
import torch
import torch.distributed as dist

from compilescope import observe, on_ranks
from compilescope.facts import Run

pytestmark = pytest.mark.gpu
MIB = 2**20


@pytest.fixture(autouse=True)
def _fresh(gpu):
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def launchers(name):
    """Of each kernel of this name that torch has loaded and decided about: the launcher."""
    from torch._inductor.codecache import PyCodeCache
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    tuners = [vars(module).get(name) for module in PyCodeCache.modules]
    return [one.launchers[0] for one in tuners if isinstance(one, CachingAutotuner) and len(one.launchers) == 1]


def test_registers_spills_and_shared_memory_are_those_of_the_loaded_binary():
    def scores(x, w):
        return torch.softmax(x.sin() * w, dim=-1).sum(0)

    run = observe(torch.compile(scores), torch.randn(512, 1024, device="cuda"), torch.randn(1024, device="cuda"))
    kernels = [kernel for kernel in run.kernels if kernel.language == "triton"]
    assert kernels
    assert {code.target for code in run.code} == {"cuda"}
    for kernel in kernels:
        loaded = {(one.n_regs, one.n_spills, one.shared) for one in launchers(kernel.name)}
        assert loaded == {(kernel.registers, kernel.spills, kernel.shared_bytes)}
        assert 0 < kernel.registers <= 255
        assert len(kernel.configs) == 1
    assert any(kernel.shared_bytes for kernel in kernels), "a reduction exchanges its partial sums"
    assert "registers" not in run.missing


def test_the_configurations_of_a_kernel_are_timed_at_its_first_call_and_the_fastest_is_taken():
    options = {"max_autotune_pointwise": True, "autotune_local_cache": False}
    compiled = torch.compile(lambda x: x.t().contiguous() * 2 + 1, options=options)
    x = torch.randn(2048, 1024, device="cuda")
    run = observe(compiled, x)
    tuned = [one for one in run.autotuning if one.kind == "configuration"]
    assert tuned
    assert {one.subject for one in tuned} <= {kernel.name for kernel in run.kernels}
    for one in tuned:
        assert len(one.choices) > 1
        assert one.chosen == one.choices[0].name
        assert all(choice.time_us is None or choice.time_us > 0 for choice in one.choices)
        assert one.choices[0].registers
        (kernel,) = [kernel for kernel in run.kernels if kernel.name == one.subject]
        assert kernel.configs == (one.chosen,)
    assert observe(compiled, x).autotuning == ()


def test_max_autotune_lists_the_algorithms_of_a_matrix_product_with_their_times():
    compiled = torch.compile(torch.mm, mode="max-autotune-no-cudagraphs")
    a, b = (torch.randn(512, 512, device="cuda", dtype=torch.float16) for _ in range(2))
    run = observe(compiled, a, b)
    (tuned,) = [one for one in run.autotuning if one.kind == "algorithm"]
    assert tuned.subject == "mm 512x512, 512x512"
    assert tuned.compile_id == run.compiles[0].compile_id
    names = [choice.name for choice in tuned.choices]
    assert "mm" in names
    assert any(name.startswith("triton_mm") for name in names)
    assert tuned.chosen == names[0]
    times = [choice.time_us for choice in tuned.choices if choice.time_us is not None]
    assert times == sorted(times)
    assert times[0] > 0


def test_a_cuda_graph_is_warmed_up_then_recorded_then_replayed():
    compiled = torch.compile(lambda x: torch.relu(x @ x) + 1, mode="reduce-overhead")
    x = torch.randn(64, 64, device="cuda")
    seen = []
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        graphs = observe(compiled, x).cuda_graphs
        seen.append((graphs.warmed_up, graphs.recorded, graphs.replayed))
        assert graphs.skipped == ()
    assert seen == [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 1)]


def test_without_cuda_graphs_there_is_nothing_to_count():
    run = observe(torch.compile(lambda x: x + 1), torch.ones(8, device="cuda"))
    assert (run.cuda_graphs.recorded, run.cuda_graphs.replayed, run.cuda_graphs.skipped) == (0, 0, ())


def count_up(x):
    x.add_(1)
    return x * 2


def test_a_changed_input_keeps_cuda_graphs_away_and_the_line_is_named():
    run = observe(torch.compile(count_up, mode="reduce-overhead"), torch.ones(64, device="cuda"))
    assert (run.cuda_graphs.recorded, run.cuda_graphs.replayed) == (0, 0)
    (skip,) = run.cuda_graphs.skipped
    assert "mutated" in skip.reason
    assert skip.source.line == count_up.__code__.co_firstlineno + 1


def test_peak_memory_is_that_of_the_tensors_and_the_learners_own_peak_stays():
    x = torch.randn(4 * MIB, device="cuda")  # 16 MiB
    compiled = torch.compile(lambda x: (x.sin(), x.cos()))
    compiled(x)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.max_memory_allocated()
    run = observe(compiled, x)
    assert torch.cuda.max_memory_allocated() == run.peak_memory_bytes + before
    assert 32 * MIB <= run.peak_memory_bytes <= 40 * MIB


def test_a_peak_that_an_earlier_one_hides_is_missing_with_the_remedy():
    earlier = torch.empty(64 * MIB, device="cuda")
    del earlier
    run = observe(torch.compile(lambda x: x + 1), torch.ones(8, device="cuda"))
    assert run.peak_memory_bytes is None
    assert "reset_peak_memory_stats" in run.missing["peak_memory_bytes"]


def test_a_run_with_the_facts_of_a_gpu_comes_back_from_json():
    run = observe(torch.compile(count_up, mode="reduce-overhead"), torch.ones(64, device="cuda"))
    assert Run.from_json(run.to_json()) == run


def test_an_observation_puts_the_replaced_names_back():
    import torch._inductor.cudagraph_trees as trees
    import torch._inductor.runtime.triton_heuristics as heuristics
    from torch._inductor import cudagraph_utils, select_algorithm

    def state():
        manager = trees.CUDAGraphTreeManager
        return (
            manager.run_eager, manager.record_function, manager.execute_node, heuristics.CachingAutotuner.bench,
            list(cudagraph_utils.cudagraphs_log.handlers),
            list(select_algorithm.get_algorithm_selector_cache().feedback_saver_fns),
        )  # fmt: skip

    before = state()
    observe(torch.compile(count_up, mode="reduce-overhead"), torch.ones(64, device="cuda"))
    assert state() == before


@pytest.mark.parametrize(
    "lengths", [(11, 21, 33, 58, 32), (11, 32, 40, 21), (32, 40, 11), (11, 24, 21, 33), (21, 33, 40)]
)
def test_attention_under_a_mask_has_one_graph_for_every_length_whether_its_rows_are_aligned_or_not(lengths):
    def attend(x, mask):
        return torch.nn.functional.scaled_dot_product_attention(x, x, x, mask)

    fast = torch.compile(attend, backend="aot_eager")
    made = []
    for length in lengths:
        x, mask = torch.randn(2, 1, length, 8, device="cuda"), torch.ones(length, length, dtype=torch.bool).tril()
        made.append(len(observe(fast, x, mask.cuda()).graphs))
    assert made == [1, 1] + [0] * (len(lengths) - 2)


def test_a_tensor_of_the_gpu_goes_along_to_ranks():
    x = torch.arange(3.0, device="cuda")

    def work():
        return {"device": x.device.type, "twice": x * 2}

    ranks = on_ranks(work)
    for result in ranks.results:
        assert result["device"] == ("cuda" if ranks.backend == "nccl" else "cpu")
        assert torch.equal(result["twice"], torch.arange(3.0) * 2)


def test_a_rank_over_nccl_knows_how_many_numbers_each_collective_moved():
    def work():
        dist.all_reduce(torch.ones(7, 3))
        dist.all_gather_into_tensor(torch.empty(8), torch.ones(8))
        dist.reduce_scatter_tensor(torch.empty(8), torch.ones(8))

    ranks = on_ranks(work, world=1)
    assert ranks.backend == "nccl"
    sizes = [("all_reduce", 21), ("all_gather", 8), ("reduce_scatter", 8)]
    assert [(one.name, one.elements) for one in ranks[0].flow] == sizes
