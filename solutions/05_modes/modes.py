# %% [markdown]
# # 5 · Which mode?
#
# After this lesson you can **choose a mode from measured facts, and defend the choice**. You will
#
# - read from your own torch what each mode switches on,
# - weigh the cost of the first calls against every call after,
# - see CUDA graphs record and replay, keep what they would overwrite, and find out why one was skipped,
# - read a table of autotuned candidates, and the price of precision.
#
# Not in this lesson: how to measure at all (lesson 2), what compiles again (4), how to make compiling short (7).
#
# Modes matter on a GPU. Without one you see what an **NVIDIA H200** did: each picture names its origin.

# %%
from autograder import check, doctor, hint, predict; doctor()
import math
import torch
from compilescope import autotuning, cuda_graphs, mode_frontier, mode_options, observe, replayed, try_modes
from compilescope.recorded import recorded_modes
modes, graphs = recorded_modes("modes"), recorded_modes("cuda_graphs")

# %% [markdown]
# ## 5.1 A mode is a name
#
# **The case.** `torch.compile(model, mode="max-autotune")`: what does that switch on? Blogs disagree, since it moves
# from release to release. `mode_options()` asks the torch that you run.

# %%
predict(
    "How many options does reduce-overhead set?",
    ["none", "1", "2 or 3", "more"],
    lambda: ["none", "1", "2 or 3", "2 or 3", "more"][min(4, len(mode_options()["reduce-overhead"]))],
)

# %%
print("torch", torch.__version__)
for mode, options in mode_options().items():
    most = 3 if len(options) <= 3 else 2
    shown = [f"{name}={value}" for name, value in list(options.items())[:most]]
    more = f" and {len(options) - most} more" if len(options) > most else ""
    print(f"{mode:27} {', '.join(shown) or 'nothing'}{more}")

# %% [markdown]
# **What happened.** A mode is a name for a few options of Inductor, no compiler of its own. Two ideas hide behind
# the names. `triton.cudagraphs` records the kernels of a call once, and replays them with one command. `max_autotune`
# times several candidates for each matrix product and keeps the fastest; `coordinate_descent_tuning` goes on from the
# best configuration of a fused kernel.
#
# The same names work in `options=`, each for itself. But one or the other:

# %%
def square(x):
    return x @ x

try:
    torch.compile(square, mode="max-autotune", options={"triton.cudagraphs": False})
except RuntimeError as error:
    print(type(error).__name__, "-", str(error)[:60], "…")

# %% [markdown]
# ### Exercise modes_1 · A mode with one change
#
# You want `max-autotune`, but one option otherwise. Write the options for any mode with any changes. The check asks
# for every mode that this torch has.

# %% exercise="modes_1"
def as_options(mode, changes):
    """What to pass as options= to get that mode with these changes, {option: value}."""
    ### BEGIN SOLUTION
    return {**mode_options()[mode], **changes}
    ### END SOLUTION

# %% check="modes_1"
check("modes_1")

# %% [markdown]
# ## 5.2 The price list
#
# **The case.** Six workloads were run on the H200, each mode from cold caches; for the steady state the modes took turns.
# The first workload is decoding: a single token through a transformer, again and again.

# %%
print(modes.origin.sentence())
for work in modes.group("modes"):
    print(f"{work.name:16} {work.words}")

# %%
def fastest(workload):
    return min(modes.of(workload), key=lambda trial: trial.steady_us).mode

names = [trial.mode for trial in modes.of("decode")]
predict("Once decode is warm, which mode answers fastest?", names, lambda: fastest("decode"))

# %%
mode_frontier(modes, "decode")

# %% [markdown]
# **What happened.** To the right a mode costs more at the start, further up every call costs more. On the line lies
# what no other mode beats in both: the *frontier*. A hollow mark is beaten: there is no number of calls for which you
# would take it. Two marks lie far below the others. Why?

