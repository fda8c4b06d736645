# %% [markdown]
# # 4 · Why does it compile again?
#
# After this lesson you can say of any call **whether it will compile again, and why**. You will
#
# - read the guards of a compiled function, and ask them before you call,
# - serve every size with one compile, and find the line that prevents it,
# - meet the causes of recompiles, each with its guard and its cure,
# - run a service that never compiles after its warm-up.
#
# Not in this lesson: breaks (lesson 3), CUDA graphs and modes (5), the time that compiling takes (7).
#
# All of it is captured by `aot_eager`, so no cell waits for a C++ compiler. You need no GPU.

# %%
from autograder import check, doctor, hint, predict; doctor()
import torch
import torch.nn.functional as F
from torch import nn
from compilescope import compare_entries, guard_tree, observe, strips, timeline, would_recompile

# %% [markdown]
# ## 4.1 One function, several compiled codes
#
# **The case.** `soften` is called with 4 rows, twice, then with 5, 6 and 7.
#
# `calls` forgets everything compiled so far, compiles the function once, calls it with each argument, and gives you
# the facts of all these calls.

# %%
def soften(x, temperature=2.0):
    return (x / temperature).softmax(-1)

def rows(n, dtype=torch.float32):
    return torch.ones(n, 6, dtype=dtype)

def calls(fn, *arguments, before=lambda i: None, **options):
    torch.compiler.reset()
    fast = torch.compile(fn, backend="aot_eager", **options)
    with observe() as run, torch.enable_grad():
        for i, one in enumerate(arguments):
            before(i)
            one = one if isinstance(one, tuple) else (one,)
            fast(*one)
    return run

FIVE = [rows(n) for n in (4, 4, 5, 6, 7)]

# %%
predict(
    "How many times is soften compiled in these five calls?",
    ["1", "2", "4", "5"],
    lambda: len(calls(soften, *FIVE).compiles),
)

# %%
run = calls(soften, *FIVE)
timeline(run)

# %% [markdown]
# **What happened.** A compiled function is a list of *entries*: guards, and the code that is right while they hold.
# A call asks the entries in turn; the first whose guards all hold answers, a *hit*. If none does, Dynamo compiles
# once more, a *recompile*, and puts the new entry in front.
#
# The first entry assumed 4 rows. At 5 Dynamo saw which size had changed, and compiled for *any* number of rows.
# Here is what each entry assumes; open the second one.

# %%
guard_tree(run)

# %%
compare_entries(*run.compiles)

# %% [markdown]
# **Change one thing.** Ask the guards without calling. `would_recompile` takes the arguments of a call, asks each
# entry, and runs nothing.

# %%
fast = torch.compile(soften, backend="aot_eager")

def warm():
    torch.compiler.reset()
    fast(rows(4)), fast(rows(5))

def refused():
    warm()
    other = {"400 rows": rows(400), "float64": rows(4, torch.float64)}
    names = [name for name, x in other.items() if would_recompile(fast, x)]
    return names[0] if len(names) == 1 else "both" if names else "neither"

predict("fast has met 4 and 5 rows. Which of these calls would compile again?",
        ["400 rows", "float64", "both", "neither"], refused)

# %% [markdown]
# Try it yourself: change one value at a time, and see which guard refuses. `fast` is never called.

# %%
from compilescope.widgets import recompile_probe

warm()
recompile_probe(fast, rows(4), 2.0)

# %% [markdown]
# **What happened.** A tensor is guarded by its dtype, device, sizes, strides and `requires_grad`, not by its values. A
# Python number is guarded by its value. Beside the arguments, guards look at the world: grad mode, globals, the
# attributes of a module.

# %% [markdown]
# ### Exercise guards_1 · Be the cache
#
# `in_meters(x, unit)` is called with x of some rows and dtype, and a unit, which is a string. Say how many compiles a
# sequence of such calls costs. Compile nothing for it; to try a sequence, use the cell below.

# %%
UNITS = {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "km": 1e3}

def in_meters(x, unit):
    return x.cumsum(0) * UNITS[unit]

def tried(*sequence):
    return calls(in_meters, *[(rows(n, getattr(torch, dtype)), unit) for n, dtype, unit in sequence])

