"""regional_5: a second process that finds in its caches what the first one compiled."""

from __future__ import annotations

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.guards.served import always_compiled
from autograder.exercises.regional import blocks
from autograder.judging import called, exact, graphs_hold, kind_of, same_numbers
from compilescope import observe
from compilescope.facts import Run
from compilescope.torch_internals.modes import cold_caches

PACK, WARM = "pack(model, x)", "warm(packed, model, x)"


def ask(draw: Draw) -> Values:
    """A model of attention blocks, which need no C++ compiler, and an input.

    A GPU has its own attention for widths that 4 divides. Others take Triton, which starts cold here: long waits.
    """
    return blocks.drawn(draw, ["attention"] * draw.size(1, 2), inputs=1, widths=(4, 8))


def probe(answer: Answer, asked: Values) -> Values:
    """Both functions, each with an empty cache folder and nothing in memory, as in a process of its own."""
    x = asked["x"][0]
    with cold_caches(), torch.no_grad(), observe(caches="use") as first:
        packed = called(PACK, answer.pack, blocks.net_of(asked, x.device), x.clone())
    torch.compiler.reset()
    if not isinstance(packed, bytes):
        raise NotYet(PACK, f"returned {kind_of(packed)}", "bytes are wanted", "Look at what save_cache_artifacts() is.")
    with cold_caches(), torch.no_grad(), observe(caches="use") as second:
        result = called(WARM, answer.warm, packed, blocks.net_of(asked, x.device), x.clone())
    return {"first": first, "second": second, "result": result}


def judge(asked: Values, found: Values) -> str:
    """Numbers, a graph that holds the model's work, and hits in both caches."""
    net, x = blocks.net_of(asked), asked["x"][0].cpu()
    with torch.no_grad():
        want = blocks.net_of(asked).double()(exact(x))
        same_numbers(WARM, found["result"], want, torch.float32)
        with observe() as own:
            torch.compile(net, backend="aot_eager")(x)
    run: Run = found["second"]
    always_compiled(run, WARM, 1)
    graphs_hold(WARM, run, own)
    for cache, name in (("aot_autograd", "AOTAutograd's"), ("fx_graph", "Inductor's")):
        outcomes = [one.caches.get(cache, "not asked") for one in run.compiles if one.graphs]
        if any(outcome != "hit" for outcome in outcomes):
            said = next(outcome for outcome in outcomes if outcome != "hit")
            raise NotYet(WARM, f"found {name} cache: {said}", "a hit is wanted", _look(said, found["first"]))
    return "AOTAutograd's cache and Inductor's: hit"


def _look(said: str, first: Run) -> str:
    if said == "not asked":
        return "Only the default backend, Inductor, has these caches."
    if not first.graphs:
        return "Nothing was compiled in pack: what should there be to save?"
    return "Load before the first call, and compile the same in both."


_START = "import torch\n"
_PACK = """
def pack(model, x):
    torch.compile(model)(x)
    packed, info = torch.compiler.save_cache_artifacts()
    return packed
"""
_WARM = """
def warm(packed, model, x):
    torch.compiler.load_cache_artifacts(packed)
    return torch.compile(model)(x)
"""
_LOAD = "    torch.compiler.load_cache_artifacts(packed)\n"

EXERCISE = Exercise(
    name="regional_5",
    lesson="07_regional",
    points=2,
    asks_for=("pack", "warm"),
    check=Check(ask, probe, judge),
    hints=(
        "What does the job in the last cells do before it ends, and what before its first call?",
        "save_cache_artifacts() gives (bytes, what is in them), once something was compiled. Load them before the "
        "first compile that should find them.",
        "pack: torch.compile(model)(x), then return torch.compiler.save_cache_artifacts()[0]. warm: "
        "torch.compiler.load_cache_artifacts(packed), then return torch.compile(model)(x).",
    ),
    known_mistakes=(
        KnownMistake(_START + _PACK + _WARM.replace(_LOAD, ""), "cache: miss"),
        KnownMistake(  # too late
            _START
            + _PACK
            + "def warm(packed, model, x):\n    result = torch.compile(model)(x)\n"
            + _LOAD
            + "    return result\n",
            "Load before the first call",
        ),
        KnownMistake(_START + _PACK + _WARM.replace("torch.compile(model)(x)", "model(x)"), "0 of 1 call"),
        KnownMistake(_START + _PACK.replace("packed, info =", "packed =") + _WARM, "bytes are wanted"),
        KnownMistake(  # nothing ran, so nothing was compiled
            _START
            + """
def pack(model, x):
    torch.compile(model)
    saved = torch.compiler.save_cache_artifacts()
    return saved[0] if saved else b""
def warm(packed, model, x):
    if packed:
        torch.compiler.load_cache_artifacts(packed)
    return torch.compile(model)(x)
""",
            "Nothing was compiled in pack",
        ),
        KnownMistake(  # another graph: other sizes
            _START + _PACK.replace("(x)", "(x[:-2])") + _WARM, "compile the same in both"
        ),
        KnownMistake(  # a backend without these caches
            _START + _PACK + _WARM.replace("torch.compile(model)", 'torch.compile(model, backend="aot_eager")'),
            "Only the default backend",
        ),
        KnownMistake(  # the weights, not the code
            _START
            + """
import io
def pack(model, x):
    torch.compile(model)(x)
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    return buffer.getvalue()
def warm(packed, model, x):
    model.load_state_dict(torch.load(__import__("io").BytesIO(packed)))
    return torch.compile(model)(x)
""",
            "cache: miss",
        ),
    ),
    alternatives=(
        _START + _PACK + _WARM,
        _START
        + """
def pack(model, x):
    model.compile()
    model(x)
    return torch.compiler.save_cache_artifacts()[0]

def warm(packed, model, x):
    torch.compiler.load_cache_artifacts(packed)
    model.compile()
    return model(x)
""",
    ),
)
