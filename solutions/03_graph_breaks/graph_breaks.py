# %% [markdown]
# # 3 · Where does my graph break?
#
# After this lesson you can say of your own code **why it broke, what that costs, and which remedy fits**. You will
#
# - find the line where Dynamo goes back to Python, and its number,
# - see what a break costs in kernels and bytes, and which break costs the whole function,
# - take a break away without losing the log line, the library call or the result,
# - put a branch and a loop *into* the graph: `torch.cond`, `while_loop`, `scan`.
#
# Not in this lesson: what compiles again (lesson 4), modes such as `max-autotune` (5), DDP (6).
#
# You need no GPU, and no cell waits for a C++ compiler: `aot_eager` breaks exactly where `inductor` breaks.

# %%
from autograder import check, doctor, hint, predict; doctor()
import logging, time, warnings
import torch
from compilescope import compare, observe, show
torch._logging.set_logs(dynamo=logging.ERROR)  # here you read facts instead of warnings
warnings.filterwarnings("ignore", module="torch._dynamo")

# %% [markdown]
# ## 3.1 Two graphs with Python between them
#
# **The case.** A tensor that is longer than `limit` is scaled down to that length. The `if` asks for a value, and
# values exist only when the code runs.

# %%
@torch.compile(backend="aot_eager")
def clip(x, limit):
    norm = x.norm()
    if norm > limit:
        x = x * (limit / norm)
    return x.tanh()

def first_call(fn, *args, **options):
    torch.compiler.reset()
    return observe(fn, *args, **options)

long, short, limit = torch.ones(1000), torch.ones(1000) / 1000, torch.tensor(1.0)

# %%
predict(
    "x is longer than limit. How many graphs does the first call capture?",
    ["0", "1", "2", "3"],
    lambda: len(first_call(clip, long, limit).graphs),
)

# %%
run = first_call(clip, long, limit)
show(run)

# %% [markdown]
# **What happened.** Dynamo reads your code with *fake tensors*: shape and dtype, no values. At the `if` it must know
# one. So it ended the first graph there, let Python decide, and compiled the rest as a *resume function*: the second
# graph. Between them is a **graph break**.
#
# `GB0170` is its number in PyTorch's
# [registry of breaks](https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0170.html). Texts change between
# versions, numbers hardly do.

# %% [markdown]
# **Change one thing.** Call it with a short x.

# %%
def more_graphs():
    first_call(clip, long, limit)
    return len(observe(clip, short, limit).graphs)

predict("After that call, x is short. How many more graphs?", ["0", "1", "2"], more_graphs)

# %%
torch.compiler.reset()
for x in (long, short, long, short):
    run = observe(clip, x, limit)
    print(f"norm {x.norm():6.3f}: {len(run.graphs)} new graphs {[one.function for one in run.compiles]}")

# %% [markdown]
# **What happened.** Each side of the branch is a resume function of its own, compiled when it is first needed. A break
# does not cost correctness. What does it cost? Here a `print` cuts a chain of simple operations; compare the kernels
# that an H100 would get. (They are written here, not run; that needs Linux.)

# %%
def brighten(image, gain):
    image = (image * gain).clamp(0, 1)
    print("brightened", tuple(image.shape))
    return image**0.45

def brighten_silently(image, gain):
    return (image * gain).clamp(0, 1) ** 0.45

def on_h100(fn):
    compiled = torch.compile(fn, backend="eager")
    return first_call(compiled, torch.rand(512, 512), torch.tensor(1.5), on="h100").pretended[0]

# %%
def moved(fn):
    return sum(kernel.bytes_read + kernel.bytes_written for kernel in on_h100(fn).kernels)

predict(
    "Without the print, how many bytes do the kernels move?",
    ["as many", "half as many", "a quarter"],
    lambda: {1: "as many", 2: "half as many", 4: "a quarter"}[round(moved(brighten) / moved(brighten_silently))],
)

# %%
compare(on_h100(brighten), on_h100(brighten_silently), ("with print", "without"))