strips({
    "sizes": tried((5, "float32", "m"), (1, "float32", "m"), (7, "float32", "m"), (9, "float32", "m")),
    "1 first": tried((1, "float32", "m"), (5, "float32", "m"), (7, "float32", "m"), (0, "float32", "m")),
    "units": tried((5, "float32", "m"), (5, "float32", "km"), (5, "float32", "m"), (5, "float32", "mm")),
    "dtypes": tried((5, "float32", "m"), (7, "float64", "m"), (9, "float32", "m"), (4, "float64", "m")),
})

# %% exercise="guards_1"
def compiles(calls):
    """How many compiles these calls of in_meters cost, from an empty cache.

    calls: a list of (rows, dtype, unit), such as (4, "float32", "mm").
    """
    ### BEGIN SOLUTION
    entries, sizes = set(), set()
    for size, dtype, unit in calls:
        own, any_size = (size, dtype, unit), ("2 or more", dtype, unit)
        if own in entries or (size > 1 and any_size in entries):
            continue
        sizes.add(size)
        entries.add(any_size if size > 1 and len(sizes) > 1 else own)
    return len(entries)
    ### END SOLUTION

# %% check="guards_1"
check("guards_1")

# %% [markdown]
# ## 4.2 One compile for every size
#
# **The case.** You know that sizes will vary. You can leave it to Dynamo, `dynamic=None`; forbid open sizes,
# `dynamic=False`; ask for them everywhere, `dynamic=True`; or mark one dimension of one tensor.

# %%
from torch._dynamo import mark_dynamic, maybe_mark_dynamic

SIZES = [5, 7, 9, 1, 0, 11]

def marked(n, **limits):
    x = rows(n)
    mark_dynamic(x, 0, **limits)
    return x

def compiles_with(dynamic):
    return len(calls(soften, *map(rows, SIZES), dynamic=dynamic).compiles)

predict("SIZES has six sizes. How many compiles do they cost with dynamic=True?",
        ["1", "2", "3", "6"], lambda: compiles_with(True))

# %%
ways = {f"dynamic={d}": calls(soften, *map(rows, SIZES), dynamic=d) for d in (None, False, True)}
ways["mark_dynamic(x, 0)"] = calls(soften, marked(5), *map(rows, SIZES[1:]))
ways["… min=2, max=8"] = calls(soften, marked(5, min=2, max=8), *map(rows, SIZES[1:]))
strips(ways, labels=SIZES)

# %% [markdown]
# **What happened.** `None` fixes a size first, and opens it when it changes. `False` never opens one. `True` opens all
# at once. A marked dimension is open from its first call on, within its range.
#
# Sizes 0 and 1 get entries of their own in all five rows: a size of 1 broadcasts, and it counts as contiguous by
# other rules, so other code is right for it. That is why an open size starts at 2.

# %% [markdown]
# **Change one thing.** Begin with a square: 6 rows of 6 numbers.

# %%
square = {"dynamic=True": calls(soften, *map(rows, (6, 7, 8)), dynamic=True)}
square["mark_dynamic(x, 0)"] = calls(soften, marked(6), rows(7), rows(8))
print("7 rows are refused by:", square["dynamic=True"].calls[1].refusals[0].expression)
strips(square, labels=(6, 7, 8))

# %% [markdown]
# **What happened.** Open sizes that are equal in the first call get one symbol, *duck sizing*, and a guard that they
# stay equal. So `dynamic=True` compiles a square for squares only, and once more for the rest. With one dimension
# marked, the other size is a constant, and the symbol stands for the rows alone.

# %% [markdown]
# **Change one thing.** Put a line into the function that wants to know the number.

# %%
def discounted(x):
    y = x.softmax(-1)
    if len(x) == 5:
        y = y / 2
    return y.sum(0)

def with_mark(mark):
    x = rows(5)
    mark(x, 0)
    try:
        return str(len(calls(discounted, x, rows(7), rows(9)).compiles))
    except Exception as error:
        return "an error"

predict("mark_dynamic(x, 0), then calls with 5, 7 and 9 rows. How many compiles?",
        ["1", "2", "3", "an error"], lambda: with_mark(mark_dynamic))

# %%
x = rows(5)
maybe_mark_dynamic(x, 0)
run = calls(discounted, x, rows(7), rows(9))
for one in run.compiles[0].symbols:
    print(f"{one.subject} was fixed to {one.specialized_to}, line {one.specialized_by.line}: {one.specialized_by.code}")
guard_tree(run)

