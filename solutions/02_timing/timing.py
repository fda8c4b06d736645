# %% [markdown]
# # 2 · Is it faster, and from which call on?
#
# After this lesson you can **measure a compiled function so that the number is true**. You will
#
# - read the clock when the work is done, not when the call is back,
# - keep the first calls apart, and say what each stage of them costs,
# - say how much a fusion can win at most, from the bytes it moves,
# - compare two functions with an interval, and spot a benchmark that lies,
# - tell when compiling does not pay.
#
# Not in this lesson: what makes it compile again (lesson 4), modes and CUDA graphs (5), large models (7).
#
# Where you have no GPU, numbers of one come from a recording, and say so.

# %%
from autograder import check, doctor, hint, predict; doctor()
import functools, math, torch
from compilescope import compare_speed, kernel_bars, lane_plot, measure, observe, road, time_plot
from compilescope.clockwork import ClockworkGpu
from compilescope.lanes import record_spans
from compilescope.recorded import recorded_times

# %% [markdown]
# ## 2.1 When may you read the clock?
#
# **The case.** Three operations on one large tensor: the demonstration that you find in many introductions to
# `torch.compile`. `h200` holds what was measured of it on a real GPU.

# %%
def shift(x):
    return torch.relu(x + 1) * 2

h200 = recorded_times("relu_chain")
print(h200.origin.sentence())

# %%
answers = ["almost at once", "about halfway", "when it was done"]

def back_after():
    back, done = (h200.numbers[f"eager {when} 32768 x 8192"] for when in ("returned", "finished"))
    return answers[0 if back < 0.25 * done else 1 if back < 0.75 * done else 2]

predict("The GPU works on shift(x). When is the call back in Python?", answers, back_after)

# %%
for size in ("4096 x 4096", "32768 x 8192"):
    back, done = (1e6 * h200.numbers[f"eager {when} {size}"] for when in ("returned", "finished"))
    print(f"{size:>12}: back after {back:5.0f} µs, done after {done:5.0f} µs")

spans, source = h200.spans["eager"], h200.origin
if torch.cuda.is_available():
    x = torch.randn(4096, 4096, device="cuda")
    spans, source = record_spans(lambda: shift(x)), f"live on {torch.cuda.get_device_name()}"
lane_plot({"eager": spans}, source)

# %% [markdown]
# **What happened.** On a GPU a call *launches* kernels: it puts them into a queue and goes on. The device works the
# queue off in order. Nothing waits, unless Python needs a value (`.item()`, `print`) or asks for it:
# `torch.cuda.synchronize()` returns when the queue is empty.
#
# *CUDA events* are the other way: two marks in the queue itself, timed by the GPU's own clock. `measure`, below, uses
# them wherever an argument lies on a GPU. On a CPU a call is back when it is done.

# %% [markdown]
# **Change one thing.** Wait before you stop the clock. `ClockworkGpu` is a GPU made of clockwork: it computes
# nothing, but keeps the rules of a queue, on a clock of its own. So its true times are known, and you need no GPU.

# %%
def stopwatch(wait):
    gpu = ClockworkGpu()
    x = gpu.buffer("x")
    start = gpu.clock()
    for kernel in ("add", "relu", "mul"):
        x = gpu.launch(kernel, 30e-6, x)
    if wait:
        gpu.synchronize()
    seconds = gpu.clock() - start
    print(f"wait={wait!s:5}  clock: {1e6 * seconds:3.0f} µs   work: {1e6 * gpu.busy:3.0f} µs")
    return gpu.spans

spans = {"no wait": stopwatch(False), "wait": stopwatch(True)}
lane_plot(spans, "clockwork: 5 µs a launch, 30 µs a kernel")

# %% [markdown]
# ### Exercise timing_1 · A stopwatch for a queue
#
# `synchronize` and `clock` belong to the device: `torch.cuda.synchronize` and `time.perf_counter` for a real GPU,
# two methods of a clockwork one in the check. The device may still be busy when you are called. Whose work is that?