# %% [markdown]
# **What happened.** Nothing is fused across a break: the first kernel must write the image to memory, and the second
# must read it again. Besides, each call now has two guard checks and a piece of Python in between.
#
# **Ask for breaks.** Three tools come with PyTorch. `fullgraph=True` makes a break an error: use it while you develop.
# `explain` counts without raising. `TORCH_LOGS=graph_breaks` logs each one of a whole program; `set_logs` is the same
# from inside Python.

# %%
image, gain = torch.rand(512, 512), torch.tensor(1.5)
try:
    torch.compile(brighten, backend="aot_eager", fullgraph=True)(image, gain)
except Exception as error:
    print(type(error).__name__, "·", str(error).splitlines()[0])

explained = torch._dynamo.explain(brighten)(image, gain)
reason = explained.break_reasons[0]
print(f"explain · {explained.graph_count} graphs, {explained.graph_break_count} break, at")
print("   ", reason.user_stack[-1].line)

# %%
import contextlib, io

torch.compiler.reset()
with contextlib.redirect_stderr(io.StringIO()) as log:  # the log goes to stderr; only its first lines are shown
    torch._logging.set_logs(graph_breaks=True)
    torch.compile(brighten, backend="aot_eager")(image, gain)
torch._logging.set_logs(dynamo=logging.ERROR)
lines = [line.partition("[__graph_breaks] ")[2] for line in log.getvalue().splitlines()]
print("\n".join(line[:110] for line in lines[:9] if line.strip()))

# %% [markdown]
# ### Exercise breaks_1 · Three graphs to one
#
# Here is `standardize` as a colleague wrote it. Make one graph of it, with the same result for every input. The check
# compiles your function and calls it with large values, small ones, and with NaN.

# %%
def standardize_slowly(x):
    if x.isnan().any():
        x = torch.where(x.isnan(), 0, x)
    x = x - x.mean(0)
    largest = x.abs().max().item()
    return x / max(largest, 1.0)

run = first_call(torch.compile(standardize_slowly, backend="aot_eager"), torch.randn(6, 4) * 5)
print(len(run.graphs), "graphs;", ", ".join(f"{stop.gb} at: {stop.source.code}" for stop in run.breaks))

# %% exercise="breaks_1"
def standardize(x):
    """What standardize_slowly(x) returns, in one graph. x [rows, columns], may hold NaN."""
    ### BEGIN SOLUTION
    x = torch.where(x.isnan(), 0, x)
    x = x - x.mean(0)
    return x / x.abs().max().clamp(min=1.0)
    ### END SOLUTION

# %% check="breaks_1"
check("breaks_1")

# %% [markdown]
# ## 3.2 What breaks, and what it takes with it
#
# **The case.** Eight functions of the same form: something before, one suspicious line, something after.

# %%
def branch(x):
    return (x if x.sum() > 0 else -x) * 2

def size_branch(x):
    return (x if len(x) > 3 else -x) * 2

def item(x):
    return x / x.abs().max().item()

def array(x):
    return torch.from_numpy((x * 2).numpy().clip(0)) + 1

def talk(x):
    y = x * 2
    print(end="")
    return y + 1

# %%
logger = logging.getLogger("lesson")

def log(x):
    y = x * 2
    logger.info("so far")
    return y + 1

def clock(x):
    return x * 2 + 0 * time.perf_counter()

@torch.compiler.disable
def untouched(x):
    return x.sin()

def disabled(x):
    return untouched(x * 2) + 1

suspects = branch, size_branch, item, array, talk, log, clock, disabled

# %%
def graphs_of(fn):
    return len(first_call(torch.compile(fn, backend="aot_eager"), torch.randn(8)).graphs)

predict(
    "One of these four does not break. Which?",
    ["item", "array", "log", "clock"],
    lambda: next(fn.__name__ for fn in (item, array, log, clock) if graphs_of(fn) == 1),
)

# %%
for fn in suspects:
    run = first_call(torch.compile(fn, backend="aot_eager"), torch.randn(8))
    stop = run.breaks[0] if run.breaks else None
    print(f"{fn.__name__:12} graphs: {len(run.graphs)}   {f'{stop.gb}  {stop.reason[:70]}' if stop else 'no break'}")

strict = torch.compile(item, backend="aot_eager", fullgraph=True)
print("\nitem with fullgraph=True:", len(first_call(strict, torch.randn(8)).graphs), "graph")

