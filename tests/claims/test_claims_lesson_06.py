"""Lesson 6: what the running torch does about each claim of the source texts that the lesson teaches, and its own.

``test_row_NN_…`` is named after its row of the syllabus. Ranks of a fake group are one process: cheap, and their
graphs are true. Two real ranks run where order or agreement matters.
"""

import inspect
import itertools
import re
import sys

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - the course writes it so
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from autograder.exercises.distributed import bucket, predicting
from compilescope import observe, on_ranks, recorded_placements
from compilescope.ranks import RankError, end_ranks
from compilescope.recorded import recorded_modes
from compilescope.torch_internals.ddp import cutting_at_buckets

WIDTH = 520
VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])


@pytest.fixture(scope="module", autouse=True)
def no_rank_stays():
    yield
    end_ranks()


class Net(nn.Module):
    def __init__(self, layers=3, width=WIDTH, thrifty=False):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.thrifty = thrifty

    def forward(self, x):
        for layer in self.layers:
            if self.thrifty:
                x = checkpoint(lambda x, layer: torch.relu(layer(x)), x, layer, use_reentrant=False)
            else:
                x = torch.relu(layer(x))
        return x


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def compiled(model, **options):
    return torch.compile(model, backend="aot_eager", **options)


def in_place(model, **options):
    model.compile(backend="aot_eager", **options)
    return model


def seen(make, *args):
    """On a rank: the run of one forward pass; nothing compiled before."""
    torch.compiler.reset()
    return observe(make(*args), torch.ones(2, WIDTH))


def ddp_runs():
    def ddp(model):
        return DistributedDataParallel(model, bucket_cap_mb=1)

    found = {"inside": seen(lambda: ddp(in_place(Net()))), "outside": seen(lambda: compiled(ddp(Net())))}
    found["outside, in place"] = seen(lambda: in_place(ddp(Net())))
    with cutting_at_buckets(False):
        found["one graph"] = seen(lambda: ddp(in_place(Net())))
    found["checkpointed"] = seen(lambda: ddp(in_place(Net(thrifty=True))))
    found["FSDP2"] = seen(lambda: fully_shard(in_place(Net())))
    found["FSDP2, checkpointed"] = seen(lambda: fully_shard(in_place(Net(thrifty=True))))
    return found


@pytest.fixture(scope="module")
def ddp():
    return on_ranks(ddp_runs, fake=True).results[0]


def pieces(run):
    return sum(one.parts for one in run.compiles)


def breaks(run):
    return sum(not one.in_callee for one in run.breaks)


def saved(run):
    return sum(not one.is_input for compiled in run.compiles for one in compiled.saved)


def test_row_08_ddp_cuts_the_same_graphs_inside_and_outside_and_only_outside_breaks(ddp):
    assert pieces(ddp["inside"]) == pieces(ddp["outside"]) == 3
    assert not ddp["inside"].breaks
    assert ddp["outside"].breaks


def test_row_08_only_optimize_ddp_false_gives_one_graph(ddp):
    assert pieces(ddp["one graph"]) == 1
    assert len(ddp["inside"].graphs) == len(ddp["one graph"].graphs) == 1


def test_row_09_the_wrappers_own_methods_are_closed_to_dynamo_by_decorators():
    marked = {}
    for name, module in list(sys.modules.items()):
        if name.startswith(("torch.nn.parallel.distributed", "torch.distributed.fsdp._fully_shard.")):
            lines = inspect.getsource(module).splitlines()
            pairs = itertools.pairwise(lines)
            # torch 2.11 calls the decorator of FSDP disable_if_config_true
            marked[name] = [f for mark, f in pairs if re.match(r" *@.*(dynamo|disable_if)", mark) and "def " in f]
    assert any("_inside_ddp_forward" in line for line in marked["torch.nn.parallel.distributed"])
    hooks = " ".join(marked["torch.distributed.fsdp._fully_shard._fsdp_state"])
    assert all(name in hooks for name in ("_pre_forward", "_post_forward"))


