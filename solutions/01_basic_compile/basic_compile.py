# %% [markdown]
# # 1 · What does torch.compile compile?
#
# After this lesson you can say of your own code **what was compiled, and what was not**. You will
#
# - count the graphs that a call makes, and see what is in them,
# - compile a function, a module and a training step at the right place,
# - follow one line of yours through Dynamo, AOTAutograd and Inductor down to a kernel,
# - say what "the same result" means, in numbers.
#
# Not in this lesson: how fast it is (lesson 2), why a graph breaks (3), why it compiles again (4), modes such as
# `max-autotune` (5).
#
# You need no GPU. Each question comes before its answer: choose first, then run.

# %%
from autograder import check, doctor, hint, predict; doctor()
import torch
import torch.nn.functional as F
from torch import nn
from compilescope import observe, show

# %% [markdown]
# ## 1.1 One call, one graph
#
# **The case.** The price of a bond is the sum of its payments, each discounted to today. `bond_price` calls
# `discount`, and only `bond_price` has the decorator.
#
# `first_call` forgets everything compiled so far, calls the function once, and gives you the facts of that call.

# %%
def discount(cash, rate, years):
    return cash * torch.exp(-rate * years)

@torch.compile(backend="aot_eager")
def bond_price(coupon, rate, years):
    cash = torch.where(years == years.max(), 100 + coupon, coupon)
    return discount(cash, rate, years).sum()

def first_call(fn, *args):
    torch.compiler.reset()
    return observe(fn, *args)

# %%
bond = torch.tensor(4.0), torch.tensor(0.03), torch.arange(1.0, 11.0)

predict(
    "How many graphs does the first call of bond_price capture?",
    ["0", "1", "2"],
    lambda: len(first_call(bond_price, *bond).graphs),
)

# %%
run = first_call(bond_price, *bond)
print(f"price {run.result:.2f}, {len(run.graphs)} graph, {len(run.graphs[0].calls())} operations")
show(run)

# %% [markdown]
# **What happened.** While Python called `bond_price`, *TorchDynamo* read its bytecode, stepped into `discount`, and
# wrote down each tensor operation in one *FX graph*. The two Python functions are gone from it: point at a node and
# see its line.
#
# The graph then went to a *backend*. `aot_eager` runs it with PyTorch's own kernels and is ready at once. The
# default, `inductor`, writes new kernels; it needs ten seconds for its first one, and section 1.3 waits for it.

# %% [markdown]
# **Change one thing.** The same function, with a `print` in the middle.

# %%
@torch.compile(backend="aot_eager")
def talkative_price(coupon, rate, years):
    cash = torch.where(years == years.max(), 100 + coupon, coupon)
    print("payments:", len(years))
    return discount(cash, rate, years).sum()

# %%
predict(
    "How many graphs does it make now?",
    ["0", "1", "2"],
    lambda: len(first_call(talkative_price, *bond).graphs),
)

# %%
run = first_call(talkative_price, *bond)
show(run)

# %% [markdown]
# **What happened.** A `print` cannot be put into a graph of tensor operations. Dynamo ended the first graph before it,
# let Python print, and began a second graph after it: a *graph break*. The result is right, and nothing complained.
# Lesson 3 is about breaks; here you only count.
#
# There is a worse number than two. `torch.compile(f)` leaves `f` as it is and *returns* the compiled function. Drop
# what it returns, and your run looks like this:

# %%
def forgotten_price(coupon, rate, years):
    return discount(torch.where(years == years.max(), 100 + coupon, coupon), rate, years).sum()

torch.compile(forgotten_price, backend="aot_eager")
run = first_call(forgotten_price, *bond)
show(run)

# %% [markdown]
# ### Exercise basic_1 · One graph for a whole report
#
# A risk report stacks several metrics of the same prices. Give back one compiled function for all of them. The check
# draws other metrics, and looks whether anything still runs outside the graph.

# %% exercise="basic_1"
def volatility(prices):
    return prices.log().diff(dim=-1).std(-1) * 252**0.5

def momentum(prices):
    return prices[:, -1] / prices[:, 0] - 1

def compile_report(metrics):
    """A compiled report(prices): torch.stack([m(prices) for m in metrics]).

    prices [stocks, days] in, [metrics, stocks] out. Its first call makes one graph,
    and every operation is in it. Use backend="aot_eager".
    """
    ### BEGIN SOLUTION
    def report(prices):
        return torch.stack([metric(prices) for metric in metrics])

    return torch.compile(report, backend="aot_eager")
    ### END SOLUTION