# %% [markdown]
# **What happened.** A branch on an open size compiles one side of it. Where the condition is `==`, the size is a
# constant there: *specialized*. `mark_dynamic` is a promise, and Dynamo raises if your code breaks it;
# `maybe_mark_dynamic` gives in, and the symbol tells the line.
#
# A comparison with `<` only narrows the range; but if you gave `min=` and `max=`, that range is the promise, and
# narrowing it raises, too. A loop over `range(len(x))` is unrolled, so it specializes. (In guards `L['x']` is the local
# variable x, and `G['RATE']` a global.)

# %% [markdown]
# ### Exercise guards_2 · One compile, one row included
#
# `fn` treats each row of x for itself. Give back a `serve(x)` that computes `fn(x)` for 1 to 64 rows, in any order,
# with a single compile.

# %% exercise="guards_2"
def one_for_all(fn):
    """serve(x) equal to fn(x), x [rows, 5] with 1 to 64 rows, compiled once for all.

    Use backend="aot_eager".
    """
    ### BEGIN SOLUTION
    fast = torch.compile(fn, backend="aot_eager")

    def serve(x):
        several = torch.cat([x, x]) if len(x) == 1 else x
        mark_dynamic(several, 0)
        return fast(several)[: len(x)]

    return serve
    ### END SOLUTION

# %% check="guards_2"
check("guards_2")

# %% [markdown]
# ### Exercise guards_3 · The line that specializes
#
# First a tool: which line of a function fixes the number of rows of x? Then use it on `pooled`, which compiles anew for
# every length, and write `mended`, which computes the same and compiles once.

# %%
def pooled(x):
    """The mean of the tokens, x [tokens, width] → [width]; later tokens weigh more."""
    total = x.new_zeros(x.shape[1])
    for i in range(len(x)):
        total = total + (i + 1) / len(x) * x[i]
    return total / len(x)

strips({"pooled": calls(pooled, *map(rows, (5, 7, 9, 11)), dynamic=True)}, labels=(5, 7, 9, 11))

# %% exercise="guards_3"
def which_line(fn, x):
    """The source of the line of fn that fixes the number of rows of x, without indent."""
    ### BEGIN SOLUTION
    maybe_mark_dynamic(x, 0)
    run = calls(fn, x)
    return next(one.specialized_by.code for one in run.compiles[0].symbols if one.specialized_by)
    ### END SOLUTION

def mended(x):
    """What pooled computes, for any number of tokens, on x.device."""
    ### BEGIN SOLUTION
    weights = torch.arange(1, len(x) + 1, device=x.device) / len(x)
    return (weights[:, None] * x).mean(0)
    ### END SOLUTION

# %% check="guards_3"
check("guards_3")

# %% [markdown]
# ## 4.3 The causes, and their cures
#
# **The case.** What users report, in four cells: tensors, Python values, modules, learning rates; each cause with its
# cure. `before(i)` runs before call `i`. Some seconds a cell; the picture comes after them. (PyTorch may log a line
# about its profiler. It is harmless.)

# %%
met, cured = {}, {}
x, tall, weight = rows(4), torch.ones(6, 4), torch.ones(4, 6, requires_grad=True)

def wave(x, k=2.0):
    return torch.sin(x) * k

met["shape"] = calls(wave, x, x[:3], x[:2])
cured["shape"] = "mark_dynamic(x, 0)", calls(wave, marked(4), x[:3], x[:2])
met["dtype"] = calls(wave, x, x.double(), x.half())
cured["dtype"] = "x.float()", calls(wave, x, x.double().float(), x.half().float())
met["stride"] = calls(wave, x, tall.mT)
cured["stride"] = "x.contiguous()", calls(wave, x, tall.mT.contiguous())
met["requires_grad"] = calls(wave, x, weight)
cured["requires_grad"] = "x.detach()", calls(wave, x, weight.detach())
met["grad mode"] = calls(wave, x, x, x, before=lambda i: torch.set_grad_enabled(i % 2 == 0))
cured["grad mode"] = "no_grad()", calls(wave, x, x, x, before=lambda i: torch.set_grad_enabled(False))

# %%
def total(x, parts):
    return sum(parts, x)

def rated(x):
    return x * RATE