def fsdp_steps(place):
    model = Stack()
    for block in model.blocks:
        if place == "blocks":
            in_place(block, fullgraph=True)
        fully_shard(block)
        if place == "blocks, sharded first":
            in_place(block, fullgraph=True)
    fully_shard(model)
    if place == "whole":
        in_place(model)
    for _ in range(2):
        model(torch.ones(2, 8)).sum().backward()
    return list(model.state_dict())


def test_row_09_fsdp2_blocks_compile_as_full_graphs_and_the_whole_model_breaks_at_the_hooks():
    blocks, whole = (on_ranks(fsdp_steps, place, fake=True) for place in ("blocks", "whole"))
    assert not blocks[0].run.breaks
    assert whole[0].run.breaks
    assert blocks[0].pieces == whole[0].pieces == 2
    assert "requires_grad" in blocks[0].run.recompiles[0].refusals[0].expression
    assert blocks.results[0] == list(Stack().state_dict())


def test_row_09_a_block_may_be_compiled_before_or_after_it_is_sharded():
    before, after = (on_ranks(fsdp_steps, place, fake=True)[0] for place in ("blocks", "blocks, sharded first"))
    assert not after.run.breaks
    assert after.pieces == before.pieces
    assert [one.name for one in after.last_step()] == [one.name for one in before.last_step()]


def test_row_09_the_collectives_of_fsdp2_stand_between_the_graphs_of_the_blocks():
    step = on_ranks(fsdp_steps, "blocks")[1].last_step()
    names = [one.name if one.kind == "collective" else one.kind for one in step]
    assert names[:6] == ["all_gather", "forward"] * 3
    assert names.count("reduce_scatter") == names.count("backward") == 3
    assert not any(one.inside for one in step)


def root_first():
    model = fully_shard(Stack())
    for block in model.blocks:
        fully_shard(block)
    model(torch.ones(2, 8)).sum().backward()


def test_fsdp2_wants_the_inner_modules_first():
    with pytest.raises(RankError):
        on_ranks(root_first, fake=True)


def test_the_first_bucket_closes_at_one_mib_and_the_others_at_the_cap():
    tasks = [{"width": 600, "layers": 6, "wanted": 0}] * 3
    runs = on_ranks(bucket._compiled, tasks, [1, 2, 25], fake=True).results[0]
    sizes = [bucket.size_of(600)] * 6
    assert [pieces(run) for run in runs] == [bucket.pieces_for(sizes, cap) for cap in (1, 2, 25)] == [6, 4, 2]


def ddp_steps(layers, cap):
    model = DistributedDataParallel(in_place(Net(layers)), bucket_cap_mb=cap)
    for _ in range(2):
        model(torch.ones(2, WIDTH)).sum().backward()


def test_row_08_ddps_own_first_bucket_is_one_mib_only_where_the_cap_is_left_alone():
    buckets = {}
    for cap in (None, 25):
        rank = on_ranks(ddp_steps, 6, cap)[0]
        assert rank.pieces == 2
        buckets[cap] = [one.elements for one in rank.last_step() if one.name == "all_reduce"]
    assert buckets == {None: [WIDTH**2, 6 * (WIDTH**2 + WIDTH) - WIDTH**2], 25: [6 * (WIDTH**2 + WIDTH)]}


def test_the_rule_of_dist_6_says_what_torch_compiles():
    tasks = [{"width": 560, "layers": 4, "cap": 2, "grad": grad} for grad in (False, True)]
    made = on_ranks(predicting._made, tasks, fake=True).results[0]
    for task, counts in zip(tasks, made, strict=True):
        assert counts == {name: predicting.graphs_of(name, task) for name in counts}


def test_outside_and_in_place_a_ddp_has_no_break_of_its_own_up_to_torch_2_13(ddp):
    in_place = 1 if VERSION >= (2, 14) else 0
    assert [breaks(ddp[way]) for way in ("inside", "outside", "outside, in place")] == [0, 1, in_place]
    assert pieces(ddp["outside, in place"]) == pieces(ddp["outside"])