# %%
for trial in modes.of("decode"):
    print(f"{trial.mode:27} {trial.kernels:4.0f} kernels   {trial.launches:4.0f} launches   "
          f"{trial.steady_us:6.0f} µs a call")

# %% [markdown]
# **Read it.** With batch 1 the kernels are tiny. What takes time is the CPU that launches each of them, so a mode that
# launches a whole recording at once wins. Faster kernels help only where the GPU is what you wait for.
#
# `max-autotune` records, too, and tunes before. Does the tuning pay?

# %%
def catches_up(mode, other, workload):
    late, early = modes.trial(workload, mode), modes.trial(workload, other)
    gain = early.steady_us - late.steady_us
    return math.inf if gain <= 0 else (late.start_s - early.start_s) * 1e6 / gain

def when():
    calls = catches_up("max-autotune", "reduce-overhead", "decode")
    late = "never" if calls == math.inf else "later"
    return "by 1,000" if calls <= 1e3 else "by 100,000" if calls <= 1e5 else late

predict(
    "In decode, after how many calls has max-autotune caught up with reduce-overhead?",
    ["by 1,000", "by 100,000", "later", "never"],
    when,
)

# %%
print(f"decode: after {catches_up('max-autotune', 'reduce-overhead', 'decode'):,.0f} calls")
for mode in ("reduce-overhead", "max-autotune"):
    trial = modes.trial("decode", mode)
    low, high = trial.steady_low_us, trial.steady_high_us
    print(f"{mode:16} {trial.steady_us:4.0f} µs a call, eight of ten within {low:.0f} to {high:.0f}")

# %% [markdown]
# **Read it.** The ranges overlap: the difference may be chance, and so may that number of calls. Claim a winner where
# they do not.
#
# **Change one thing:** the work. A large prefill, one pass over much memory, and a small network.

# %%
def always_fastest(mode):
    tried = [trial.workload for trial in modes.trials if trial.mode == mode]
    return "yes" if {fastest(workload) for workload in tried} == {mode} else "no"

predict("Is max-autotune the fastest wherever it was tried?", ["yes", "no"], lambda: always_fastest("max-autotune"))

# %%
mode_frontier(modes, "prefill", "pointwise chain", "small network")

# %%
mode_frontier(modes, "changing batch", "mutated input")

# %% [markdown]
# **What happened.** Each workload has a frontier of its own, and `eager` is on it: it starts at once. In the pointwise
# chain the modes with a graph copy a large input to its recorded address, and the copy costs more than any launch. In
# the small network not the launches take the time, but the products of 16 rows, with which cuBLAS is slow: only tuning
# helps. No name wins everywhere.
#
# **Here and now.** The small network once more, in three modes: live on your GPU, to be held against the recording
# above. Without a GPU you see the recording again.

# %%
class SmallNetwork(torch.nn.Module):
    def __init__(self, depth=8, width=256):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = torch.nn.functional.gelu(layer(x))
        return x

live = modes, "small network"
if torch.cuda.is_available():
    network, batch = SmallNetwork().cuda().eval(), torch.randn(16, 256, device="cuda")
    three = "eager", "default", "reduce-overhead"
    live = (try_modes(network, batch, modes_wanted=three),)
mode_frontier(*live)

# %% [markdown]
# So the answer to "which mode?" needs a second number: *how often will you call it?* Move the sliders: calls, and the
# memory that a mode may keep. The hatched part of a bar is the start.

# %%
from compilescope.widgets import mode_chooser

mode_chooser(modes)

# %% [markdown]
# ### Exercise modes_2 · Choose, and defend it
#
# You get the trials of one workload, how often it will be called, and the bytes that a mode may keep. The check draws
# four such cases from the recording, changes the numbers, and lets the modes swap names. You may be 2 % above the best.
#
# A trial has `mode`, `calls` (the first ones, each with `seconds`), `start_calls` (how many of these compile, warm up or
# record), `steady_us` (None where it failed) and `kept_bytes`.

