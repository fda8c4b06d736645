# %% [markdown]
# # 6 · Where to compile when a model is spread over ranks
#
# After this lesson you can **place `torch.compile` under DDP and FSDP, and say what each place costs**. You will
#
# - see the graphs and the collectives of two real processes, side by side,
# - choose how DDP's buckets cut a graph,
# - compile and shard a model block by block,
# - find the branch on which two ranks wait for each other for ever.
#
# Not in this lesson: how to write collectives for speed, tensor and pipeline parallelism, more than one machine.
#
# You need no GPU and no cluster: two processes on this machine are enough. Ranks use the CPU; where there are two GPUs,
# one each. Each question comes before its answer.

# %%
from autograder import check, doctor, hint, predict; doctor()
import inspect, re, sys
import torch, torch.distributed as dist, torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint
from compilescope import on_ranks, placement_bars, recorded_placements, side_by_side
from compilescope.recorded import recorded_modes

# %% [markdown]
# ## 6.1 DDP: inside or outside?
#
# **The case.** *DistributedDataParallel* (DDP) keeps a copy of the model on each *rank*, a process. Each rank trains on
# rows of its own; on the way back `all_reduce` averages the gradients, in *buckets* of some MiB.
#
# Two texts, two rules: compile the model *inside* DDP; no, compile what DDP gives you, *outside*.
#
# `on_ranks(f)` calls `f` in two processes at once and brings back the facts of both. Its first call takes a few seconds.

# %%
class Net(nn.Module):
    def __init__(self, layers=3, width=600):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x

def two_steps(model, width=600):
    for _ in range(2):  # DDP plans its buckets in the first
        model(torch.ones(2, width)).sum().backward()

# %%
def inside():
    model = Net()
    model.compile(backend="aot_eager")
    two_steps(DDP(model, bucket_cap_mb=1))

def outside():
    model = DDP(Net(), bucket_cap_mb=1)
    two_steps(torch.compile(model, backend="aot_eager"))

# %%
def who_has_more():
    first, second = on_ranks(inside)[0].pieces, on_ranks(outside)[0].pieces
    return "the same" if first == second else "inside" if first > second else "outside"

predict("Where does the backend get more graphs to compile?", ["inside", "outside", "the same"], who_has_more)

# %%
ranks = on_ranks(inside)
side_by_side(ranks)

# %% [markdown]
# **What you see.** One step of each rank. Dynamo captured one graph, and the backend got three. *DDPOptimizer*, a part
# of Dynamo, cut it where DDP's buckets are full. So the gradients of part 3 are complete after its own backward, and
# their `all_reduce` travels while part 2 still computes.
#
# Each ⇄ is one bucket, with the number of gradients in it. DDP fills buckets tensor by tensor, DDPOptimizer cuts between
# operations: a layer's weight and bias stay in one graph, but not in one bucket. So the last bucket holds only a bias.
#
# Now both places.

# %%
placed = {"inside": ranks, "outside": on_ranks(outside)}
side_by_side(placed)

# %% [markdown]
# **What happened.** The same three graphs: DDPOptimizer works wherever a DDP model is being called. Outside, Dynamo
# also walks into the wrapper's own code, meets what it cannot trace, and breaks there. Section 6.2 shows doors that are
# closed on purpose.
#
# So "inside" is the tidy place. It does not get rid of the cuts.

# %% [markdown]
# **Change one thing.** `optimize_ddp=False` tells Dynamo not to cut. (Settings do not travel to the ranks: make them
# inside the function.)

# %%
def one_graph():
    with torch._dynamo.config.patch(optimize_ddp=False):
        inside()

def first_all_reduce():
    kinds = [one.name if one.kind == "collective" else one.kind for one in on_ranks(one_graph)[0].last_step()]
    later = kinds[kinds.index("all_reduce"):]
    return "in the middle of backward" if "backward" in later else "after all of backward"

predict("Without the cuts, when does the first all_reduce begin?",
        ["in the middle of backward", "after all of backward"], first_all_reduce)

# %%
side_by_side({"inside": ranks, "optimize_ddp=False": on_ranks(one_graph)})