@pytest.mark.parametrize(("plain", "thrifty"), [("inside", "checkpointed"), ("FSDP2", "FSDP2, checkpointed")])
def test_checkpointing_keeps_less_for_backward_and_moves_no_cut(ddp, plain, thrifty):
    assert pieces(ddp[thrifty]) == pieces(ddp[plain])
    assert saved(ddp[thrifty]) < saved(ddp[plain])


def test_row_08_a_layer_is_in_one_graph_and_in_two_buckets():
    rank = on_ranks(ddp_steps, 3, 1)[0]
    assert rank.pieces == 3
    sizes = [one.elements for one in rank.last_step() if one.name == "all_reduce"]
    assert sizes == [WIDTH**2, WIDTH**2 + WIDTH, WIDTH**2 + WIDTH, WIDTH]


def keys():
    forms = {
        "in place": in_place(Stack()),
        "DDP of compiled": DistributedDataParallel(compiled(Stack())),
        "compiled DDP": compiled(DistributedDataParallel(Stack())),
        "FSDP2": fully_shard(Stack()),
    }
    return {name: next(iter(form.state_dict())) for name, form in forms.items()}


def test_wrappers_write_themselves_into_the_keys_and_compiling_in_place_and_fsdp2_do_not():
    assert on_ranks(keys, fake=True).results[0] == {
        "in place": "blocks.0.up.weight",
        "DDP of compiled": "module._orig_mod.blocks.0.up.weight",
        "compiled DDP": "_orig_mod.module.blocks.0.up.weight",
        "FSDP2": "blocks.0.up.weight",
    }


def test_a_full_state_dict_that_lacks_a_weight_loads_without_a_word():
    model = Stack()
    state = dict(model.state_dict())
    state.pop("blocks.0.up.weight")
    set_model_state_dict(model, state, options=StateDictOptions(full_state_dict=True))


def reduced(only_on_zero):
    def loss_of(x):
        loss = x.square().mean()
        if dist.get_rank() == 0 or not only_on_zero:
            dist.all_reduce(loss)
        return loss

    return compiled(loss_of, fullgraph=True)(torch.full((4,), 1.0 + dist.get_rank())).item()


def test_a_collective_is_an_operation_of_the_graph():
    ranks = on_ranks(reduced, False)
    assert ranks.results == (5.0, 5.0)
    assert [len(rank.collectives_in_graphs()) for rank in ranks] == [1, 1]


def test_a_branch_on_the_rank_is_compiled_into_each_rank_and_one_waits_for_ever():
    with pytest.raises(RankError) as caught:
        on_ranks(reduced, True, patience=3)
    assert caught.value.reason == "stuck"
    assert "compiled graph of loss_of" in caught.value.details[0]


def stream(together):
    if together:
        torch.compiler.set_enable_guard_collectives(True)
    model = compiled(lambda x: x.sin() * 2, dynamic=False)
    for length in (4, 4, 4 + dist.get_rank(), 4):
        model(torch.ones(length))


def test_one_rank_recompiles_alone_and_with_guard_collectives_both_do():
    assert [len(rank.run.graphs) for rank in on_ranks(stream, False)] == [1, 2]
    assert [len(rank.run.graphs) for rank in on_ranks(stream, True)] == [2, 2]


def test_the_recordings_say_when_compiling_under_ddp_can_pay():
    modes, placements = recorded_modes("modes"), recorded_placements()
    whole, cut = (placements.row(f"DDP, {how}") for how in ("inside, optimize_ddp=False", "compiled inside"))
    product, prompt, chain = (
        modes.trial(name, "default").steady_us / modes.trial(name, "eager").steady_us
        for name in ("bf16", "prefill", "pointwise chain")
    )
    cuts = cut.step_ms / whole.step_ms
    assert cut.pieces > whole.pieces == 1
    assert chain * cuts < 0.9 < prompt * cuts < 1.1 < product * cuts
    assert prompt < 1 < product