# %% exercise="modes_2"
def choose_mode(trials, calls, most_bytes):
    """(mode, seconds saved): the mode with the least total time for that many calls.

    most_bytes: what it may keep, or None for any. Seconds saved: against eager.
    """
    ### BEGIN SOLUTION
    def total(trial):
        first = trial.calls[: min(calls, trial.start_calls)]
        return sum(one.seconds for one in first) + (calls - len(first)) * trial.steady_us / 1e6

    works = [trial for trial in trials if trial.steady_us is not None]
    eager = next(trial for trial in works if trial.mode == "eager")
    allowed = [trial for trial in works if most_bytes is None or trial.kept_bytes <= most_bytes]
    best = min(allowed, key=total)
    return best.mode, total(eager) - total(best)
    ### END SOLUTION

# %% check="modes_2"
check("modes_2")

# %% [markdown]
# ## 5.3 CUDA graphs: record once, replay
#
# **The case.** `reduce-overhead` wins by replaying. Six calls of a small function, from the very first: live on your GPU,
# or else recorded.

# %%
def swish(x):
    return x * torch.sigmoid(x)

device = "cuda" if torch.cuda.is_available() else "cpu"
x = torch.linspace(-2, 2, 5, device=device)

@torch.no_grad()
def six_calls():
    if device == "cpu":
        return cuda_graphs(graphs, "replayed")
    step = torch.compile(swish, mode="reduce-overhead")
    return cuda_graphs([observe(step, x) for _ in range(6)])

# %%
def first_replay():
    calls = graphs.trial("replayed", "reduce-overhead").calls
    return next(number for number, call in enumerate(calls, 1) if call.replayed)

predict("Which call is the first that replays?", ["1", "2", "3", "6"], first_replay)

# %%
six_calls()

# %% [markdown]
# **What happened.** The first call compiles and runs once plainly, to *warm up*. The second *records*: no kernel is
# chosen any more, their launches and all their addresses are written down. From the third on the GPU *replays* that
# list. So the second call is slow, too: who times it measures recording.
#
# A replay writes to the recorded addresses. Your input is copied there first, and the result lies where the last
# result lay. What does that mean for a result that you kept?

# %% [markdown]
# **Try it.** `replayed(fn)` is `torch.compile(fn, mode="reduce-overhead")` on a GPU. Without one it is a small stand-in
# of this course, with the same rules and no speed.

# %%
@torch.no_grad()
def read_late(calls=6):
    torch.compiler.reset()  # so that the first of these calls warms up
    step = replayed(swish)
    results = [step(x + i) for i in range(calls)]

    def shown(number):
        try:
            of = [i for i in range(calls) if torch.allclose(results[number], swish(x + i))]
        except RuntimeError:
            return "an error"
        return "its own numbers" if number in of else f"the numbers of call {1 + max(of, default=-1)}"

    return [shown(number) for number in range(calls)]

choices = ["its own numbers", "the numbers of call 6", "an error"]

# %%
predict("Six calls, all results kept, then read. What does the first one show?", choices, lambda: read_late()[0])

# %%
predict("And the fourth, which a replay gave?", choices, lambda: read_late()[3])

# %%
for number, shown in enumerate(read_late(), 1):
    print(f"result of call {number}, read after call 6: {shown}")

# %% [markdown]
# **What happened.** Warming up and recording happen once. When the next call begins, torch puts an error on their
# results. A replay is the fast path: nothing is checked. Replays write to one memory, and whatever you kept of it shows
# the newest numbers. *Wrong numbers, no error.* A warm loop is all replays, so this is the case that you meet.
#
# **Change one thing:** how a result is kept. Recorded on the H200; where the very first calls are among them, an error
# shows which way copies nothing.

# %%
print(graphs.origin.sentence())
for work in graphs.group("kept"):
    error = graphs.trial(work.name, "reduce-overhead").error
    said = "an error: overwritten" if "overwritten" in error else error.partition(": ")[2] or "right"
    print(f"{work.words:42} {said}")