# %% [markdown]
# **What happened.** Dynamo follows Python that it can *read*: your functions, sizes, even NumPy, which it turns into
# tensor operations. It breaks where the path depends on a value (`if`, `.item()`), where the world outside is touched
# (`print`, a logger, a clock, a C library that Dynamo has no rule for), and where you told it to (`disable`).
#
# The last line is a surprise worth knowing: `fullgraph=True` does not only check. It also captures `.item()`, as a
# number that is not known yet. `torch._dynamo.config.capture_scalar_outputs = True` does that without `fullgraph`.
#
# Something can be worse than a break: a custom operator without a *fake*. You meet it in 3.3.

# %% [markdown]
# **Change one thing.** Put the `print` into a loop.

# %%
@torch.compile(backend="aot_eager")
def rounds(x):
    x = x.sin()
    for _ in range(3):
        x = x * 2
        print(end="")
    return x + 1

predict("How many graphs now?", ["0", "2", "4", "6"], lambda: len(first_call(rounds, torch.randn(8)).graphs))

# %%
run = first_call(rounds, torch.randn(8))
explained = torch._dynamo.explain(rounds)(torch.randn(8))
print(f"explain: {explained.graph_count} graphs, {explained.graph_break_count} breaks")
show(run)

# %% [markdown]
# **What happened.** A resume function would have to start in the middle of the loop, and Dynamo cannot do that. It
# gives the *whole function* up, also the `sin` before. The same holds inside `try`, and inside a `with` of your own.
# (PyTorch's own `no_grad` and `autocast` can be entered again.) What the function calls is still compiled by itself. No
# error, no warning; `explain` says 0 graphs and −1 breaks.
#
# So "no breaks" proves nothing. **Count graphs.** That is also why a whole epoch does not belong into one compiled
# function: one log line in its loop costs you the step.

# %% [markdown]
# **Try it.** Move the `print` behind the loop and press *Run*; then behind the last line. What do you get?

# %%
from compilescope.widgets import break_it

def three_rounds(x):
    x = x.sin()
    for _ in range(3):
        x = x * 2
        print(end="")
    return x + 1

break_it(three_rounds, torch.randn(8))

# %% [markdown]
# ### Exercise breaks_2 · The break inside a loop
#
# `diffuse` smooths x and notes its energy after each round. As written, nothing of it is compiled. You want one graph;
# `energy` may become a tensor.

# %%
def diffuse_slowly(x, rounds):
    energy = []
    for _ in range(rounds):
        x = (x + x.roll(1, -1)) / 2
        energy.append(x.square().mean().item())
    return x, energy

# %% exercise="breaks_2"
def diffuse(x, rounds):
    """x after so many rounds, and its mean square after each: a tensor [rounds]. One graph."""
    ### BEGIN SOLUTION
    energy = []
    for _ in range(rounds):
        x = (x + x.roll(1, -1)) / 2
        energy.append(x.square().mean())
    return x, torch.stack(energy)
    ### END SOLUTION

# %% check="breaks_2"
check("breaks_2")

# %% [markdown]
# ### Exercise breaks_3 · Which of six calls?
#
# Here is a model of sixty lines. Do not read it: ask. The check has two other models of this kind; in one of them none of
# the six calls breaks.

# %%
def embed(x, weight):
    scale = {"mean": 0.5, "gain": 2.0}
    for name, value in scale.items():
        x = x - value if name == "mean" else x * value
    return (x @ weight).tanh()

def center(x, weight):
    x = x @ weight
    if x.shape[0] > 1:
        x = x - x.mean(0, keepdim=True)
    return x

def attend(x, weight):
    began = time.perf_counter()
    scores = (x @ weight) @ x.mT
    if not torch.compiler.is_compiling():
        print("eager scores", tuple(scores.shape))
    return (scores - 0.0 * began).softmax(-1) @ x

# %%
def gate(x, weight):
    open_ = (x @ weight).sigmoid()
    closed = 1 - open_
    kept = torch.where(open_ > 0.5, x, x * open_)
    return kept - 0.1 * closed