numbers = [2, 3, 4, 5]
tensors = [(x, torch.tensor(float(k))) for k in numbers]
met["int"] = calls(wave, *[(x, k) for k in numbers])
met["float"] = calls(wave, *[(x, k / 2) for k in numbers])
met["string"] = calls(in_meters, *[(x, unit) for unit in UNITS])
met["list"] = calls(total, *[(x, [x] * k) for k in numbers])
met["global"] = calls(rated, *[x] * 4, before=lambda i: globals().update(RATE=i + 2))
cured |= dict.fromkeys(["int", "float"], ("tensor(k)", calls(wave, *tensors)))
cured["string"] = "tensor(UNITS[unit])", cured["int"][1]
stacks = [(x, torch.stack([x] * k)) for k in numbers]
cured["list"] = "torch.stack(parts)", calls(lambda x, parts: x + parts.sum(0), *stacks)
cured["global"] = "a tensor argument", cured["int"][1]

# %%
class Gated(nn.Module):
    def __init__(self, gain, steps):
        super().__init__()
        self.gain, self.steps, self.drop = gain, steps, nn.Dropout()

    def forward(self, x):
        return self.drop(x) * self.gain

class Counting(Gated):
    def forward(self, x):
        self.steps += 1
        return x * self.steps

plain, tensor = Gated(1, 0), Gated(torch.tensor(1), 0)
met["train / eval"] = calls(plain, *[x] * 4, before=lambda i: plain.train(i % 2 == 0))
cured["train / eval"] = "eval() to serve", calls(plain.eval(), *[x] * 4)
met["attribute"] = calls(plain, *[x] * 4, before=lambda i: setattr(plain, "gain", i + 2))
cured["attribute"] = "gain.fill_(…)", calls(tensor, *[x] * 4, before=lambda i: tensor.gain.fill_(i + 2))
met["step counter"] = calls(Counting(1, 0), *[x] * 4)
cured["step counter"] = "steps = tensor(0)", calls(Counting(1, torch.tensor(0)), *[x] * 4)

# %%
def scheduled(kind, rate):
    weight = nn.Parameter(torch.ones(6))
    weight.grad = torch.ones(6)
    optimizer = kind([weight], lr=rate)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    return calls(optimizer.step, *[()] * 4, before=lambda i: i and schedule.step())

for kind in torch.optim.SGD, torch.optim.Adam:
    met[f"rate of {kind.__name__}"] = scheduled(kind, 0.1)
    cured[f"rate of {kind.__name__}"] = "lr=tensor(0.1)", scheduled(kind, torch.tensor(0.1))

# %%
predict(
    "An argument that changes at every call. Which kind costs a compile each time?",
    ["an int argument", "a float argument", "a string argument", "none of them"],
    lambda: {"int": "an int argument", "float": "a float argument", "string": "a string argument"}[
        max(("int", "float", "string"), key=lambda kind: len(met[kind].compiles))
    ],
)

# %%
strips(met, cures=cured)

# %% [markdown]
# **What happened.** Three kinds of rows:
#
# - **A few values, then quiet**: dtype, stride, `requires_grad`, grad mode, train/eval. One entry each: decide for one
#   at the door, or warm up all.
# - **Opened at the second value**: sizes, int and float arguments that the graph computes with, as in `x * k`. Two
#   compiles.
# - **Never opened**: strings, lengths of lists, int globals, ints of a module. A compile for each new value. Make it a
#   tensor.

# %% [markdown]
# An argument can be on either side: what counts is its use. Where an operator wants a plain number (a float in
# `clamp`, `lerp`, `dropout`), or Python does (`range(k)`), each value is compiled in. Float globals and floats of a
# module are opened, as arguments are.
#
# The learning rate shows the line. Adam computes with it, so it is opened. SGD hands it on as `alpha=`,
# where only a plain number fits, so each value is compiled in. A tensor cures both.

# %% [markdown]
# ### Exercise guards_4 · Three cures
#
# A counter, a string, a list: each of these compiles for every new value. Give back three callables that compute the same.

# %%
class Faded(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x):
        self.step += 1
        return x / self.step

def to_meters(x, unit):
    return x * FACTORS[unit]

def summed(parts):
    return sum(parts)

FACTORS = {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "km": 1e3, "in": 0.0254, "ft": 0.3048, "yd": 0.9144, "mi": 1609.344}

# %% exercise="guards_4"
def three_cures():
    """(faded, to_meters, summed): like Faded(), to_meters and summed above.

    Whatever they are called with, each compiles twice at most. Use backend="aot_eager".
    """
    ### BEGIN SOLUTION
    model = Faded()
    model.step = torch.tensor(0)
    scaled = torch.compile(lambda x, k: x * k, backend="aot_eager")
    added = torch.compile(lambda stack: stack.sum(0), backend="aot_eager")
    return (
        torch.compile(model, backend="aot_eager"),
        lambda x, unit: scaled(x, torch.tensor(FACTORS[unit])),
        lambda parts: added(torch.stack(parts)),
    )
    ### END SOLUTION