# %% exercise="timing_1"
def timed(fn, synchronize, clock):
    """Seconds from an idle device until the work of one call of fn is done.

    synchronize: call it to wait until the device's queue is empty.
    clock: call it for the seconds on the host's clock.
    """
    ### BEGIN SOLUTION
    synchronize()
    start = clock()
    fn()
    synchronize()
    return clock() - start
    ### END SOLUTION

# %% check="timing_1"
check("timing_1")

# %% [markdown]
# ## 2.2 What does the first call cost?
#
# **The case.** `shift`, compiled by Inductor. `fresh_cache()` gives it an empty cache folder. `torch.compiler.reset()`
# makes this process forget; it leaves the folder alone. (`dynamic=False`: one kernel for each size. By default a second
# size gets a more general one, lesson 4.)
#
# Here is the wait: ten seconds or more, because a C++ compiler runs on the CPU. `once` keeps what was measured.

# %%
from torch._inductor.utils import fresh_cache

device = "cuda" if torch.cuda.is_available() else "cpu"
side = 4096 if device == "cuda" else 2048
x = torch.randn(side, side, device=device)
fast_shift = torch.compile(shift, dynamic=False)

@functools.cache
def once():
    runs = {}
    for names in (("cold",), ("new folder", "forgotten", "warm")):
        with fresh_cache():
            for name in names:
                if name != "warm":
                    torch.compiler.reset()
                with observe(caches="use") as runs[name]:
                    fast_shift(x)
    return runs

# %%
choices = ["as long as the first", "much shorter, yet it compiles", "it does not compile"]

def what_reset_leaves():
    cold, again = (once()[name].calls[0] for name in ("cold", "forgotten"))
    return choices[2 if again.outcome == "hit" else again.seconds < cold.seconds / 2]

predict("torch.compiler.reset(), then call again. How long does that take?", choices, what_reset_leaves)

# %%
for name, run in once().items():
    call = run.calls[0]
    found = run.compiles[0].caches.get("fx_graph") if run.compiles else "not asked"
    print(f"{name:10} {call.seconds:8.3f} s   {call.outcome:13}   cache of graphs: {found}")
road(once()["cold"])

# %% [markdown]
# **What happened.** The *cold* call went the whole road, and the picture says which stage took how long: Dynamo
# captures, AOTAutograd and Inductor rewrite, and *kernel compilers* make machine code: Triton and `ptxas` for GPUs, for
# CPUs a C++ compiler, which takes longest. After the reset Dynamo captured again, but the code for the graph was found
# in the folder: a *warm start*. The last call compiled nothing. It checked its guards and ran.

# %% [markdown]
# The *new folder* was empty, too: the cache missed, and all was compiled again. Yet it took a fraction of *cold*,
# because the first compile of a process also sets the compiler up, once.
#
# So a true cold start is a new process *and* an empty folder. Say of each compile time which of the two it had. Without
# `fresh_cache()` you measure a folder.

# %% [markdown]
# **Change one thing.** Other first calls, each in a new process on the H200. `cached` finds the folder that `cold`
# filled. `CUDA graph` is `mode="reduce-overhead"` (lesson 5).

# %%
print(h200.origin.sentence())
print(" " * 11 + "".join(f"   call {i}  " for i in range(1, 7)))
for name in ("eager", "cold", "cached", "CUDA graph"):
    calls = [h200.numbers[f"{name}, call {i}"] for i in range(1, 7)]
    print(f"{name:11}" + "".join(f"{1e3 * seconds:8.2f} ms" for seconds in calls))

# %% [markdown]
# **What happened.** Eager's first call is slow as well: it loads its kernels. Under CUDA graphs the second call is slow,
# too, because that one records the launches. So no rule "skip the first" is safe: *warm up* until the times settle,
# and keep these calls apart.
#
# After that, times still scatter: other programs, clock speeds, caches. A *mean* follows each disturbed call. The
# *median* does not, and the *middle half* of the samples tells how far they spread. `measure` does all of this.
#
# Outside this course, take PyTorch's own `torch.utils.benchmark.Timer` (synchronizes, warms up), Triton's
# `triton.testing.do_bench` (CUDA events, clears the L2 cache), and `torch.profiler` for single kernels.