# %% [markdown]
# **What happened.** One graph leaves Inductor more to fuse, and hands out all gradients at its end: nothing is left to
# compute while they travel. Cutting overlaps better and fuses less. Which wins depends on model and network: section
# 6.4 has numbers.
#
# How many cuts, you choose with `bucket_cap_mb`. Counted from the last layer on, DDPOptimizer closes the first bucket
# at 1 MiB and every other one at the cap. DDP's own first bucket is that small only if you leave the cap alone: with
# one of yours, look for the ⇄ of a real step.
#
# `fake=True` starts one process only, in a group of ranks that are not there. Collectives move nothing; the graphs are
# true.

# %%
def one_forward(layers, cap):
    model = Net(layers)
    model.compile(backend="aot_eager")
    DDP(model, bucket_cap_mb=cap)(torch.ones(2, 600))

def pieces_of(layers, cap):
    return on_ranks(one_forward, layers, cap, fake=True)[0].pieces

print(f"a layer has {4 * (600 * 600 + 600) / 2**20:.2f} MiB; six layers make")
for cap in (1, 2, 25):
    print(f"{pieces_of(6, cap)} graphs with buckets of {cap} MiB")

# %% [markdown]
# ### Exercise dist_1 · The right place
#
# Wrap and compile a model for DDP. The check trains it on two ranks: the whole forward is one graph (it is smaller than
# a bucket), nothing breaks, and both ranks end with the weights that one process would have.

# %% exercise="dist_1"
def place(model):
    """`model` under DistributedDataParallel, with its forward compiled and no graph break.

    Use backend="aot_eager". It is called on each rank, in a process group.
    """
    ### BEGIN SOLUTION
    model.compile(backend="aot_eager")
    return DDP(model)
    ### END SOLUTION

# %% check="dist_1"
check("dist_1")

# %% [markdown]
# ### Exercise dist_2 · Cut to measure
#
# Find the bucket size that gives a wanted number of graphs. The check draws two models and compiles them.

# %% exercise="dist_2"
def bucket_mb(sizes, wanted):
    """A bucket_cap_mb with which DDP cuts these layers into `wanted` graphs.

    sizes: bytes of each layer in the order of the forward pass, each 1 MiB or more.
    """
    ### BEGIN SOLUTION
    for cap in range(1, 100):
        pieces, held = 1, 0
        for size in reversed(sizes):
            if held >= (1 if pieces == 1 else cap) * 2**20:
                pieces, held = pieces + 1, 0
            held += size
        if pieces == wanted:
            return cap
    ### END SOLUTION

# %% check="dist_2"
check("dist_2")

# %% [markdown]
# ## 6.2 FSDP2: block by block
#
# **The case.** Under *FSDP2*, `fully_shard(block)` leaves each rank half of the block's weights. Hooks gather them
# before the block runs (`all_gather`) and add up and spread its gradients after its backward (`reduce_scatter`).
#
# These hooks are Python, and so is DDP's wrapper. Ask the torch that runs here which of their functions Dynamo may not
# enter:

# %%
def closed_to_dynamo(package):
    for name, module in sorted(sys.modules.items()):
        if name.startswith(package) and hasattr(module, "__file__"):
            lines = inspect.getsource(module).splitlines()
            for mark, function in zip(lines, lines[1:]):
                if re.match(r" *@.*(dynamo|disable_if)", mark) and "def " in function:
                    print(f"{name.rpartition('.')[2]:18} {mark.strip():39} {function.strip()[4:44]}")

closed_to_dynamo("torch.nn.parallel.distributed")
closed_to_dynamo("torch.distributed.fsdp._fully_shard")

# %% [markdown]
# **What you see.** A decorator closes each of them to Dynamo: buckets, streams and shards are no business of a graph of
# tensor operations. Whoever compiles from the outside stops at each of these doors that a call comes to. So compile
# what lies between them.

# %%
class Block(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))

class Stack(nn.Module):
    def __init__(self, blocks=3):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x

# %%
def each_block():
    model = Stack()
    for block in model.blocks:
        block.compile(backend="aot_eager", fullgraph=True)
        fully_shard(block)
    two_steps(fully_shard(model), width=16)

def whole_model():
    model = Stack()
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model).compile(backend="aot_eager")
    two_steps(model, width=16)

# %%
predict("Three equal blocks, each compiled: how many graphs does Dynamo capture?", [1, 2, 3],
        lambda: len(on_ranks(each_block)[0].run.graphs))

# %%
sharded = {"each block": on_ranks(each_block), "whole model": on_ranks(whole_model)}
side_by_side(sharded)