# %% check="guards_4"
check("guards_4")

# %% [markdown]
# ### Exercise guards_5 · A rate that falls
#
# Write the update of plain SGD with an exponentially falling rate: weight ← weight − rate · gradient, then the rate is
# multiplied by gamma. The check sets `weight.grad` and calls `update()`, six times.

# %% exercise="guards_5"
def make_update(weight, rate, gamma):
    """update(): one step of SGD on `weight`, a Parameter with its .grad set, then a smaller rate.

    The step is compiled, once for all rates. Use backend="aot_eager".
    """
    ### BEGIN SOLUTION
    optimizer = torch.optim.SGD([weight], lr=torch.tensor(rate))
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma)
    step = torch.compile(optimizer.step, backend="aot_eager")

    def update():
        step()
        schedule.step()

    return update
    ### END SOLUTION

# %% check="guards_5"
check("guards_5")

# %% [markdown]
# ### Exercise guards_6 · Twelve blocks, one compile
#
# Blocks of one class share their code: compile each in place, and the second one is a hit. These are not.

# %%
class DeepBlock(nn.Module):
    def __init__(self, width, number):
        super().__init__()
        self.linear, self.number = nn.Linear(width, width), number

    def forward(self, x):
        return x + self.linear(x) / (self.number + 1)

def through(blocks, x):
    torch.compiler.reset()
    for block in blocks:
        block.compile(backend="aot_eager")
    with observe() as run, torch.no_grad():
        for block in blocks:
            x = block(x)
    return run

strips({"6 blocks": through([DeepBlock(6, number) for number in range(6)], x)})

# %% exercise="guards_6"
class Block(nn.Module):
    """Computes what DeepBlock does; its linear layer is self.linear."""

    def __init__(self, width, number):
        super().__init__()
        ### BEGIN SOLUTION
        self.linear = nn.Linear(width, width)
        self.register_buffer("depth", torch.tensor(number + 1.0))
        ### END SOLUTION

    def forward(self, x):
        ### BEGIN SOLUTION
        return x + self.linear(x) / self.depth
        ### END SOLUTION

# %% check="guards_6"
check("guards_6")

# %% [markdown]
# ## 4.4 The limit, and a service that never compiles
#
# **The case.** A string that is new at each call, ten times. Then the first and the last once more.

# %%
def tagged(x, name):
    return x * len(name)

TEN = [(x, "n" * length) for length in range(1, 11)]

predict("The ninth name has no entry. What does the call do?",
        ["compile", "run as plain Python", "raise an error"],
        lambda: {"gave up": "run as plain Python", "error": "raise an error"}.get(
            calls(tagged, *TEN[:9]).calls[-1].outcome, "compile"))

# %%
run = calls(tagged, *TEN, TEN[0], TEN[-1])
print("limit:", torch._dynamo.config.recompile_limit)
strips({"tagged": run})

# %% [markdown]
# **What happened.** A function has room for 8 entries. After that, PyTorch logs the warning above, once, and what no
# entry accepts runs as plain Python from then on. The entries that are there still answer.
#
# The warning names the *last reason*: cure that guard. Raise the limit only for a set of values that you can count.
# With `fullgraph=True` plain Python is no way out:

# %%
import logging

logging.getLogger("torch._dynamo").setLevel(logging.ERROR)  # one warning is enough
try:
    calls(tagged, *TEN, fullgraph=True)
except Exception as error:
    print(type(error).__name__)

# %% [markdown]
# **Change one thing.** In a service no request may wait for a compiler. Warm up everything that you will serve, then
# forbid the rest: under the *stance* `fail_on_recompile` a call that would compile raises.

# %%
server = torch.compile(soften, backend="aot_eager", dynamic=True)

def send(*requests):
    for x in requests:
        try:
            server(x)
            said = "served"
        except RuntimeError:
            said = "refused"
        print(f"{len(x):2} rows, gradients {'on' if torch.is_grad_enabled() else 'off'}: {said}")

torch.compiler.reset()
with torch.no_grad():
    for n in (1, 2):
        server(rows(n))
with torch.compiler.set_stance("fail_on_recompile"):
    with torch.no_grad():
        send(rows(1), rows(2), rows(64))
    send(rows(64))