# %% [markdown]
# **Read it.** A view shares the memory of its result; `detach()` copies nothing, either. Three remedies keep numbers
# right:
#
# - **copy** what outlives the next call: `.clone()`, `.cpu()`, or into a tensor of your own,
# - **use it at once**, before the next call: add it up, reduce it,
# - **let nothing outlive a call**: put the loop inside what is compiled.
#
# `torch.compiler.cudagraph_mark_step_begin()` ends what came before: marked before each call, it preserves nothing. And
# a result of the first two calls, fed back as the next input, is refused, too: clone it.

# %% [markdown]
# ### Exercise modes_3 · Keep what you need, three ways
#
# `step` is replayed code: one batch in, one result out. `every_result` gets a new step, `total` one that is warm: there
# no error tells you. The check goes on calling it before it reads what you returned.

# %% exercise="modes_3"
def every_result(step, batches):
    """A list of the results of all batches, each still readable later."""
    ### BEGIN SOLUTION
    return [step(batch).clone() for batch in batches]
    ### END SOLUTION

def total(step, batches):
    """The sum of the results of all batches, without keeping them."""
    ### BEGIN SOLUTION
    return sum(step(batch) + 0 for batch in batches)
    ### END SOLUTION

def all_at_once(fn, replay, batches):
    """torch.stack of fn(batch) for all batches, from one call of replay(a function of yours)."""
    ### BEGIN SOLUTION
    def loop(*batches):
        return torch.stack([fn(batch) for batch in batches])

    return replay(loop)(*batches)
    ### END SOLUTION

# %% check="modes_3"
check("modes_3")

# %% [markdown]
# ## 5.4 No graph, and why
#
# **The case.** You ask for CUDA graphs, and nothing gets faster. Five suspects were recorded: a function that changes
# its argument, one that computes on the CPU, one that takes a CPU tensor, `nonzero()`, and `.item()`.

# %%
def without_graph():
    trials = [graphs.trial(work.name, "reduce-overhead") for work in graphs.group("skips")]
    return [trial for trial in trials if not any(call.recorded for call in trial.calls)]

predict("How many of the five ran without a graph?", ["0", "1", "3", "5"], lambda: len(without_graph()))

# %%
for work in graphs.group("skips"):
    trial = graphs.trial(work.name, "reduce-overhead")
    recorded = sum(call.recorded for call in trial.calls)
    said = [f"skipped: {skip.reason}" for skip in trial.cuda_graphs.skipped] or [trial.error[:50]]
    print(f"{work.name:20} {recorded} recorded   {said[0]}")

# %%
cuda_graphs(graphs, "mutates its input")

# %% [markdown]
# **What happened.** A replay works on its own copy of your input. A function that changes its argument would change
# the copy, not yours: torch *skips* the graph, says so once, and names the line. What the GPU cannot record, such as
# work on the CPU, is cut out: the pieces around it get graphs of their own, a *partition*. (Partitions are young: in
# the recording one of them raised.)
#
# Where torch only grumbles in a log, `observe(fn, x).cuda_graphs.skipped` has the reason as data. In a shell it is
# `TORCH_LOGS=perf_hints,cudagraphs`.

# %% [markdown]
# ### Exercise modes_4 · Find the reason, remove it
#
# First find the blamed line in a trial. Then cure this function, which keeps a moving average in its argument and is
# skipped: let it leave its arguments alone, and return `(output, new state)`.

# %%
def moving_average(state, x):
    state.mul_(0.99).add_(x, alpha=0.01)
    return (x - state).tanh()

# %% exercise="modes_4"
def blamed_line(trial):
    """The code of the line for which CUDA graphs were skipped; None if they were not."""
    ### BEGIN SOLUTION
    skips = trial.cuda_graphs.skipped
    return skips[0].source.code if skips else None
    ### END SOLUTION

def averaged(state, x):
    """(output, new state), the numbers of moving_average; state and x stay as they are."""
    ### BEGIN SOLUTION
    state = 0.99 * state + 0.01 * x
    return (x - state).tanh(), state
    ### END SOLUTION

