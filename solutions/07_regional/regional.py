# %% [markdown]
# # 7 · Why does the first call take so long?
#
# After this lesson you can **shorten the first call of a deep model, and say what that costs**. You will
#
# - see the first call grow with depth, and two ways against that,
# - weigh a short first call against slower steps,
# - find out why blocks that look alike do not share their code,
# - carry compiled code into another process,
# - apply a list of decisions to models of your own.
#
# Not in this lesson: modes (lesson 5), many GPUs (6).
#
# The blocks here are matrix products and attention only. Inductor hands these to libraries, so you never wait for a
# C++ compiler. You need no GPU; checks use yours.

# %%
from autograder import check, doctor, hint, predict; doctor()
import functools
import torch, torch.nn.functional as F
from torch import nn
from compilescope import compare_speed, observe, strips, time_plot
from compilescope.recorded import recorded_modes
from compilescope.views import depth_cost
torch.set_grad_enabled(False)  # we serve; training comes in 7.3
depths = recorded_modes("depth")

# %% [markdown]
# ## 7.1 One block, many times
#
# **The case.** A stack of blocks, as every Transformer is. `run` says how one block is called.

# %%
class Block(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Parameter(torch.eye(width) / width)

    def forward(self, x):
        q, k, v = (layer(x)[None, None] for layer in (self.q, self.k, self.v))
        return torch.addmm(x, F.scaled_dot_product_attention(q, k, v)[0, 0], self.out)

class Stack(nn.Module):
    def __init__(self, depth, run=lambda block, x: block(x)):
        super().__init__()
        self.blocks, self.run = nn.ModuleList(Block() for _ in range(depth)), run

    def forward(self, x):
        for block in self.blocks:
            x = self.run(block, x)
        return x

# %% [markdown]
# Three ways to compile it: the **whole** model, each block in place (**regional**), or the whole model with one
# **nested** region in it.

# %%
def whole(depth, **options):
    return torch.compile(Stack(depth), **options)

def regional(depth, **options):
    model = Stack(depth)
    for block in model.blocks:
        block.compile(**options)
    return model

@torch.compiler.nested_compile_region
def region(block, x):
    return block(x)

def nested(depth, **options):
    return torch.compile(Stack(depth, region), **options)

# %%
x = torch.randn(16, 64)

def first_call(way, depth, **options):
    torch.compiler.reset()
    return observe(way(depth, **options), x)

# %%
def more():
    few, many = (len(first_call(regional, depth, backend="aot_eager").compiles) for depth in (2, 8))
    return "none" if few == many else f"{many - few} more"

predict(
    "With 2 blocks, regional costs one compile. How many more does it cost with 8 blocks?",
    ["none", "3 more", "6 more", "8 more"],
    more,
)

# %% [markdown]
# Now for real, with Inductor: nine first calls, some ten seconds. The first compile of a session also imports Inductor,
# so one goes before.

# %%
print(f"with the import: {first_call(whole, 1).calls[0].seconds:.1f} s")

# %%
ways = {"whole": whole, "regional": regional, "nested": nested}
firsts = {name: {depth: first_call(way, depth) for depth in (2, 4, 8)} for name, way in ways.items()}
depth_cost(firsts)

# %% [markdown]
# Seconds depend on your machine. What was captured does not:

# %%
def captured(run):
    return sum(len(graph.calls()) + sum(len(body.calls()) for body in graph.inner) for graph in run.graphs)

for name, runs in firsts.items():
    for depth, run in runs.items():
        print(f"{name:9} {depth} blocks: {len(run.compiles)} compile, {captured(run):3} operations captured, "
              f"{len(run.kernels):3} library calls written, {len(run.calls)} compiled calls")

# %% [markdown]
# **What happened.** Compiled as a whole, every block is traced, lowered and written out again: the graph grows with
# the depth, and so does the first call. Regional compiles the first block; the others have the same code and pass the
# same guards, so they are hits. Nested is between: one graph, in which each block is two nodes that call one shared
# *body*. It grows, too, only more slowly.
#
# Your model has 48 blocks of real size. On the H200 (eager's first call at 6 blocks started CUDA, too):

# %%
print(*depths.notes, sep="\n")
depth_cost(depths)

# %% [markdown]
# ### Exercise regional_1 · Two kinds of blocks
#
# A hybrid model: `model.blocks` mixes two classes, in any order. `model.stem` and `model.head` are called once each.
# Two compiles shall do for all blocks, at any depth, and the keys of `state_dict()` shall stay as they are.

# %% exercise="regional_1"
def in_regions(model):
    """Compile the blocks of model in place, so that each class costs one compile.

    Use backend="aot_eager". Nothing is returned.
    """
    ### BEGIN SOLUTION
    for block in model.blocks:
        block.compile(backend="aot_eager")
    ### END SOLUTION

# %% check="regional_1"
check("regional_1")

# %% [markdown]
# ## 7.2 The price
#
# **The case.** Eight blocks, warm. Both models do the same work.

# %%
@functools.cache
def speed():
    torch.compiler.reset()
    one, many = whole(8), regional(8)

    def whole_model(x):
        return one(x)

    def eight_regions(x):
        return many(x)

    return compare_speed(whole_model, eight_regions, x, flush=False, seconds=2)

predict(
    "Both are warm. Compared with the whole model, regional is …",
    ["faster", "as fast", "slower", "cannot tell"],
    lambda: speed().verdict or "cannot tell",
)

# %%
time_plot(speed())

# %% [markdown]
# **What happened.** Between two regions there is Python: a module call, and the guards of the block, eight times in a
# step. And nothing is fused across the border of a region. (If your machine is busy, there may be no verdict.) On a GPU
# you find both in the recording:

# %%
def row(way, depth):
    trial = next((one for one in depths.trials if one.workload == f"{way} {depth}"), None)
    if trial is None:
        return f"{way:9} was not recorded"
    return (f"{way:9} first call {trial.first_s:6.2f} s   a step {trial.steady_us / 1e3:6.2f} ms "
            f"(8 of 10: {trial.steady_low_us / 1e3:.1f} to {trial.steady_high_us / 1e3:.1f})   "
            f"{trial.kernels:.0f} kernels")

for depth in (24, 48):
    print(depth, "blocks")
    for way in ("eager", "regional", "nested", "whole"):
        print("  ", row(way, depth))
print(depths.origin.sentence())

# %% [markdown]
# **Read it.** At 24 blocks the whole model has the fewest kernels, since some were fused across blocks. With one sequence
# the CPU that launches them is what you wait for, so regional is no faster than eager. At 48 blocks nested has the
# shortest step. A trade, then, not a free lunch. How many steps do you make?

# %%
tried = "eager", "regional", "nested", "whole"

def best(steps):
    return min(tried, key=lambda way: depths.of(f"{way} 24")[0].total_s(steps))

predict("24 blocks, from a cold start: which way has done 1,000 steps first?",
        list(tried), lambda: best(1000))

# %%
for steps in (1, 100, 1_000, 10_000, 100_000):
    seconds = [f"{way} {depths.of(f'{way} 24')[0].total_s(steps):6.1f} s" for way in tried]
    print(f"{steps:7,} steps: {', '.join(seconds)}   → {best(steps)}")

# %% [markdown]
# **Read it.** For some thousand steps, not compiling is cheapest. Regional never is, on this GPU: what it saves in a
# step does not pay for its first call. It pays where a step gains more, or where whole and nested start too slowly.

# %% [markdown]
# ### Exercise regional_2 · Whose turn is it?
#
# Each way is a straight line: the first step, then equal ones. From how many steps on is which way the cheapest in
# all? Some ways never are. Costs are whole microseconds.

# %% exercise="regional_2"
def cheapest(ways):
    """[(step, name), …]: from that many steps on, name is the cheapest in all; the first step is 1.

    ways: {name: (first, step)}, the first step and each later one, in whole microseconds.
    At a tie, the way whose turn it is stays.
    """
    ### BEGIN SOLUTION
    now = min(ways, key=lambda name: ways[name])
    turns = [(1, now)]
    while shorter := [name for name in ways if ways[name][1] < ways[now][1]]:
        first, step = ways[now]
        begins = {name: (ways[name][0] - first) // (step - ways[name][1]) + 2 for name in shorter}
        n = min(begins.values())
        now = min((ways[name][0] + (n - 1) * ways[name][1], name) for name in shorter if begins[name] == n)[1]
        turns.append((n, now))
    return turns
    ### END SOLUTION

# %% check="regional_2"
check("regional_2")

# %% [markdown]
# ## 7.3 A region in the graph
#
# **The case.** `region` is marked by `torch.compiler.nested_compile_region`. Called without torch.compile it is just
# the function. Inside one compile, Dynamo traces it at its first call, and asks at the next one whether the same body
# will do: same shapes, dtypes, strides, device.

# %%
def bodies(model, x):
    torch.compiler.reset()
    (graph,) = observe(torch.compile(model, backend="aot_eager"), x).graphs
    return [node.target for node in graph.nodes if node.op == "get_attr"]

print("not compiled:", len(observe(Stack(4, region), x).compiles), "compiles")
print(bodies(Stack(4, region), x))

# %%
def training_bodies():
    with torch.enable_grad():
        return len(set(bodies(Stack(4, region), x)))

predict("The same stack, with gradients on, as in training. How many bodies?", ["1", "2", "4"],
        lambda: training_bodies())

# %%
with torch.enable_grad():
    print("x as data:          ", bodies(Stack(4, region), x))
    print("x wants a gradient: ", bodies(Stack(4, region), x.clone().requires_grad_()))

# %% [markdown]
# **What happened.** The first block gets data, which needs no gradient. The others get what the first one computed
# from its weights, which does. That is other code, so another body. Regional has the same: two compiles in training.
# Behind an embedding all inputs want a gradient, and one body does.
#
# **Change one thing** in the call: what makes a region another one?

# %%
scale = 2.0

@torch.compiler.nested_compile_region
def scaled(x):
    return x * scale

cases = {"the same": x, "other rows": x[:5], "other dtype": x.double(), "other strides": x.mT.contiguous().mT,
         "other device": x.to("meta")}
for name, other in cases.items():
    torch.compiler.reset()
    run = observe(torch.compile(lambda x, y: (scaled(x), scaled(y)), backend="aot_eager"), x, other)
    print(f"{name:14} {len(run.graphs)} graph, {len(run.graphs[0].inner)} bodies")

# %% [markdown]
# **Read it.** Safe for tensors, then: where a body does not fit, Dynamo traces another one. The graph stays one graph, which
# `fullgraph=True` or a CUDA graph may need; regional enters compiled code once for each block.
#
# **Change another thing**: not the tensors, but a number that the region uses.

# %%
@torch.compiler.nested_compile_region
def times(x, number):
    return x * number

def by_how_much(f, *calls):
    torch.compiler.reset()
    fast = torch.compile(f, backend="aot_eager")
    try:
        return [round((fast(x, *call) / x).mean().item()) for call in calls]
    except Exception as error:
        return type(error).__name__

# %%
for kind in (int, float, torch.tensor):
    numbers = by_how_much(lambda x, number: times(times(x, number), number), (kind(2),), (kind(3),))
    print(f"{kind.__name__:6} 2, then 3: {numbers}")

def rescaled(x):
    global scale
    first, scale = scaled(x), 5.0
    return scaled(x)

print("a global, set to 5 between two regions:", by_how_much(rescaled, ()))
print("the same, not compiled:                ", [round((rescaled(x) / x).mean().item())])

# %% [markdown]
# **What happened.** An int that changes is compiled again, a tensor is an input. A float that changes raises where two
# calls share a body (2.11: in any region; 2.12 breaks the graph): Dynamo opens it, and the second call fails to take
# it. A global that changes *between two regions of one compile* is missed by torch 2.12 and 2.13: the first body runs
# again, a wrong number without a word (2.11, 2.14 and 2.15 give 5). So hand a region what changes as a tensor.

# %% [markdown]
# ### Exercise regional_3 · One body
#
# Each block has a gain: x ← block(x) · gain. Make a function `through` so that `torch.compile(through)` has one graph,
# with one body that is called for each block. Nothing is computed outside of it. Mark a region before it is compiled:
# Dynamo cannot trace the decorator.

# %% exercise="regional_3"
def make_through():
    """through(blocks, gains, x): x through all blocks in turn, each result times its gain.

    gains is a list of tensors, one number each. Leave the compiling to the check.
    """
    ### BEGIN SOLUTION
    @torch.compiler.nested_compile_region
    def one_step(block, gain, x):
        return block(x) * gain

    def through(blocks, gains, x):
        for block, gain in zip(blocks, gains):
            x = one_step(block, gain, x)
        return x

    return through
    ### END SOLUTION

# %% check="regional_3"
check("regional_3")

# %% [markdown]
# ## 7.4 Why regions are not shared
#
# **The case.** Stacks that look alike, compiled block by block. Each block knows its number, as blocks in libraries
# do: `layer_idx`. Only some compute with it.

# %%
class Numbered(Block):
    layer_idx = 0

    def forward(self, x):
        return super().forward(x) / (self.layer_idx + 1)

class Tensored(Block):
    def __init__(self):
        super().__init__()
        self.register_buffer("depth", torch.tensor(1.0))

    def forward(self, x):
        return super().forward(x) / self.depth

# %%
def one_by_one(blocks, x, training=False, cut=lambda x: x):
    torch.compiler.reset()
    for number, block in enumerate(blocks):
        block.layer_idx = number
        block.compile(backend="aot_eager")
    with observe() as run, torch.set_grad_enabled(training):
        for block in blocks:
            x = cut(block(x))
    return run

# %%
predict(
    "Ten blocks that compute with their layer_idx. How many calls run compiled code?",
    ["0", "1", "8", "10"],
    lambda: sum(call.outcome != "gave up" for call in one_by_one([Numbered() for _ in range(10)], x).calls),
)

# %%
def six(kind):
    return [kind() for _ in range(6)]

wants_grad = x.clone().requires_grad_()
narrowing = [Block(width) for width in (64, 56, 48, 40, 32, 24)]
strips({
    "layer_idx not used": one_by_one(six(Block), x),
    "layer_idx used": one_by_one([Numbered() for _ in range(10)], x),
    "a tensor instead": one_by_one(six(Tensored), x),
    "training": one_by_one(six(Block), x, training=True),
    "training, x wants grad": one_by_one(six(Block), wants_grad, training=True),
    "fewer rows each": one_by_one(six(Block), x, cut=lambda x: x[:-1]),
    "other widths": one_by_one(narrowing, x, cut=lambda x: x[:, :-8].contiguous()),
})

# %% [markdown]
# **What happened.** Blocks share an entry as long as all its guards hold, and guards look at what the block *read*:
#
# - **A poisoned attribute.** An int, a flag or a string that differs and is used. After eight entries the rest runs as
#   plain Python. The warning above tells you the guard. Make it a tensor, or move it out of the block.
# - **The gradient of the first input**, as in 7.3: two entries.
# - **Shapes.** An input that changes is opened at the second size. A weight's shape is not: each width is an entry.
#
# From torch 2.12 on a nested region has a limit of its own, also eight bodies, `max_reuse_entries=8`. The ninth raises.

# %%
class NumberedStack(Stack):
    def __init__(self, depth):
        super().__init__(depth, region)
        self.blocks = nn.ModuleList(Numbered() for _ in range(depth))
        for number, block in enumerate(self.blocks):
            block.layer_idx = number

print("4 numbered blocks:", len(set(bodies(NumberedStack(4), x))), "bodies")
try:
    print("10 numbered blocks:", len(set(bodies(NumberedStack(10), x))), "bodies")
except Exception as error:
    print("10 numbered blocks:", type(error).__name__)

# %% [markdown]
# ### Exercise regional_4 · Find the poison
#
# You get three blocks of one class, which you have never seen. They have several attributes, most of them harmless.
# Which one keeps them from sharing? A call in `run.calls` has `refusals`; a refusal has a `subject`. (The check calls
# you with gradients on, as PyTorch does by itself.)

# %% exercise="regional_4"
def poison(blocks, x):
    """The name of the attribute for which the blocks do not share their code; None if they do."""
    ### BEGIN SOLUTION
    for block in blocks:
        block.compile(backend="aot_eager")
    with observe() as run, torch.no_grad():
        for block in blocks:
            x = block(x)
    subjects = [one.subject for call in run.calls for one in call.refusals]
    return subjects[0].rpartition(".")[2] if subjects else None
    ### END SOLUTION

# %% check="regional_4"
check("regional_4")

# %% [markdown]
# ## 7.5 Where the time goes, and what a second process saves
#
# **The case.** Before you cut a model up: what took so long? In the process itself, `compile_times()` sums up phases.

# %%
from torch._dynamo.utils import compile_times

first_call(whole, 4)
phases, spent = compile_times(repr="csv", aggregate=True)
seconds = {phase: float(one) for phase, one in zip(phases, spent)}
for phase in sorted(seconds, key=seconds.get, reverse=True)[:11]:
    print(f"{seconds[phase]:6.2f} s  {phase}")

# %% [markdown]
# These are sums since the last `torch.compiler.reset()`, and phases contain each other. `bytecode_tracing` is Dynamo,
# `create_aot_dispatcher_function` AOTAutograd with all that follows, `fx_codegen_and_compile` Inductor. For a program
# that runs somewhere else, variables of the environment do it:
#
# - `TORCH_TRACE=folder` writes what each compile did, with `INDUCTOR_PROVENANCE=1` also which nodes a kernel computes.
#   `python -m compilescope trace folder` makes one page of it; `tlparse folder/*.log`, a package of its own, makes many
#   of one process. `Run.from_trace(folder)` gives you the facts.
# - `TORCH_COMPILE_DEBUG=1` writes graphs and code of each compile to `torch_compile_debug/`.
#
# Here is such a program: two blocks, their first call, and the caches.

# %%
JOB = """
import json, sys, torch
from compilescope import observe
from autograder.exercises.regional.blocks import Net

load, save = sys.argv[1:]
if load != "-":
    torch.compiler.load_cache_artifacts(open(load, "rb").read())
model, x = Net(32, ["attention"] * 2), torch.ones(9, 32)
with torch.no_grad(), observe(caches="use") as run:
    torch.compile(model)(x)
artifacts, info = torch.compiler.save_cache_artifacts()
open(save, "wb").write(artifacts)
phases = {one.name: one.seconds for one in run.phases}
print(json.dumps({"caches": run.compiles[0].caches, "first": run.calls[0].seconds,
                  "trace": phases["bytecode_tracing"], "backend": phases["backend_compile"]}))
"""

# %%
import json, os, subprocess, sys
from pathlib import Path

def job(folder, load="-", save="artifacts", **variables):
    """Facts of job.py in a process of its own, with its cache folder."""
    Path("job.py").write_text(JOB)
    variables |= {"TORCHINDUCTOR_CACHE_DIR": str(Path(folder).absolute())}
    command = [sys.executable, "job.py", load, save]
    ended = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=True)
    return json.loads(ended.stdout.splitlines()[-1])

cold = job("caches-1", TORCH_TRACE="trace", TORCH_COMPILE_DEBUG="1")  # an empty cache folder
print(cold["caches"], f"{os.path.getsize('artifacts') / 1000:.0f} kB saved")
for path in sorted(Path("torch_compile_debug").rglob("*.py"))[:6]:
    print(path.name, f"{path.stat().st_size / 1000:.0f} kB")

# %% [markdown]
# The artifacts are bytes. Put them where the next process finds them, on another machine if it has the same torch and
# the same hardware. **Load before the first call.**

# %%
# settings are part of a cache's key, so this one stays
warm = job("caches-2", load="artifacts", save="again", TORCH_COMPILE_DEBUG="1")
predict(
    "A new process, an empty folder, the artifacts loaded. What does its first call still do?",
    ["nothing", "trace in Dynamo", "all of it"],
    lambda: "all of it" if warm["caches"]["fx_graph"] != "hit" else "trace in Dynamo" if warm["trace"] else "nothing",
)

# %%
for name, facts in {"cold": cold, "artifacts loaded": warm}.items():
    print(f"{name:17} first call {facts['first']:5.2f} s: tracing {facts['trace']:.2f} s, "
          f"backend {facts['backend']:.2f} s   {facts['caches']}")

# %% [markdown]
# **What happened.** AOTAutograd's and Inductor's caches answered: no graph was lowered, no code written. Dynamo traced
# again, and made its guards again; that is in no cache. Compiled C++ is not in the artifacts either: a model that has
# some waits for g++ again.
#
# Two processes on one machine need no artifacts: they share the folder `TORCHINDUCTOR_CACHE_DIR`.
#
# And the trace of the cold process, read here:

# %%
from compilescope import Run, road

road(Run.from_trace("trace"))

# %% [markdown]
# ### Exercise regional_5 · Warm a second process
#
# `pack` runs in a first process, `warm` in a second one. The check gives each an empty cache folder and forgets all
# compiled code in between. It wants the caches of AOTAutograd and of Inductor to hit.

# %% exercise="regional_5"
def pack(model, x):
    """Compile model for x with the default backend; the bytes that a second process needs."""
    ### BEGIN SOLUTION
    torch.compile(model)(x)
    artifacts, info = torch.compiler.save_cache_artifacts()
    return artifacts
    ### END SOLUTION

def warm(packed, model, x):
    """model(x), compiled from what pack gave."""
    ### BEGIN SOLUTION
    torch.compiler.load_cache_artifacts(packed)
    return torch.compile(model)(x)
    ### END SOLUTION

# %% check="regional_5"
check("regional_5")

# %% [markdown]
# ## 7.6 The decision list
#
# Where do you put compile? Ask in this order, from the outside in; each answer may narrow the place:
#
# 1. **A step**: a function of forward, loss and update, or one request. The loop stays outside.
# 2. **DDP, FSDP?** The inner module, before it is wrapped (lesson 6).
# 3. **A module alone**: `module.compile()`, in place.
# 4. **A module that is not yours to change**: a compiled function that takes it as an argument.
# 5. **First call too long?** Measure. Then regional, or nested where it must be one graph.
# 6. **Always hold shapes still** (lesson 4).

# %% [markdown]
# **The case.** Three models that serve requests. A request is the step, nothing is wrapped, the modules are yours: so
# far the list says `model.compile()` for all three. Then comes 5. Say that 60 captured operations are what your first
# call may take: does the whole fit? If not, do its blocks share?

# %%
class Pyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for width in range(64, 0, -8))

    def forward(self, x):
        for block in self.blocks:
            x = block(x[:, : len(block.out)])
        return x