def mix(x, weight):
    strength = 0.5
    for shift in range(2):
        x = x + strength * x.roll(shift, -1)
        strength = strength / 2
        print(end="")
    return x @ weight

def score(x, weight):
    x = x @ weight
    largest = x.abs().amax()
    total = x.sum(-1)
    return total / largest.clamp(min=1)

# %%
class Ranker(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.eye(width) + 0.1)

    def forward(self, x):
        x = embed(x, self.weight)
        x = center(x, self.weight)
        x = attend(x, self.weight)
        x = gate(x, self.weight)
        x = mix(x, self.weight)
        return score(x, self.weight)

# %% exercise="breaks_3"
def breaking_calls(model, x):
    """The set of names of the functions in which Dynamo stops, in a first call of model(x).

    `model` is not compiled yet. {"attend", "mix"} for Ranker(6).
    """
    ### BEGIN SOLUTION
    run = observe(torch.compile(model, backend="eager"), x)
    stops = [*run.breaks, *run.not_compiled]
    return {stop.source.function for stop in stops if stop.source}
    ### END SOLUTION

# %% check="breaks_3"
check("breaks_3")

# %% [markdown]
# ## 3.3 Six remedies
#
# | you have | do |
# |---|---|
# | a print, a log line, a metric | *hoist* it: return the value, talk outside |
# | a print that may wait for the graph's end | `torch._dynamo.config.reorderable_logging_functions.add(print)` |
# | a choice between values | `torch.where`, `clamp` |
# | a choice between computations | `torch.cond` (3.4) |
# | a library call that you need | a custom op with a fake |
# | code that must see real values | `torch.compiler.disable`, and live with the break |
#
# **The case.** A checksum by a C library stands in the middle: as it is, as a *custom op*, and as a custom op with a
# *fake* that tells what the result looks like.

# %%
import zlib