# %% [markdown]
# **What happened.** One row and many rows were warm, with gradients off. The same request with gradients on is another
# entry. So warm up each mode *and* each kind of size that you serve, or decide for one inside the service. With
# `eager_on_recompile` the call would run as plain Python instead.

# %% [markdown]
# **Change one thing.** Text is written token by token, and attention looks at all tokens so far: the key-value cache.
# Here it grows, or has a fixed size and a place to write to.

# %%
def attend(q, keys):
    return (keys @ q).softmax(1).mT @ keys

def attend_at(q, keys, place):
    keys[:, place] = q.mT
    return attend(q, keys)

def attend_hiding(q, keys, place):
    keys.index_copy_(1, place, q[None].mT)
    seen = torch.arange(keys.shape[1], device=keys.device) <= place
    return (keys @ q).masked_fill(~seen[:, None], -torch.inf).softmax(1).mT @ keys

q, keys = torch.ones(6, 1), torch.zeros(1, 12, 6)
growing = [(q, torch.ones(1, n, 6)) for n in range(1, 8)]
caches = {"grows": calls(attend, *growing), "grows, dynamic=False": calls(attend, *growing, dynamic=False)}
caches["fixed, place is an int"] = calls(attend_at, *[(q, keys, n) for n in range(7)])
caches["fixed, place is a tensor"] = calls(attend_hiding, *[(q, keys, torch.tensor([n])) for n in range(7)])
strips(caches, labels=[f"token {n}" for n in range(1, 8)])

# %% [markdown]
# **What happened.** A growing cache is a size that opens: two compiles, but a new shape at each token, which no CUDA
# graph can replay (lesson 5). A fixed cache with an int as its place is worse: in `keys[:, place] = …` the number is
# compiled in. (As a slice, `keys[:, place:place + 1] = …`, it is opened: two compiles.) With a tensor as its place,
# everything stays as it was at the first token.

# %% [markdown]
# ### Exercise guards_7 · Never after warm-up
#
# The check hands you a new model, lets `make_server` take its time, and then sends requests of 1 to `largest` rows, some
# with gradients on. None may compile. Scores are those of the trained model: no dropout.

# %% exercise="guards_7"
def make_server(model, largest):
    """serve(x): the model's scores for x [1 to largest, model.width], without dropout.

    All compiling happens before make_server returns. Use backend="aot_eager".
    """
    ### BEGIN SOLUTION
    model.eval()
    fast = torch.compile(model, backend="aot_eager", dynamic=True)

    @torch.no_grad()
    def serve(x):
        return fast(x)

    for size in (1, 2, largest):
        serve(torch.zeros(size, model.width))
    return serve
    ### END SOLUTION

# %% check="guards_7"
check("guards_7")

# %% [markdown]
# ### Exercise guards_8 · A cache that does not grow
#
# `decode(q, k, v)` is called for one token after the other and attends to all tokens so far: `(keys @ q).softmax(0) @
# values`, where keys and values have a row for each of them. One compile for the whole text.

# %% exercise="guards_8"
def make_decoder(longest, width):
    """decode(q, k, v), each [width]: attention of q over all tokens so far; at most `longest`.

    Use backend="aot_eager". What the compiled code makes, it makes on q.device.
    """
    ### BEGIN SOLUTION
    keys, values, place = torch.zeros(longest, width), torch.zeros(longest, width), torch.tensor(0)

    @torch.compile(backend="aot_eager")
    def decode(q, k, v):
        keys.index_copy_(0, place[None], k[None])
        values.index_copy_(0, place[None], v[None])
        seen = torch.arange(longest, device=q.device) <= place
        place.add_(1)
        return (keys @ q).masked_fill(~seen, -torch.inf).softmax(0) @ values

    return decode
    ### END SOLUTION

# %% check="guards_8"
check("guards_8")

# %% [markdown]
# ## Look back
#
# Take a function that you call in a loop. Write down what changes between two calls: sizes, numbers, modes. Which of it
# is a tensor? Then look: `strips({"mine": calls(yours, *its_arguments)})`.
#
# ## Take away
#
# - A compiled function is a list of entries, guards and code. A call that no entry accepts compiles.
# - Tensors are guarded by what they are, Python values by their value.
# - A size opens when it changes; mark it, and it opens at once. 0 and 1 stay apart.
# - What changes at each call comes in as a tensor.
# - After 8 entries: one warning, then plain Python; with `fullgraph=True` an error.
# - A service warms up every mode and size, and sets `fail_on_recompile`.