# %% [markdown]
# **What happened.** All blocks share one class, so they share compiled code. The input of the first block needs no
# gradient, that of the others does: a guard refuses once, two graphs. The hooks' collectives stand *between* the
# graphs, and `fullgraph=True` holds for each block.
#
# Compiling the whole, Dynamo stopped at the first door, ran the outer code as Python, and compiled the blocks that it
# called. More words, the same graphs, and a break.

# %% [markdown]
# **Change one thing.** The order: the whole model first, then its blocks.

# %%
def whole_first():
    model = fully_shard(Stack())
    for block in model.blocks:
        fully_shard(block)
    two_steps(model, width=16)

try:
    on_ranks(whole_first)
except RuntimeError as error:
    print(error)

# %% [markdown]
# **What happened.** The rank, the error and your line: a rank that fails takes the others along, and nothing is left
# running. `fully_shard(model)` takes every weight that nobody has yet. Inner modules first, always; before or after
# `compile()` is the same.
#
# Wrappers change one more thing, which you meet when you load a checkpoint: the keys.

# %%
def in_place(model):
    model.compile(backend="aot_eager")
    return model

def first_keys():
    wrapped = lambda model: torch.compile(model, backend="aot_eager")
    forms = {
        "model.compile()": in_place(Stack()),
        "torch.compile(model)": wrapped(Stack()),
        "DDP(torch.compile(model))": DDP(wrapped(Stack())),
        "torch.compile(DDP(model))": wrapped(DDP(Stack())),
        "fully_shard(model)": fully_shard(Stack()),
    }
    return {name: next(iter(form.state_dict())) for name, form in forms.items()}

for name, key in on_ranks(first_keys, fake=True).results[0].items():
    print(f"{name:27} {key}")

# %% [markdown]
# ### Exercise dist_3 · Shard and compile
#
# Do it for a model with a `head` beside its `blocks`. The check trains on two ranks: each block is gathered for itself
# and runs a graph of its own, nothing breaks, keys and weights are those of the plain model.

# %% exercise="dist_3"
def shard(model):
    """FSDP2 for `model`, block by block, each block compiled as a full graph; returns the model.

    model.blocks is a ModuleList, model.head a layer. Use backend="aot_eager".
    """
    ### BEGIN SOLUTION
    for block in model.blocks:
        block.compile(backend="aot_eager", fullgraph=True)
        fully_shard(block)
    return fully_shard(model)
    ### END SOLUTION

# %% check="dist_3"
check("dist_3")

# %% [markdown]
# ### Exercise dist_4 · From any wrapper into any other
#
# Load a checkpoint into a model, whichever wrappers either had. `get_model_state_dict` and `set_model_state_dict` know
# the wrappers and shards of a *model*; a file has only its keys. Two traps: the check's model has a layer that is called
# `module`; and `StateDictOptions(full_state_dict=True)`, which lets whole tensors into shards, says nothing about a weight
# that is missing.

# %% exercise="dist_4"
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict

def load(model, state):
    """Copy `state`, whole tensors under a wrapper's keys, into `model`, also one with shards.

    Raises if a weight of the model is missing in `state`. Leaves `state` as it is.
    """
    ### BEGIN SOLUTION
    state = {key.replace("_orig_mod.", ""): value for key, value in state.items()}
    wanted = set(get_model_state_dict(model))
    if not wanted <= set(state):
        state = {key.removeprefix("module."): value for key, value in state.items()}
    if missing := wanted - set(state):  # with full_state_dict nobody else looks
        raise KeyError(f"missing: {sorted(missing)}")
    set_model_state_dict(model, state, options=StateDictOptions(full_state_dict=True))
    ### END SOLUTION

# %% check="dist_4"
check("dist_4")

# %% [markdown]
# ## 6.3 Ranks must agree
#
# **The case.** A collective of your own, in a compiled function. Every rank has to come to it.

# %%
def mean_loss(x):
    loss = x.square().mean()
    dist.all_reduce(loss)
    return loss / dist.get_world_size()

def agree():
    x = torch.full((4,), 1.0 + dist.get_rank())
    return torch.compile(mean_loss, backend="aot_eager", fullgraph=True)(x).item()

ranks = on_ranks(agree)
print("results:", ranks.results, " in the graph:", [node.target for node in ranks[0].run.graphs[0].calls()])
side_by_side(ranks)

# %% [markdown]
# **What happened.** No break: Dynamo turns `dist.all_reduce(loss)` into a *functional collective*, one that returns a
# new tensor. It is an operation of the graph like any other, and its rank count a constant.