# %% check="modes_4"
check("modes_4")

# %% [markdown]
# **The price in memory.** What a graph needs, it keeps. Four sizes, one after the other, each called three times; input
# and result are equally large.

# %%
def grows():
    held = [call.pool_bytes for call in graphs.trial("16, 32, 48, 64 MiB", "reduce-overhead").calls]
    return "yes" if held[-1] - held[2] >= 2 * (32 + 48 + 64) * 2**20 else "no"

predict("Does each new size keep memory for its input and its result?", ["yes", "no"], grows)

# %%
cuda_graphs(graphs, "16, 32, 48, 64 MiB")

# %% [markdown]
# **What happened.** Every graph keeps a static copy of its own input: it may be replayed at any time. Results are
# another matter. Only one is alive at a time, so all graphs share one pool, as large as the largest. Parameters of a
# module are not copied; they do not move.
#
# (The allocator works in large segments and fills their gaps: one step costs nothing, the next one more.) The smallest
# graph holds some memory, too: see how much in the next cell.

# %%
for work in graphs.group("memory"):
    trial = graphs.trial(work.name, "reduce-overhead")
    print(f"{work.words:36} {trial.pool_bytes / 2**20:4.0f} MiB held for graphs")

# %% [markdown]
# ### Exercise modes_5 · Predict the memory
#
# From the sizes of the inputs in MiB, each result as large as its input, and the `base`: what the graph of 1 MiB held
# beyond its own input and result. 10 % off is fine, since the allocator rounds up.

# %% exercise="modes_5"
def kept_mib(sizes, base):
    """MiB that the graphs of all these sizes hold together."""
    ### BEGIN SOLUTION
    return base + sum(sizes) + max(sizes)
    ### END SOLUTION

# %% check="modes_5"
check("modes_5")

# %% [markdown]
# ## 5.5 Autotuning: candidates and their times
#
# **The case.** Without tuning, a matrix product goes to cuBLAS. `max_autotune` times it against Triton templates with
# other block sizes. And for each fused kernel it tries more configurations than the default.

# %%
def winner():
    table = modes.trial("prefill", "max-autotune-no-cudagraphs").autotuning[0]
    return "a Triton template" if table.chosen.startswith("triton_") else "cuBLAS"

predict("Who wins the first matrix product of prefill?", ["cuBLAS", "a Triton template"], winner)

# %%
autotuning(modes, "prefill", "max-autotune-no-cudagraphs")

# %% [markdown]
# **What happened.** Hatched bars are calls into the library. Between the best and the worst template lie large factors:
# the same loop, other blocks. All of these were compiled and timed while you waited for the first call. That is what
# made it so long. It happens again in every new compile (an open size is tuned once, for the size that it saw), but the
# times are kept on disk: the next process starts sooner.
#
# Each was timed alone. Does the whole call keep what the table promises?

# %%
def sooner():
    tuned, plain = (modes.trial("prefill", mode).steady_us for mode in ("max-autotune", "reduce-overhead"))
    return "tuned" if tuned < plain else "not tuned"

predict("Both replay a graph of prefill. Which one takes less time?", ["tuned", "not tuned"], sooner)

# %%
for mode in ("reduce-overhead", "max-autotune"):
    trial = modes.trial("prefill", mode)
    low, high = trial.steady_low_us, trial.steady_high_us
    print(f"{mode:16} {trial.steady_us:4.0f} µs a call, eight of ten within {low:.0f} to {high:.0f}")

# %% [markdown]
# **What you see.** A template won every product alone, and all together take longer. A table says what *could* be
# saved. Time the whole call before you believe it.

# %% [markdown]
# ### Exercise modes_6 · Was it worth it?
#
# Say what the best candidates promise, one launch of each table's product, compared with its fastest library call, and
# after how many such calls the seconds of tuning would be paid. Library calls are those whose name does not begin with `triton_`.