# %%
def measured(model):
    torch.compiler.reset()
    as_whole = observe(torch.compile(lambda x: model(x), backend="eager"), x)
    torch.compiler.reset()
    for block in model.blocks:
        block.compile(backend="eager")
    return captured(as_whole), captured(observe(model, x))

def decided(whole, blocks, budget=60):
    return "whole" if whole <= budget else "blocks" if blocks <= budget else "neither"

models = {"4 blocks": Stack(4), "16 blocks": Stack(16), "a pyramid": Pyramid()}
operations = {name: measured(model) for name, model in models.items()}

# %%
predict("The pyramid has eight blocks, each of another width. What fits?",
        ["whole", "blocks", "neither"], lambda: decided(*operations["a pyramid"]))

# %%
for name, (as_whole, as_blocks) in operations.items():
    print(f"{name:10} whole: {as_whole:3} operations   its blocks: {as_blocks:3}   → {decided(as_whole, as_blocks)}")

# %% [markdown]
# **Read it.** Four blocks: no reason to cut, and a larger region enters compiled code only once. Sixteen: cut. The
# pyramid's blocks have weights of another *shape* each, so cutting saves almost nothing: you would pay the price of
# regions for the same first call. There a warm cache (7.5) is what helps.

# %% [markdown]
# ### Exercise regional_6 · Decide
#
# Models that you have not seen: `model.stem`, then `model.blocks`, all of one class, then `model.head`. The first
# call may capture `most` operations in all its graphs, a shared body counted once. Take the largest region that this
# allows.