# %%
eager, fast = measure(shift, x), measure(fast_shift, x)
time_plot(eager, fast)

# %% [markdown]
# ### Exercise timing_2 · Median and spread
#
# Write the core of `measure`. Up to a fifth of the calls in the check are disturbed by another program.

# %% exercise="timing_2"
def steady_time(fn, clock, warmup=3, repeats=20):
    """(median, spread) in seconds of `repeats` calls of fn, each timed alone.

    Before them, fn is called `warmup` times untimed. spread: the width of the middle
    half, from the lower to the upper quartile. fn returns when its work is done.
    """
    ### BEGIN SOLUTION
    import statistics

    for _ in range(warmup):
        fn()
    samples = []
    for _ in range(repeats):
        start = clock()
        fn()
        samples.append(clock() - start)
    low, middle, high = statistics.quantiles(samples, n=4)
    return middle, high - low
    ### END SOLUTION

# %% check="timing_2"
check("timing_2")

# %% [markdown]
# **When has it paid?** Add up the calls: compiled starts with a debt, the first call, and then gains a little with
# each call. Both axes are logarithmic; the lines cross at the *break-even*.

# %%
import matplotlib.pyplot as plt

speed = h200.speeds["4096 x 4096, called in a row"]
calls = [10 ** (i / 10) for i in range(61)]
plain, compiled = speed.base.median, speed.other.median
figure, axes = plt.subplots(figsize=(6, 2.6), dpi=80, layout="constrained")
axes.loglog(calls, [n * plain for n in calls], label="eager")
for name, style in (("cold", "-"), ("cached", "--")):
    first = h200.numbers[f"{name}, call 1"]
    axes.loglog(calls, [first + (n - 1) * compiled for n in calls], style, label=f"compiled, {name}")
axes.set(xlabel="calls", ylabel="seconds in all", title=h200.origin.sentence())
axes.legend()
plt.show()

# %% [markdown]
# ### Exercise timing_3 · After how many calls?
#
# From the times of the warm-up calls, of a later compiled call and of an eager call, in whole microseconds, so that
# nothing is rounded. One function in the check never pays: a loop that waits for it would not end.