# %% [markdown]
# **Change one thing.** A colleague wants the number on rank 0 only.

# %%
def careless_loss(x):
    loss = x.square().mean()
    if dist.get_rank() == 0:
        dist.all_reduce(loss)
    return loss

def disagree():
    return torch.compile(careless_loss, backend="aot_eager")(torch.ones(4)).item()

def outcome():
    try:
        on_ranks(disagree, patience=3, limit=30)
    except RuntimeError as error:
        return "rank 0 waits for ever" if error.reason in ("stuck", "late") else "an error at once"
    return "a wrong number"

predict("What comes out?", ["a wrong number", "an error at once", "rank 0 waits for ever"], outcome)

# %%
try:
    on_ranks(disagree, patience=3, limit=30)
except RuntimeError as error:
    print(error)

# %% [markdown]
# **What happened.** `get_rank()` is a constant for Dynamo, so the two ranks compiled different graphs, and nobody
# noticed. On a cluster such a job stands still until a watchdog ends it, often after ten minutes; here it took seconds.
#
# **Change another thing.** No collective at all, but rank 1 gets a longer batch once.

# %%
def stream(together):
    if together:
        torch.compiler.set_enable_guard_collectives(True)
    model = torch.compile(lambda x: x.sin() * 2, backend="aot_eager", dynamic=False)
    for length in (4, 4, 4 + dist.get_rank(), 4):
        model(torch.ones(length))

alone = on_ranks(stream, False)
side_by_side(alone)

# %% [markdown]
# **What happened.** Rank 1 compiled again, rank 0 did not. With a large model that is a minute in which rank 0 stands in
# the next collective and waits, perhaps until a timeout. Warm up all ranks with all shapes, or ask for *guard
# collectives*: at each call the ranks ask each other whether all have a hit, and compile together if not.

# %%
ranks = on_ranks(stream, True)
for rank in ranks:
    print(f"rank {rank.rank}: {len(rank.run.graphs)} graphs; it ran",
          " ".join("⇄" if one.kind == "collective" else one.name for one in rank.flow))

# %% [markdown]
# **What happened.** Now both have two graphs, compiled at the same call. The price is what each ⇄ stands for: before a
# call that has something to guard, the ranks ask each other.

# %% [markdown]
# ### Exercise dist_5 · Decide together
#
# This function clips a gradient by the norm over all ranks. It works on one rank, and stands still on two: each rank
# decides for itself whether to ask the others. Write it so that it is one graph, the same on each rank.

# %%
def clip_that_hangs(grad, limit):
    if grad.norm() > limit:
        total = grad.square().sum()
        dist.all_reduce(total)
        grad = grad * (limit / total.sqrt())
    return grad

# %% exercise="dist_5"
def clip(grad, limit):
    """`grad`, scaled so that the norm over the gradients of all ranks is at most `limit`.

    grad [n] is this rank's own; the norm is that of all of them, one after the other.
    """
    ### BEGIN SOLUTION
    total = grad.square().sum()
    dist.all_reduce(total)
    return grad * (limit / total.sqrt()).clamp(max=1)
    ### END SOLUTION

# %% check="dist_5"
check("dist_5")

# %% [markdown]
# ## 6.4 Does it pay?
#
# **The case.** Eight blocks of width 2048 in bfloat16, on two GPUs. This is a recording; the picture says where it is
# from. "Compile the inner module" tells you where to look. It promises no speed.

# %%
predict("On the two GPUs, what is faster than plain DDP?", ["inside", "one graph", "both", "neither"],
        lambda: recorded_placements().faster_than_plain())

# %%
placement_bars(recorded_placements())

# %% [markdown]
# **What you see.** The wait for the first step, and the step afterwards, of forward and backward together, each beside
# the plain one of its wrapper. For this model no placement beats it: large matrices take nearly all the time, fusion
# has little left to save, and every graph that runs costs its start (blocks share what is compiled, and each runs it
# for itself). One graph comes nearest. ("Outside" was `ddp.compile()`, which up to torch 2.13 spares the break of 6.1.)
#
# **When does it pay?** Ask first what compiling gains without any wrapper: no placement gives more. Then what the cuts
# cost. Both are recorded:

# %%
alone, placements = recorded_modes("modes"), recorded_placements()
for name in ("bf16", "prefill", "pointwise chain"):
    eager, compiled = (alone.trial(name, mode).steady_us for mode in ("eager", "default"))
    print(f"{name:16} eager {eager:5.0f} µs   compiled {compiled:5.0f} µs   {compiled / eager:4.2f} of the time")