# %% exercise="regional_6"
def compiled(model, x, most, one_graph):
    """What to call instead of model: compiled, with at most `most` operations captured.

    one_graph: a call must be one graph. Use backend="aot_eager"; x is an input to measure with.
    """
    ### BEGIN SOLUTION
    def in_one_graph(x):
        x = model.stem(x)
        for block in model.blocks:
            x = region(block, x)
        return model.head(x)

    torch.compiler.reset()
    whole = captured(observe(torch.compile(lambda x: model(x), backend="eager"), x))
    if whole <= most or one_graph:
        return torch.compile(model if whole <= most else in_one_graph, backend="aot_eager")
    for block in model.blocks:
        block.compile(backend="aot_eager")
    return model
    ### END SOLUTION

# %% check="regional_6"
check("regional_6")

# %% [markdown]
# ## Look back
#
# Take a deep model of your own. How long is its first call, and how many steps does a process of yours live? Compile
# its blocks one by one and look at `run.calls`: do they share?
#
# ## Take away
#
# - A whole model's first call grows with its depth; that of blocks compiled in place does not.
# - The price: Python and guards between regions, no fusion across them. Count first call + steps.
# - `nested_compile_region` keeps one graph, with one body for all blocks.
# - Blocks share while guards hold: no int, flag or string of their own; the same shapes; the same gradients.
# - Artifacts carry AOTAutograd's and Inductor's work to another process. Dynamo traces again.
# - Measure, then cut.