# %% exercise="timing_3"
def calls_until_paid(warmup, compiled, eager):
    """The smallest n for which n compiled calls took no longer than n eager ones.

    warmup: µs of the first calls of the compiled function; each later one takes
    `compiled` µs, each eager one `eager` µs. None if that never happens.
    """
    ### BEGIN SOLUTION
    behind = 0
    for n, spent in enumerate(warmup, 1):
        behind += spent - eager
        if behind <= 0:
            return n
    if compiled >= eager:
        return None
    return len(warmup) - (-behind // (eager - compiled))
    ### END SOLUTION

# %% check="timing_3"
check("timing_3")

# %% [markdown]
# ## 2.3 How much can fusion win?
#
# **The case.** `shift` adds, compares and multiplies. That costs a GPU next to nothing: each number waits for memory.
# So count *bytes*. `size_of` gives those of a node's result; `on="h100"` writes the kernel that an H100 would run. (`L_x_`
# is Dynamo's name for the argument x.)

# %%
def size_of(node):
    return math.prod(node.shape) * getattr(torch, node.dtype).itemsize

torch.compiler.reset()
captured = torch.compile(shift, backend="eager")
chain = observe(captured, torch.randn(4096, 4096), on="h100")
for node in chain.graphs[0].calls():
    print(f"{node.name:5} reads {node.inputs[0]:5} and writes {size_of(node):,} bytes")

# %%
def limit():
    eager = sum(2 * size_of(node) for node in chain.graphs[0].calls())
    (kernel,) = chain.pretended[0].kernels
    return f"{eager / (kernel.bytes_read + kernel.bytes_written):.0f} times"

predict("How many times fewer bytes does one kernel for all three move?",
        ["2 times", "3 times", "6 times", "30 times"], limit)

# %%
print("eager moves", limit(), "as many bytes as the kernel below")
kernel_bars(chain.pretended[0])

# %% [markdown]
# **What happened.** Eager makes three round trips to memory, the fused kernel one. Three operations in one kernel can
# win a factor of three, never thirty, however good the compiler is. The other limit is memory itself: no kernel
# moves these bytes faster than a plain copy does. That pair, bytes and bandwidth, is the *roofline* of a pointwise
# kernel.
#
# Now the H200, timed in three ways. *Kernels alone*: the host has launched everything before the GPU begins.
# *Published*: two events around one call, as in the demonstration. *In a row*: call after call from Python.

# %%
print(h200.origin.sentence())
for size in ("4096 x 4096", "32768 x 8192"):
    alone, row = h200.speeds[size], h200.speeds[f"{size}, called in a row"]
    ways = {
        "kernels alone": (alone.base.median, alone.other.median),
        "published": [h200.numbers[f"published {way} {size}"] for way in ("eager", "compiled")],
        "in a row": (row.base.median, row.other.median),
    }
    copy, moved = h200.timings[f"copy {size}"].median, 2 * h200.numbers[f"bytes {size}"]
    print(f"\n{size}: a copy takes {1e6 * copy:.0f} µs, {moved / copy / 1e12:.1f} TB/s")
    for name, (base, other) in ways.items():
        print(f"  {name:14} eager {1e6 * base:5.0f} µs   compiled {1e6 * other:5.0f} µs   "
              f"{base / other:.2f} times")

# %% [markdown]
# **What happened.** The kernels alone come near three, the larger input nearer: each measurement holds a few µs in
# which the GPU only begins and ends. The fused kernel takes about as long as a copy. Nothing is left to win in it.
#
# But a compiled call takes the *host* time, too: it checks guards and calls a wrapper. Where that takes longer than the
# kernel, the GPU waits for Python, and the demonstration shows much less than the kernels could. The larger the input,
# the less that matters.
#
# So a speed-up belongs to a size, to a host, and to a way of measuring. Ask for all three.

# %%
lanes = {name: h200.spans[name] for name in ("eager", "compiled")}
lane_plot(lanes, h200.origin)

# %% [markdown]
# That was one call of each, as the profiler saw it. Now your own machine; section 2.4 says how `compare_speed` decides.
# On a CPU nothing is launched, and several cores share memory and caches, so the factor is another one.

# %%
speed = compare_speed(shift, fast_shift, x)
time_plot(speed)

# %% [markdown]
# ### Exercise timing_4 · Predict the bytes, then count them
#
# One function predicts from a captured graph what eager moves and what one fused kernel would; the other counts what
# the kernels of a run really move. `node.op` is `"placeholder"`, `"call"` or `"output"`. The check uses other shapes and
# dtypes, and one graph that needs several kernels: there the two differ. (Needs Linux, where `triton` exists.)

# %% exercise="timing_4"
def predicted_bytes(graph):
    """(eager, fused): bytes moved if each operation is a kernel, and if all are one.

    A kernel reads each tensor that it uses once and writes each result that is needed
    outside of it. graph.nodes[-1] is the output: its inputs are the results.
    """
    ### BEGIN SOLUTION
    size = {node.name: size_of(node) for node in graph.nodes if node.shape is not None}
    reads = [name for node in graph.calls() for name in node.inputs]
    writes = [node.name for node in graph.calls()]
    ends = [node.name for node in graph.nodes if node.op == "placeholder"]
    ends += graph.nodes[-1].inputs
    return sum(size[name] for name in reads + writes), sum(size[name] for name in ends)
    ### END SOLUTION

def counted_bytes(kernels):
    """Bytes that these kernels read and write together, each launch counted."""
    ### BEGIN SOLUTION
    return sum((kernel.bytes_read + kernel.bytes_written) * kernel.launches for kernel in kernels)
    ### END SOLUTION

# %% check="timing_4"
check("timing_4")

# %% [markdown]
# ## 2.4 Which benchmark lies?
#
# **The case.** `compare_speed(a, b, x)` calls both in turn, in random order within each pair, with the caches
# overwritten before each call. It takes the ratio of each pair, and gives the median with a *bootstrap* interval. It
# stops when the interval is narrow; if it stays wide, it gives no answer.

# %%
@functools.cache
def against_itself():
    return compare_speed(shift, shift, x, seconds=2)

predict(
    "compare_speed(shift, shift, x): a function against itself. Its verdict?",
    ["faster", "slower", "as fast", "None: it cannot tell"],
    lambda: against_itself().verdict or "None: it cannot tell",
)

# %%
time_plot(against_itself())

# %% [markdown]
# **What happened.** Most pairs are not exactly 1, and a single one may be far off. The interval says what the pairs
# together allow. `None` is a good answer: it keeps you from publishing noise. (With 99 % confidence, one honest
# comparison in a hundred may still be wrong.)
#
# An interval does not help if the benchmark measures the wrong thing. Here are four, on a clockwork GPU, whose model
# takes 90 µs.

# %%
def model(gpu, x):
    for kernel in ("add", "relu", "mul"):
        x = gpu.launch(kernel, 30e-6, x)
    return x

def setting():
    gpu = ClockworkGpu()
    compiled = gpu.compiled(functools.partial(model, gpu), 200e-6)
    return gpu, compiled, [gpu.buffer(f"batch {i}") for i in range(3)]

def per_call(gpu, call, inputs, wait=True):
    gpu.synchronize()
    start = gpu.clock()
    for x in inputs:
        call(x)
    if wait:
        gpu.synchronize()
    return 1e6 * (gpu.clock() - start) / len(inputs)

# %%
def benchmark_a(gpu, compiled, inputs):
    return per_call(gpu, compiled, inputs)

def benchmark_b(gpu, compiled, inputs):
    compiled(inputs[0])
    return per_call(gpu, compiled, inputs[1:], wait=False)

def benchmark_c(gpu, compiled, inputs):
    compiled(inputs[0])
    return per_call(gpu, compiled, [inputs[1]] * 2)

def benchmark_d(gpu, compiled, inputs):
    loop = gpu.compiled(lambda x: model(gpu, x) and None, 200e-6)
    loop(inputs[0])
    return per_call(gpu, loop, inputs[1:])

# %%
lanes = {}
for benchmark in (benchmark_a, benchmark_b, benchmark_c, benchmark_d):
    gpu, compiled, inputs = setting()
    said = benchmark(gpu, compiled, inputs)
    lanes[f"{benchmark.__name__[-1]}: {said:.0f} µs"] = gpu.spans
lane_plot(lanes, "clockwork: 5 µs a launch, 30 µs a kernel, 200 µs to compile")

# %% [markdown]
# **What happened.** Look at what lies between the two black lines of each. *a* has the compile in it. *b* stopped the
# clock while the device was busy. *c* looks fine, but reads the same batch again: on a real GPU it comes from the
# cache the second time, if it fits. *d* computes nothing: its function returns nothing, so the compiler left the work out.
#
# The last one is no joke. Ask AOTAutograd:

# %%
def loop(x):
    for _ in range(100):
        shift(x)

run = observe(torch.compile(loop, backend="aot_eager"), torch.randn(8))
for stage in ("dynamo", "inference"):
    print(f"{stage:9} {len(run.compiles[0].graph(stage).calls()):3} operations")
fresh, again = (h200.timings[name].median for name in ("copy 4 MB", "twenty copies of the same 4 MB"))
print(f"and c, on the H200: copying 4 MB takes {1e6 * fresh:.1f} µs, "
      f"the same 4 MB again {1e6 * again / 20:.1f} µs")

# %% [markdown]
# ### Exercise timing_5 · Find the lie
#
# Write the auditor. It gets the spans of a benchmark, as drawn above: `span.lane` is `"host"` or `"device"`,
# `span.name` is `"clock"`, `"compile"`, `"launch"`, `"wait"` or a kernel, `span.start` and `span.end` are in seconds,
# and `span.reads` has the names of the buffers that a kernel reads. One benchmark in the check is honest.

# %% exercise="timing_5"
def find_lie(spans):
    """One of "no wait", "first call", "same input", "no work", "honest".

    The clock is read twice. A compile or a launch before the first look is warm-up.
    """
    ### BEGIN SOLUTION
    start, stop = [span.start for span in spans if span.name == "clock"]
    kernels = [span for span in spans if span.lane == "device" and span.start >= start]
    read = [name for span in kernels for name in span.reads]
    if not kernels:
        return "no work"
    if any(span.end > stop for span in kernels):
        return "no wait"
    if any(span.name == "compile" and start <= span.start < stop for span in spans):
        return "first call"
    return "same input" if len(read) > len(set(read)) else "honest"
    ### END SOLUTION

# %% check="timing_5"
check("timing_5")

# %% [markdown]
# ## 2.5 When does compiling not pay?
#
# **The case.** Five other functions, all warm, on the H200. Guess before you look: in which of them is there anything
# to fuse, and in which is memory the limit?

# %%
predict(
    "shift on 64 × 64 numbers, called from Python, on the H200. Compiled is …",
    ["faster", "slower", "as fast"],
    lambda: h200.speeds["64 x 64, called in a row"].verdict,
)

# %%
print(h200.origin.sentence())
small = "64 x 64, called in a row", "64 x 64, CUDA graph"
for name in ("one operation", "matrix product", *small, "ten operations"):
    speed = h200.speeds[name]
    base, other = 1e6 * speed.base.median, 1e6 * speed.other.median
    print(f"{name:24} eager {base:5.0f} µs   compiled {other:5.0f} µs   "
          f"{speed.times:.2f} times, {speed.verdict}")

# %% [markdown]
# **What happened.** One operation alone has nothing to be fused with, and a matrix product was a tuned library call
# before. Ten pointwise operations in one kernel win most: here the bytes count.
#
# On 64 × 64 numbers the GPU is done before the host has launched: what you wait for is Python. Three launches cost
# eager less than the guards and the wrapper around one compiled call, and a CUDA graph has more Python around it still.
# A larger compiled region, with hundreds of launches in it, turns this around.
#
# So compiling pays where *calls × gain per call* exceeds the first call. And your own machine, on 64 × 64?

# %%
few = torch.randn(64, 64, device=device)
also_fast = torch.compile(shift, dynamic=False)
time_plot(compare_speed(shift, also_fast, few, flush=False, seconds=1))

# %% [markdown]
# ### Exercise timing_6 · What to compile
#
# A program has seven parts; each is called so many times. Compiling all takes too long: the first calls may cost
# `startup` ms together. Choose the parts so that the whole program is fastest.

# %% exercise="timing_6"
def choose(parts, startup):
    """The set of names to compile, so that all calls of all parts take the least time.

    parts: dicts with name, calls, and in ms: eager (a call), compiled (a later call),
    first (the first compiled call). The `first` of those chosen add up to at most startup.
    """
    ### BEGIN SOLUTION
    from itertools import combinations

    def gain(part):
        return part["calls"] * part["eager"] - part["first"] - (part["calls"] - 1) * part["compiled"]

    sets = [some for size in range(len(parts) + 1) for some in combinations(parts, size)]
    allowed = [some for some in sets if sum(part["first"] for part in some) <= startup]
    return {part["name"] for part in max(allowed, key=lambda some: sum(map(gain, some)))}
    ### END SOLUTION

# %% check="timing_6"
check("timing_6")

# %% [markdown]
# ## Look back
#
# Take the function of yours that runs most often. How many bytes does it move, how many would one kernel move, and how
# often is it called? Write that down, then measure: `compare_speed(yours, torch.compile(yours), *its_arguments)`.
#
# ## Take away
#
# - A GPU call is back before it is done. Synchronize, or use events.
# - First calls are a cost of their own: note them, and keep them out of the median. A cold start is a new process with an
#   empty cache.
# - Fusion saves bytes: three operations, three times at most. A copy is the limit; Python may be one, too.
# - Compare in interleaved pairs, with an interval. No answer is an answer.
# - Compiling pays after *first call ÷ gain per call* calls.