# %% check="basic_1"
check("basic_1")

# %% [markdown]
# ## 1.2 `model.compile()` or `torch.compile(model)`?
#
# **The case.** A module can be compiled in place, or wrapped. Most texts call the two the same.

# %%
class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 1)

    def forward(self, x):
        return self.down(F.gelu(self.up(x))).squeeze(-1)

def both_ways(make):
    in_place, wrapped = make(), torch.compile(make(), backend="aot_eager")
    in_place.compile(backend="aot_eager")
    return {"model.compile()": in_place, "torch.compile(model)": wrapped}

# %%
def same_keys(model):
    return list(model.state_dict()) == list(Scorer().state_dict())

predict(
    "Which of them changes the names in your checkpoint?",
    ["none", *both_ways(Scorer), "both"],
    lambda: next((n for n, m in both_ways(Scorer).items() if not same_keys(m)), "none"),
)

# %%
def table(make, x):
    for name, model in both_ways(make).items():
        run = first_call(model, x)
        first_key = next(iter(model.state_dict()))
        print(f"{name:21} graphs: {len(run.graphs)}   {type(model).__name__:15} {first_key}")

table(Scorer, torch.randn(5, 8))
model = both_ways(Scorer)["model.compile()"]
run = first_call(model, torch.randn(5, 8))
show(run)

# %% [markdown]
# **What happened.** Both captured the same graph. But `torch.compile(model)` returned another object, an
# `OptimizedModule` that holds yours as `_orig_mod`, and that name gets into every key of `state_dict()`.
# `model.compile()` changed your model itself: same object, same keys. For your own modules, prefer it.
#
# It compiles the call of the module, and that includes hooks. But in both forms a hook of the model itself becomes a
# graph of its own, and no break is reported. Compile a function that calls the model, and one graph holds both.

# %% [markdown]
# **Change one thing.** The same layers, put together with `nn.Sequential` instead of a class of your own.

# %%
def make_sequential():
    return nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 1))

predict(
    "How many graphs does a call capture after make_sequential().compile()?",
    ["0", "1", "3"],
    lambda: len(first_call(both_ways(make_sequential)["model.compile()"], torch.randn(5, 8)).graphs),
)

# %%
table(make_sequential, torch.randn(5, 8))
run = first_call(both_ways(make_sequential)["model.compile()"], torch.randn(5, 8))
print("torch", torch.__version__)
show(run)

# %% [markdown]
# **What happened.** Dynamo skips the frames of PyTorch's own files, and `nn.Sequential` has no other. Up to torch 2.13
# the in-place form therefore compiles *nothing* on a built-in module, without a word; 2.14 mended it. The table above
# says what your version does.
#
# No attribute and no missing error tells you whether something was compiled. A captured graph does. (From torch 2.13 on,
# `fullgraph=True`, lesson 3, also raises if Dynamo skipped everything.)

# %% [markdown]
# ### Exercise basic_2 · Did it compile?
#
# You get five callables that all look compiled. Two of them are not (on 2.14 and later possibly one). Find out which
# are, by a fact. Each callable is new and was never called.

# %% exercise="basic_2"
def compiled_ways(ways, x):
    """The set of names whose call compiles something. ways: {name: callable of x}."""
    ### BEGIN SOLUTION
    return {name for name, way in ways.items() if observe(way, x).graphs}
    ### END SOLUTION

# %% check="basic_2"
check("basic_2")

# %% [markdown]
# ### Exercise basic_3 · A checkpoint that survives
#
# Your colleague saves from a wrapped model, you load into one compiled in place, next year somebody compiles single
# blocks. Write a loader that does not care. A weight that is really missing must still raise; a key too many
# may be ignored.

# %% exercise="basic_3"
def load_checkpoint(model, state):
    """Copy every weight of `state` into `model`, whichever of the two was compiled how.

    Raises if a weight of the model is missing in `state`. Leaves `state` as it is.
    """
    ### BEGIN SOLUTION
    clean = {key.replace("_orig_mod.", ""): value for key, value in state.items()}
    model.load_state_dict({key: clean[key.replace("_orig_mod.", "")] for key in model.state_dict()})
    ### END SOLUTION

# %% check="basic_3"
check("basic_3")

# %% [markdown]
# ## 1.3 From your line to a kernel
#
# **The case.** Four operations, now with the default backend, `inductor`. Here is the wait: the first kernel on a
# machine takes ten seconds or more, because a C++ compiler runs.
#
# `on="h100"` also asks for the code that an NVIDIA H100 would get. It is written here, not run.