# %% exercise="modes_6"
def worth_tuning(tables, tuning_s):
    """(saved_us, calls): microseconds saved in a call of all tables together, and the
    number of calls after which tuning_s is earned back; (0, None) if nothing is saved.

    Each table has choices with name and time_us, in no order; None: it failed.
    """
    ### BEGIN SOLUTION
    saved = 0.0
    for table in tables:
        timed = [choice for choice in table.choices if choice.time_us is not None]
        library = [choice.time_us for choice in timed if not choice.name.startswith("triton_")]
        saved += min(library) - min(choice.time_us for choice in timed)
    return (saved, math.ceil(tuning_s * 1e6 / saved)) if saved else (0, None)
    ### END SOLUTION

# %% check="modes_6"
check("modes_6")

# %% [markdown]
# ## 5.6 Precision, and a fair comparison
#
# **The case.** One matrix product, 4096 × 4096. `torch.set_float32_matmul_precision("high")` lets fp32 products round
# their inputs to TF32. It is no mode, and costs nothing at the start.

# %%
error = {work.name: modes.trial(work.name, "eager").rounding for work in modes.group("precision")}

predict(
    'Compared with "highest", how much larger is the error with "high"?',
    ["as large", "about 10 times", "more than 100 times"],
    lambda: "as large" if error["fp32 high"] < 2 * error["fp32 highest"]
    else "about 10 times" if error["fp32 high"] < 100 * error["fp32 highest"] else "more than 100 times",
)

# %%
print("error against float64, and time of a call")
for work in modes.group("precision"):
    for trial in modes.of(work.name):
        print(f"{work.words:32} {trial.mode:27} {trial.rounding:8.1e} {trial.steady_us:8.0f} µs")
print(modes.origin.sentence())

# %% [markdown]
# **What happened.** The setting bought more than any mode, and paid in digits; on this GPU "medium" gives what "high"
# gives. No mode changes the precision of a product, but a tuned template may add up in another order: expect other last
# digits. In bf16 fusing keeps more digits *between* operations. So decide on precision first, by an error against
# float64 that your task can bear. Then choose a mode.

# %%
for trial in modes.of("decode"):
    if trial.rounding:
        print(f"decode, bf16  {trial.mode:27} error {trial.rounding:.1e}")

# %% [markdown]
# ### Exercise modes_7 · Compare modes fairly
#
# The pictures above are only as good as their stopwatch. Write one. The device is simulated, so its true times are
# known: a call returns before its work is done, some modes record in later calls, now and then something interrupts,
# and the device gets slower as it warms up.

# %% exercise="modes_7"
import statistics

def compare_modes(calls, clock, wait):
    """{mode: (first, steady)}: seconds of its very first call, and of a call in steady state.

    calls: {mode: function to call}; clock(): seconds; wait(): until the device is done.
    Ratios between modes must be right within 4 %, although the device changes.
    """
    ### BEGIN SOLUTION
    def timed(call):
        wait()
        start = clock()
        call()
        wait()
        return clock() - start

    first = {mode: timed(call) for mode, call in calls.items()}
    rounds = [{mode: timed(call) for mode, call in calls.items()} for _ in range(60)]
    return {mode: (first[mode], statistics.median(r[mode] for r in rounds[8:])) for mode in calls}
    ### END SOLUTION

# %% check="modes_7"
check("modes_7")

# %% [markdown]
# ## Look back
#
# Take a model of your own. How often is it called, with how many shapes? Which mode would you deploy, and by which two
# numbers would you defend it? `mode_frontier(try_modes(model, *inputs))` draws yours, live.
#
# ## Take away
#
# - A mode is a name for options. Ask your torch which.
# - Count start + calls × steady. The frontier has several right answers; a name is none of them.
# - CUDA graphs remove launches. They pay where the CPU is slower than the kernels.
# - A replay overwrites silently: clone, use at once, or loop inside.
# - Do not change arguments in place; each size keeps its own input.
# - Tuning pays after many calls, or never: time the whole call.
# - Precision first, by float64; then the mode.