whole, cut = (placements.row(f"DDP, {how}") for how in ("inside, optimize_ddp=False", "compiled inside"))
print(f"{cut.pieces} graphs instead of {whole.pieces} under DDP: {cut.step_ms / whole.step_ms:4.2f} of the time")
print(alone.origin.sentence(), placements.sentence(), sep="\n")

# %% [markdown]
# **What you see.** Multiply the two. One large product in bfloat16 loses alone, so no placement helps it. A Transformer
# that reads a prompt gains about what so many cuts cost here, so nothing is left: one graph, or larger buckets. Long
# pointwise chains can afford cuts. Another model, another answer: measure yours alone, as in lesson 2, then on its ranks.

# %% [markdown]
# **Change one thing.** *Activation checkpointing* keeps less for backward and computes it again. It goes with both
# wrappers, and moves no cut:

# %%
class Thrifty(Net):
    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(lambda x, layer: torch.relu(layer(x)), x, layer, use_reentrant=False)
        return x

def kept(make, wrapper):
    model = make()
    model.compile(backend="aot_eager")
    (fully_shard(model) if wrapper == "FSDP2" else DDP(model, bucket_cap_mb=1))(torch.ones(2, 600))

for wrapper in ("DDP", "FSDP2"):
    for make in (Net, Thrifty):
        rank = on_ranks(kept, make, wrapper, fake=True)[0]
        saved = sum(not one.is_input for compiled in rank.run.compiles for one in compiled.saved)
        print(f"{wrapper:6} {make.__name__:8} {rank.pieces} graphs, {saved} tensors kept for backward")

# %% [markdown]
# **And on 64 ranks?** The fake group tells what a graph can tell: how many there are, what stands between them, how
# much of the weights a rank holds. It cannot tell a number, a time or a hang.

# %%
def sharded_size():
    model = Stack()
    for block in model.blocks:
        block.compile(backend="aot_eager")
        fully_shard(block)
    two_steps(fully_shard(model), width=16)
    return sum(weight.to_local().numel() for weight in model.parameters())

for world in (2, 64):
    rank = on_ranks(sharded_size, world=world, fake=True)[0]
    gathers = sum(one.name == "all_gather" for one in rank.last_step())
    print(f"{world:2} ranks: {rank.pieces} graphs, {gathers} all_gathers a step, {rank.result:,} weights on rank 0")

# %% [markdown]
# ### Exercise dist_6 · Four placements, unseen
#
# Say how many graphs the backend gets, before anything is compiled. The check draws two models and compiles them.

# %% exercise="dist_6"
def predict_graphs(sizes, cap_mb, input_needs_grad):
    """{"DDP inside": …, "DDP outside": …, "DDP one graph": …, "FSDP2 blocks": …}, each a number of graphs.

    sizes: bytes of each of the equal layers, 1 MiB or more; cap_mb: DDP's bucket size.
    One graph: optimize_ddp=False. FSDP2 blocks: each layer is compiled and sharded.
    """
    ### BEGIN SOLUTION
    cut, held = 1, 0
    for size in reversed(sizes):
        if held >= (1 if cut == 1 else cap_mb) * 2**20:
            cut, held = cut + 1, 0
        held += size
    blocks = 1 if input_needs_grad else 2
    return {"DDP inside": cut, "DDP outside": cut, "DDP one graph": 1, "FSDP2 blocks": blocks}
    ### END SOLUTION

# %% check="dist_6"
check("dist_6")

# %% [markdown]
# ## Look back
#
# Take a training script that uses DDP or FSDP. Where does it compile? Which collectives stand between its graphs, and on
# which line could two ranks disagree? Put its first two steps into a function: `side_by_side(on_ranks(that))`. To time
# it, leave out the observing: `on_ranks(that, watch=False)`.
#
# ## Take away
#
# - Compile inside the wrapper: its own code is closed to Dynamo.
# - DDP's buckets cut the graph, inside and outside alike. `optimize_ddp=False` and `bucket_cap_mb` choose how often.
# - FSDP2: compile each block, shard each block, then the whole.
# - Keys carry the wrappers: compile in place, and clean what you load.
# - Every rank calls every collective, and should compile at the same time.
# - Where to compile says nothing yet of how fast: measure.