# %%
def gated_loss(x, scale, target):
    hidden = F.gelu(x) * scale
    return F.mse_loss(hidden.softmax(-1), target)

fused_loss = torch.compile(gated_loss)
inputs = torch.randn(64, 256), torch.randn(256), torch.rand(64, 256)

# %%
predict(
    "gelu, mul, softmax, mse_loss: how many kernels does Inductor write for them on this machine?",
    ["1", "4", "more than 4"],
    lambda: {1: "1", 4: "4"}.get(len(first_call(fused_loss, *inputs).kernels), "more than 4"),
)

# %%
torch.compiler.reset()
run = observe(fused_loss, *inputs, on="h100")
show(run)

# %% [markdown]
# **What happened.** *Dynamo* wrote down your four operations. *AOTAutograd* took each apart into simpler ATen
# operations, its *decompositions*: choose Dynamo, click `gelu`, go back, and see what it became. *Inductor* then put
# neighbors into one loop, *fusion*, so that most values never reach memory.
#
# Beside the graph is the C++ that was generated for this CPU. Choose the H100 above it: the same graph as *Triton*.

# %% [markdown]
# **Change one thing.** Ask for gradients.

# %%
def loss_and_gradients(loss, x, scale, target):
    loss(x, scale, target).backward()

trained = inputs[0].clone().requires_grad_(), inputs[1].clone().requires_grad_(), inputs[2]
decomposing = torch.compile(gated_loss, backend="aot_eager_decomp_partition")

def size_of_backward():
    compiled = first_call(loss_and_gradients, decomposing, *trained).compiles[0]
    forward, backward = (len(compiled.graph(stage).calls()) for stage in ("forward", "backward"))
    return "more" if backward > forward else "fewer" if backward < forward else "as many"

predict("Compared with the forward graph, how many operations has the backward graph?",
        ["fewer", "as many", "more"], size_of_backward)

# %%
torch.compiler.reset()
run = observe(loss_and_gradients, fused_loss, *trained, on="h100")
for graph in run.compiles[0].graphs[:4]:
    names = [node.name for node in graph.calls()]
    print(f"{graph.stage:9} {len(names):3} operations: {' '.join(names[:8])}{' …' if len(names) > 8 else ''}")
show(run)

# %% [markdown]
# **What happened.** AOTAutograd traced forward and backward together, `joint`, before you ever called `backward()`.
# Then it cut: a forward graph, a backward graph, and between them the tensors to keep. The backward begins with
# `gelu` again, because computing it twice in a fused kernel is cheaper than storing it.
#
# `aot_eager` takes the same road, decomposes only what it must, and leaves out Inductor:

# %%
run = first_call(loss_and_gradients, torch.compile(gated_loss, backend="aot_eager"), *trained)
print([node.target for node in run.compiles[0].graph("forward").calls()])

# %% [markdown]
# ### Exercise basic_4 · What became of my operation?
#
# Pointing at a node lights up what it became. Write that link yourself: for each operation of yours, the operations
# of a later stage that stem from it. (`aot_eager_decomp_partition` decomposes as Inductor does and stops there.)

# %%
run = first_call(loss_and_gradients, decomposing, *trained)
for node in run.compiles[0].graph("forward").calls()[:6]:
    print(f"{node.name:6} {node.target:18} comes from {node.origins}")

# %% exercise="basic_4"
def taken_apart(run, stage):
    """{Dynamo node's name: [targets of the nodes of that stage that stem from it]}.

    Targets are in the order of the graph. `stage` is "inference", "forward" or
    "backward"; the run has one compile.
    """
    ### BEGIN SOLUTION
    found = {}
    for node in run.compiles[0].graph(stage).calls():
        for origin in node.origins:
            found.setdefault(origin, []).append(node.target)
    return found
    ### END SOLUTION

# %% check="basic_4"
check("basic_4")

# %% [markdown]
# ### Exercise basic_5 · Read a kernel, write a kernel
#
# Here is what an H100 would run for `x * sigmoid(x) * scale`. Each program instance loads a block, computes in
# registers, and stores once. First read it by program; then complete a kernel of your own that does the same. It runs
# here in Triton's interpreter, which checks every address. (Needs Linux: there is no `triton` package elsewhere.)

# %%
def swish_gate(x, scale):
    return x * x.sigmoid() * scale