def checksum(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor(zlib.crc32(x.numpy().tobytes()) % 1000)

bare_op = torch.library.custom_op("lesson::bare", checksum, mutates_args=())
full_op = torch.library.custom_op("lesson::full", checksum, mutates_args=())

@full_op.register_fake
def _(x):
    return torch.empty((), dtype=torch.int64)

def signed(x, sign):
    return torch.cat([x.sin(), sign(x.sin()).view(1)]).cos()

# %%
def outcome(sign):
    try:
        count = len(first_call(torch.compile(signed, backend="aot_eager"), torch.randn(8), sign).graphs)
        return f"{count} graphs" if count > 1 else f"{count} graph"
    except Exception:
        return "it raises"

predict("What does a first call with bare_op do?", ["1 graph", "2 graphs", "it raises"], lambda: outcome(bare_op))

# %%
print("as it is:", outcome(checksum), "· without a fake:", outcome(bare_op), "· with a fake:", outcome(full_op))
print("opcheck:", set(torch.library.opcheck(full_op, (torch.randn(8),)).values()))
run = first_call(torch.compile(signed, backend="aot_eager"), torch.randn(8), full_op)
show(run)

# %% [markdown]
# **What happened.** A custom op is one node: Dynamo never looks inside. While it traces, it asks the fake for shape and
# dtype; without one it raises. When the graph runs, the real function runs. Nothing is fused into it, but everything
# around it stays together. `opcheck` compares op and fake, and looks for hidden mutation.
#
# As it is, there are even four graphs: the break lies in a function that `signed` calls, and splits both.

# %% [markdown]
# **Change one thing.** This time the code must see values at run time, and stay plain Python. The break is wanted, but
# no other one. `error_on_graph_break` is a `fullgraph` that can be switched off for some lines.

# %%
from torch._dynamo import error_on_graph_break

seen = []

@torch.compiler.disable
def audit(x):
    seen.append(float(x.max()))
    return x.clamp(max=0.9)

def audited(x):
    with error_on_graph_break(True):
        y = x.sin()
        with error_on_graph_break(False):
            y = audit(y)
        return y.cos()

# %%
predict(
    "How many graphs does audited capture?",
    ["it raises", "1", "2", "3"],
    lambda: len(first_call(torch.compile(audited, backend="aot_eager"), torch.randn(8)).graphs),
)

# %%
run = first_call(torch.compile(audited, backend="aot_eager"), torch.randn(8))
print("seen by audit:", seen[-1:], "· functions left to Python:", [one.function for one in run.not_compiled])
show(run)

# %% [markdown]
# **What happened.** `disable` returns a function that Dynamo leaves alone, with all that it calls. Two graphs, one
# break that you chose. With `fullgraph=True` the same code raises.
#
# Two more doors go *into* the graph. `nonstrict_trace` (in `torch.compiler` from 2.14 on) and the older `allow_in_graph`
# say: do not read this function, only record what it does to tensors. With `aot_eager` and `inductor` its Python runs
# while tracing, and never again; `backend="eager"` runs it in each call.
#
# `disable` and `allow_in_graph` are in `torch.compiler`, beside `reset`, which `first_call` uses, and `config`;
# `error_on_graph_break` is in `torch._dynamo`.

# %%
nonstrict_trace = getattr(torch.compiler, "nonstrict_trace", None) or torch._dynamo.nonstrict_trace
calls = []

@nonstrict_trace
def smooth(x):
    calls.append(time.perf_counter())  # Dynamo cannot read this
    return (x + x.roll(1)) / 2

fast = torch.compile(lambda x: smooth(x.sin()).cos(), backend="aot_eager", fullgraph=True)
run = first_call(fast, torch.randn(8))
traced = len(calls)
fast(torch.randn(8)), fast(torch.randn(8))
print(len(run.graphs), "graph:", [node.target for node in run.compiles[0].graph("inference").calls()])
print("its Python ran", "while tracing" if traced else "", "and", len(calls) - traced, "times in two more calls")

# %% [markdown]
# ### Exercise breaks_4 · Keep the log line, lose the break
#
# Each call must print its loss, `loss 0.1234`, and no call may go back to Python in the middle. Give back such a
# function; what it computes is in one graph.

# %%
@torch.compile(backend="aot_eager")
def denoise_and_break(x):
    y = torch.tanh(2 * x)
    loss = (y - x).square().mean()
    print(f"loss {loss:.4f}")
    return y - loss * y.sign()

print(len(first_call(denoise_and_break, torch.randn(5, 3)).graphs), "graphs")

# %% exercise="breaks_4"
def make_denoise():
    """A function denoise(x) like denoise_and_break: it prints its loss in each call.

    One graph, no break. Use backend="aot_eager".
    """
    ### BEGIN SOLUTION
    @torch.compile(backend="aot_eager", fullgraph=True)
    def core(x):
        y = torch.tanh(2 * x)
        loss = (y - x).square().mean()
        return y - loss * y.sign(), loss

    def denoise(x):
        result, loss = core(x)
        print(f"loss {loss:.4f}")
        return result

    return denoise
    ### END SOLUTION

# %% check="breaks_4"
check("breaks_4")

# %% [markdown]
# ### Exercise breaks_5 · A custom op with its fake
#
# `library_codes` stands for a library that knows Python lists only. Make an op of it that works in any graph, for x of
# any shape. The check runs it under `fullgraph=True` and calls `torch.library.opcheck`. With a GPU it also says, as a
# bonus, whether your op takes CUDA tensors.

# %%
import bisect

def library_codes(values, edges):
    return [bisect.bisect(edges, value) for value in values]

print(library_codes([0.5, -1.0, 3.0], [0.0, 1.0]))

# %% exercise="breaks_5"
def make_bucket():
    """A custom op bucket(x, edges): for each element its code from library_codes.

    x of any shape, edges [n]; int64 out, in the shape and on the device of x.
    """
    ### BEGIN SOLUTION
    @torch.library.custom_op("course::bucket", mutates_args=())
    def bucket(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        codes = library_codes(x.flatten().tolist(), edges.tolist())
        return torch.tensor(codes, device=x.device).view(x.shape)

    @bucket.register_fake
    def _(x, edges):
        return torch.empty_like(x, dtype=torch.int64)

    return bucket
    ### END SOLUTION

# %% check="breaks_5"
check("breaks_5")

# %% [markdown]
# ### Exercise breaks_6 · What must stay eager
#
# `first` and `last` are layers, `record` looks at real values in between and gives back a tensor. Dynamo would gladly
# trace `record`: prevent it. Both layers must be compiled.

# %% exercise="breaks_6"
def make_forward(first, last, record):
    """A function forward(x): last(record(first(x))).

    Both layers are in graphs, with backend="aot_eager"; record runs as plain Python
    on each call.
    """
    ### BEGIN SOLUTION
    eager = torch.compiler.disable(record)
    return torch.compile(lambda x: last(eager(first(x))), backend="aot_eager")
    ### END SOLUTION

# %% check="breaks_6"
check("breaks_6")

# %% [markdown]
# ## 3.4 A branch inside the graph
#
# **The case.** `clip` again, twice without a break. One computes a factor that is 1 where nothing should change. The
# other gives both sides to `torch.cond`.

# %%
def clip_by_factor(x, limit):
    return (x * (limit / x.norm().clamp(min=limit))).tanh()

def clip_by_cond(x, limit):
    norm = x.norm()

    def long(x):
        return x * (limit / norm)

    def short(x):
        return x.clone()

    return torch.cond(norm > limit, long, short, (x,)).tanh()

# %%
def sides():
    graph = first_call(torch.compile(clip_by_cond, backend="aot_eager"), long, limit).graphs[0]
    return "both sides" if "clone" in graph.text and " / " in graph.text else "the side that ran"

predict("You call clip_by_cond with a long x. What is in its graph?", ["the side that ran", "both sides"], sides)

# %%
for fn in (clip_by_factor, clip_by_cond):
    fast = torch.compile(fn, backend="aot_eager", fullgraph=True)
    run, more = first_call(fast, long, limit), observe(fast, short, limit)
    print(f"{fn.__name__:14} graphs: {len(run.graphs)}, for a short x: {len(more.graphs)} more")
show(run)

# %% [markdown]
# **What happened.** One graph holds the predicate and both branches; at run time one of them is computed.
# `limit` and `norm` are not arguments of the branches: closures are lifted to inputs for you.
#
# `where` and `clamp` compute everything for every element, and choose element by element. `cond` computes one side, and
# decides once. Try `where` first; take `cond` when a side is expensive.
#
# **The trap of `where`.** Both sides are computed, also in backward: an inf on the side that is not taken gives a NaN
# gradient. Make the input safe first, as `clamp(min=limit)` does: `limit / norm` of a zero x would be inf.

# %% [markdown]
# **The price of `cond`.** One graph is not one kernel: nothing is fused across a `cond`, and on a GPU the host waits for
# the predicate. Compare the kernels for an H100; of the four, a call runs three.

# %%
pretended = []
for fn in (clip_by_factor, clip_by_cond):
    run = first_call(torch.compile(fn, backend="eager"), long, limit, on="h100")
    pretended += run.pretended
compare(*pretended, ("by factor", "by cond"))

# %% [markdown]
# **Change one thing.** Ask for gradients, also of a weight that only the closure holds.

# %%
weight = torch.full((1000,), 2.0, requires_grad=True)

def loss_of(x):
    return torch.cond(x.sum() > 0, lambda x: x * weight, lambda x: -x, (x,)).sum()

def gradient(fn, x):
    fn(x).backward()

def place_of_choice():
    run = first_call(gradient, torch.compile(loss_of, backend="aot_eager"), long)
    return "in the backward graph" if "cond" in run.compiles[0].graph("backward").text else "in Python"

predict("Where is the choice between the two gradients made?", ["in Python", "in the backward graph"], place_of_choice)

# %%
weight.grad = None
run = first_call(gradient, torch.compile(loss_of, backend="aot_eager", fullgraph=True), long)
print("gradient of the weight:", weight.grad[:3])
show(run)

# %% [markdown]
# **What happened.** Backward has a `cond` of its own: choose *backward* above. The gradient of a branch that did not run is
# zero, also for what it only closes over.
#
# **A second price: rules.** Both branches are traced, whichever runs, so both must fit into one graph. See what is
# refused *on your version*.

# %%
def positive(x):
    return x.sum() > 0

faulty = {
    "alias": (positive, lambda x: x, lambda x: -x),
    "dtype": (positive, lambda x: x.double() * 2, lambda x: x * 3),
    "outputs": (positive, lambda x: (x * 2, x.sum()), lambda x: (-x,)),
    "predicate": (lambda x: x > 0, lambda x: x * 2, lambda x: x * 3),
}
unusual = {
    "shape": (positive, lambda x: x[:2] * 2, lambda x: x * 3),
    "gradient": (positive, lambda x: x * 2, lambda x: x.detach() * 3),
    "mutation": (positive, lambda x: x.add_(1).clone(), lambda x: x * 3),
}

# %%
def verdict(condition, yes, no):
    def choose(x):
        return torch.cond(condition(x), yes, no, (x,))

    torch.compiler.reset()
    said = "accepted"
    with observe() as run:
        try:
            torch.compile(choose, backend="aot_eager", fullgraph=True)(torch.randn(8))
        except Exception as error:
            said = f"refused, {type(error).__name__}"
    return said + "".join(f", {stop.gb}" for stop in run.breaks if stop.gb)

print("torch", torch.__version__)
for name, parts in {**faulty, **unusual}.items():
    print(f"{name:10} {verdict(*parts)}")
with torch.no_grad():
    print(f"mutation   {verdict(*unusual['mutation'])} (under no_grad)")

# %% [markdown]
# **What happened.** A branch returns *new* tensors: an input or a view of it is an alias, so `clone` it. Both branches
# return the same structure and the same dtypes. The predicate is one element. With a tensor as predicate these rules
# hold in eager, too. A Python bool, such as `len(x) > 4` of a static size, chooses its side at once, and no rule is
# checked.
#
# Older texts forbid more. Shapes may differ (the result then has a size that is not known), one side may be without
# gradient, and from 2.12 on a branch may change its input where no gradients are recorded. They also import `cond` from
# `functorch.experimental.control_flow`; it is the same function.

# %% [markdown]
# ### Exercise breaks_7 · Without any branch
#
# `clip_rows_slowly` decides for each row. Write it branchless: no `if`, no `cond`, one graph for all inputs. The check
# looks at both sides of the branch, at a row of zeros, and at the gradients of all of them: the branch gives a row of
# zeros a gradient of 1.

# %%
def clip_rows_slowly(x, limit):
    rows = []
    for row in x:
        norm = row.norm()
        rows.append(row * (limit / norm) if norm > limit else row)
    return torch.stack(rows)

# %% exercise="breaks_7"
def clip_rows(x, limit):
    """x [rows, columns]; each row longer than limit (a tensor) scaled down to that length."""
    ### BEGIN SOLUTION
    norms = x.norm(dim=-1, keepdim=True)
    return x * (limit / norms.clamp(min=limit))
    ### END SOLUTION

# %% check="breaks_7"
check("breaks_7")

# %% [markdown]
# ### Exercise breaks_8 · The repair shop
#
# Mend the four of `faulty`, and keep each a `torch.cond`. What each must give:
#
# | name | condition | if true | if false |
# |---|---|---|---|
# | alias | sum > 0 | x | −x |
# | dtype | sum > 0 | 2x as float64 | 3x as float64 |
# | outputs | sum > 0 | 2x and its sum, of x | −x and 0 |
# | predicate | any element > 0 | 2x | 3x |

# %% exercise="breaks_8"
def repaired():
    """{"alias": …, "dtype": …, "outputs": …, "predicate": …}: four functions of x [n], float32."""
    ### BEGIN SOLUTION
    def choose(condition, yes, no):
        return lambda x: torch.cond(condition(x), yes, no, (x,))

    return {
        "alias": choose(positive, lambda x: x.clone(), lambda x: -x),
        "dtype": choose(positive, lambda x: x.double() * 2, lambda x: x.double() * 3),
        "outputs": choose(positive, lambda x: (x * 2, x.sum()), lambda x: (-x, torch.zeros_like(x.sum()))),
        "predicate": choose(lambda x: (x > 0).any(), lambda x: x * 2, lambda x: x * 3),
    }
    ### END SOLUTION

# %% check="breaks_8"
check("breaks_8")

# %% [markdown]
# ## 3.5 A loop inside the graph
#
# **The case.** A running average over the rows of `xs`, as a Python loop and as `scan`. Both give one graph. (These
# functions have no public name yet.)

# %%
from torch._higher_order_ops import scan, while_loop

def average(xs):
    mean, means = torch.zeros(xs.shape[1]), []
    for x in xs:
        mean = 0.9 * mean + 0.1 * x
        means.append(mean)
    return torch.stack(means)

def average_by_scan(xs):
    def step(mean, x):
        mean = 0.9 * mean + 0.1 * x
        return mean, mean.clone()  # what to carry on, what to keep

    return scan(step, torch.zeros(xs.shape[1]), xs)[1]

# %%
def sizes(rows):
    xs = torch.randn(rows, 3)
    runs = [first_call(torch.compile(fn, backend="aot_eager"), xs) for fn in (average, average_by_scan)]
    return [len(run.graphs[0].calls()) for run in runs]

predict(
    "20 rows instead of 10. How much larger does the graph of scan get?",
    ["as large as before", "a few operations", "twice as large"],
    lambda: "as large as before" if sizes(10)[1] == sizes(20)[1] else "twice as large",
)

# %%
for rows in (10, 20):
    loop, scanned = sizes(rows)
    print(f"{rows} rows: {loop} operations as a Python loop, {scanned} with scan")
run = first_call(torch.compile(average_by_scan, backend="aot_eager"), torch.randn(20, 3))
show(run)

# %% [markdown]
# **What happened.** A Python loop is *unrolled*: its graph grows with each round. `scan` puts the body into the graph
# once. Where nobody knows the number of rounds, `while_loop` carries tensors from round to round until a condition
# fails:

# %%
def halve_until_small(x):
    def too_large(x, rounds):
        return x.abs().max() > 1

    def halve(x, rounds):
        return x / 2, rounds + 1

    return while_loop(too_large, halve, (x, torch.zeros((), dtype=torch.int64)))

run = first_call(torch.compile(halve_until_small, backend="aot_eager", fullgraph=True), torch.tensor([3.0, 50.0]))
print("x, rounds:", run.result)
show(run)

# %% [markdown]
# Where an input requires gradients, ask for `fullgraph=True`, as here. A plain compile shows three graphs instead of
# one: the backend fails on the loop (GB0219), which then runs in eager.

# %% [markdown]
# ### Exercise breaks_9 · Until it is good enough
#
# Newton's square root, as long as any square is off by more than 0.001. One graph, whatever the number of steps.

# %%
def root_slowly(a):
    x, steps = torch.ones_like(a), 0
    while (x * x - a).abs().max() > 1e-3:
        x, steps = (x + a / x) / 2, steps + 1
    return x, steps

# %% exercise="breaks_9"
def root(a):
    """x and steps of root_slowly(a), steps as a tensor. a [n]. One graph with a while_loop."""
    ### BEGIN SOLUTION
    def off(x, steps):
        return (x * x - a).abs().max() > 1e-3

    def newton(x, steps):
        return (x + a / x) / 2, steps + 1

    return while_loop(off, newton, (torch.ones_like(a), torch.zeros((), dtype=torch.int64, device=a.device)))
    ### END SOLUTION

# %% check="breaks_9"
check("breaks_9")

# %% [markdown]
# ## Look back
#
# Take a model of your own and compile its step with `fullgraph=True`.
#
# - What is the first number that you get, and on which line? Which of the remedies fits?
# - Which of your functions has a loop with a log line in it? How many graphs has it?
# - Where do you choose by value, and are both sides expensive?

# %% [markdown]
# ## Take away
#
# - A break ends a graph, lets Python run, and starts another. Results stay right; fusion across it is lost.
# - `fullgraph=True` while you develop, `explain` and `TORCH_LOGS=graph_breaks` to find, the GB number to look up.
# - A break in a `for`, a `try` or a `with` of your own costs the whole function. Count graphs, not breaks.
# - Hoist what talks. `where` before `cond`, with inputs safe for both sides. Custom op with a fake for a library,
#   `disable` for what must be Python.
# - `cond`, `while_loop` and `scan` put both sides, and the body, into the graph. Their branches return new tensors of
#   the same structure and dtype.