eager = torch.compile(swish_gate, backend="eager")
run = observe(eager, torch.randn(24, 50), torch.randn(50), on="h100")
kernel = run.pretended[0].kernels[0]
print(kernel.source.partition("@triton.jit")[2].strip())

# %% exercise="basic_5"
import triton
import triton.language as tl

def read_kernel(kernel):
    """Its number of tl.load, of tl.store, and the set of its Dynamo nodes' names."""
    ### BEGIN SOLUTION
    source = kernel.source
    return source.count("tl.load("), source.count("tl.store("), set(kernel.dynamo_nodes)
    ### END SOLUTION

@triton.jit
def gate_kernel(x_ptr, scale_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    """out = x * sigmoid(x) * scale: n elements, in rows of `width`; scale [width]."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    ### BEGIN SOLUTION
    x = tl.load(x_ptr + i, inside)
    scale = tl.load(scale_ptr + i % width, inside)
    tl.store(out_ptr + i, x * tl.sigmoid(x) * scale, inside)
    ### END SOLUTION

# %% check="basic_5"
check("basic_5")

# %% [markdown]
# ## 1.4 A training step
#
# **The case.** What you repeat in training is a step: clear the gradients, forward, loss, backward, update. Compile
# that function. The model and the optimizer are its arguments. (PyTorch may log one line about its profiler. It is
# harmless.)

# %%
def train_step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss

fast_step = torch.compile(train_step, backend="aot_eager")
model = Scorer()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [(torch.randn(16, 8), torch.randn(16)) for _ in range(3)]

# %%
predict(
    "How many graphs does the first call of fast_step capture?",
    ["0", "1", "2", "5"],
    lambda: len(first_call(fast_step, model, optimizer, *batches[0]).graphs),
)

# %%
torch.compiler.reset()
runs = [observe(fast_step, model, optimizer, x, y) for x, y in batches]
for number, run in enumerate(runs, 1):
    print(f"batch {number}: loss {run.result:.3f}, {len(run.graphs)} new graphs")
show(runs[0])

# %% [markdown]
# **What happened.** One graph holds the forward pass and the loss; AOTAutograd made its backward graph at the same
# time. The second holds the optimizer's update of *all* parameters. `zero_grad()` and the call of `backward()` stay
# in Python: PyTorch breaks there on purpose. Only the call is Python; the compiled backward graph runs inside it. (A
# *frame* without a graph: Dynamo looked at it and found nothing to compute.)
#
# The next batches found everything compiled. That is the right boundary: the step inside, the loop, the data and the
# logging outside.

# %% [markdown]
# **Change one thing.** Pull the loop in.

# %%
def train_epoch(model, optimizer, batches):
    for x, y in batches:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return loss

fast_epoch = torch.compile(train_epoch, backend="aot_eager")

# %%
def compiled_of_epoch():
    plain = first_call(fast_epoch, model, optimizer, batches).not_compiled
    return "nothing" if "train_epoch" in [one.function for one in plain] else "the loop"

predict(
    "What is compiled of train_epoch itself?",
    ["the loop", "one round of it", "nothing"],
    compiled_of_epoch,
)

# %%
run = first_call(fast_epoch, model, optimizer, batches)
print("compiled:", ", ".join(one.function for one in run.compiles if one.graphs))
show(run)

# %% [markdown]
# **What happened.** Dynamo cannot go on in the middle of a loop. A break inside one makes the whole function plain
# Python, silently. The functions that it *calls* are compiled, each for itself; the loss between them is not.
#
# Mixed precision belongs inside the step. It changes the dtypes in the graph, not the number of graphs:

# %%
def mixed_step(model, optimizer, x, y):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        predicted = model(x)
    loss = F.mse_loss(predicted.float(), y)
    loss.backward()
    optimizer.step()
    return loss

fast_mixed = torch.compile(mixed_step, backend="aot_eager")
run = first_call(fast_mixed, model, optimizer, *batches[0])
print(f"{len(run.graphs)} graphs; in the first:")
for node in run.graphs[0].calls():
    print(f"  {node.name:18} {node.dtype or ''}")

# %% [markdown]
# ### Exercise basic_6 · The right boundary
#
# Give back a step for this model and this optimizer. The check trains on a few batches: the loss and its backward
# must be in one graph, the update in another, later batches compile nothing, and the weights are those of a training in
# float64, up to rounding.

# %% exercise="basic_6"
def make_step(model, optimizer):
    """A compiled step(x, y): one update for the mean squared error; returns the loss.

    Use backend="aot_eager".
    """
    ### BEGIN SOLUTION
    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return torch.compile(step, backend="aot_eager")
    ### END SOLUTION

# %% check="basic_6"
check("basic_6")

# %% [markdown]
# ## 1.5 Four backends, one result?
#
# **The case.** A backend is a function: it gets the FX graph, and returns something to call. You will see one of your own.
# `error` compares a backend's result with float64, the best answer there is.

# %%
def soft_gate(x, scale):
    return (F.gelu(x) * scale).softmax(-1)

def error(backend, dtype):
    torch.compiler.reset()
    x = torch.linspace(-4, 4, 4096).view(16, 256).to(dtype)
    scale = torch.linspace(0, 2, 256).to(dtype)
    result = torch.compile(soft_gate, backend=backend)(x, scale)
    return (result.double() - soft_gate(x.double(), scale.double())).abs().max().item()

# %%
def nearest():
    errors = {name: error(name, torch.bfloat16) for name in ("eager", "inductor")}
    return "both" if len(set(errors.values())) == 1 else min(errors, key=errors.get)

predict("In bfloat16, who comes nearest to float64?", ["eager", "inductor", "both"], nearest)

# %%
def listening(gm, example_inputs):
    print("my backend got", [node.name for node in gm.graph.nodes if node.op.startswith("call")])
    return gm.forward

mine = error(listening, torch.float32), error(listening, torch.bfloat16)
print("largest error      float32   bfloat16")
for name in ("eager", "aot_eager", "inductor"):
    print(f"{name:12} {error(name, torch.float32):13.1e} {error(name, torch.bfloat16):10.1e}")
print(f"{'my backend':12} {mine[0]:13.1e} {mine[1]:10.1e}")

# %% [markdown]
# **What happened.** Eager rounds to bfloat16 after each operation. A fused kernel keeps float32 in its registers and
# rounds once, at the end. So "the same result" means: the same up to rounding, and often nearer to the truth. Never
# compare compiled with eager by `==`; compare both with float64, as each check here does.
#
# `backend="eager"` captures the graph but compiles nothing: it tells you whether Dynamo or a later stage is to blame.

# %% [markdown]
# **Change one thing.** Add dropout, and give both the same seed.

# %%
def noisy_gate(x):
    return F.dropout(soft_gate(x, torch.ones(256)), 0.5)

def with_seed(fn):
    torch.manual_seed(0)
    return fn(torch.ones(64, 256)) == 0

def same_mask():
    torch.compiler.reset()
    same = torch.equal(with_seed(noisy_gate), with_seed(torch.compile(noisy_gate)))
    return "yes" if same else "no"

predict("With one seed, does Inductor drop the elements that eager drops?", ["yes", "no"], same_mask)

# %%
print("the same elements:", same_mask())
torch.compiler.reset()
agree = (with_seed(noisy_gate) == with_seed(torch.compile(noisy_gate))).double().mean()
print(f"they agree on {agree:.1%} of the elements")

# %% [markdown]
# **What happened.** Inductor has a random generator of its own, inside the kernel. About half of the elements agree,
# which is what chance gives. The distribution is right, the numbers are others. For debugging,
# `torch._inductor.config.fallback_random = True` brings eager's numbers back.

# %% [markdown]
# ### Exercise basic_7 · A backend that counts
#
# Write a backend that notes how many operations each graph has, and runs the graph unchanged.

# %% exercise="basic_7"
def counting_backend(counts):
    """A backend for torch.compile: for each graph, append its number of operations.

    Operations are the nodes that call something; inputs and outputs are none.
    """
    ### BEGIN SOLUTION
    def backend(gm, example_inputs):
        counts.append(sum(node.op.startswith("call") for node in gm.graph.nodes))
        return gm.forward

    return backend
    ### END SOLUTION

# %% check="basic_7"
check("basic_7")

# %% [markdown]
# ## Look back
#
# Take a function of your own work. Which function would you compile, which calls would the graph take in, and by
# which fact would you know? Try it: `show(first_call(torch.compile(yours, backend="aot_eager"), *its_arguments))`.
#
# ## Take away
#
# - `torch.compile(f)` returns a compiled function; what it calls is taken into the same graph.
# - Count graphs. Zero is silent, unless you ask for `fullgraph=True` (torch 2.13 on).
# - In place, `model.compile()`, keeps the names of your weights. Built-in modules: measure.
# - Compile the step, not the loop.
# - Dynamo captures, AOTAutograd differentiates and decomposes, Inductor fuses.
# - The same result means: the same up to rounding, judged by float64.
