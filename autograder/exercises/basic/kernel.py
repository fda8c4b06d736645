"""basic_5: read Inductor's Triton, then write a kernel that does the same."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

import torch

from autograder.exercise import STUB, Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.bonus import pointwise
from autograder.judging import called, exact, same_numbers
from compilescope.check_kernel import check_kernel
from compilescope.facts import Run
from compilescope.pretend import preview

BLOCK = 64
LABEL, READ = "gate_kernel", "read_kernel(kernel)"


def gate(x: torch.Tensor, scale: torch.Tensor) -> Any:
    """What the kernel has to compute: x [rows, width], scale [width]."""
    return x * x.sigmoid() * scale


def memory_operations(source: str) -> tuple[int, int]:
    """How many ``tl.load`` and ``tl.store`` a kernel's source has."""
    names = [
        node.func.attr
        for node in ast.walk(ast.parse(textwrap.dedent(source)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    return names.count("load"), names.count("store")


def drawn_run(draw: Draw) -> Run:
    """A run for a pretended H100 with one kernel: a drawn pointwise chain of 2 to 4 tensors and 1 or 2 results.

    Its tensors stay on the CPU, where a preview runs; no answer sees them.
    """
    tensors = [draw.tensor(16, 32).cpu() for _ in range(draw.size(2, 4))]
    chain = [draw.choice((torch.sin, torch.tanh, torch.sigmoid, torch.exp)) for _ in tensors]
    two = draw.choice((True, False))

    def mix(*inputs: torch.Tensor) -> Any:
        total = chain[0](inputs[0])
        for function, value in zip(chain[1:], inputs[1:], strict=True):
            total = function(total) * value
        return (total, total.neg()) if two else total

    torch.compiler.reset()
    return preview(mix, *tensors, on="h100")[0]


def ask(draw: Draw) -> Values:
    """A kernel to read, and tensors for the answer's own: of odd sizes, so that the last block is not full.

    There are fewer rows than columns: who takes the row's number for the column's reads wrong numbers, not outside.
    """
    rows, width = 2 * draw.size(5, 7) + 1, 2 * draw.size(8, 14) + 1
    return {"x": draw.tensor(rows, width), "scale": draw.tensor(width), "run": drawn_run(draw)}


def probe(answer: Answer, asked: Values) -> Values:
    """What the answer reads, and what Triton's interpreter sees of its own kernel."""
    own = _own_kernel(answer.gate_kernel, asked["x"], asked["scale"])
    got = called(READ, answer.read_kernel, asked["run"].kernels[0])
    three = isinstance(got, (tuple, list)) and len(got) == 3
    names = (set, frozenset, list, tuple)  # any of them holds the names of operations
    parts = [sorted({*map(str, part)}) if isinstance(part, names) else part for part in got] if three else None
    return {**own, "parts": parts, "shown": "" if three else str(got)[:40]}


def _own_kernel(kernel: Any, x: torch.Tensor, scale: torch.Tensor) -> Values:
    plain = getattr(kernel, "fn", None)
    if plain is None:
        raise NotYet(LABEL, "is no Triton kernel", "@triton.jit is wanted", "Look at the line above def.")
    if STUB in plain.__code__.co_consts:
        raise NotYet(LABEL, "is still to be written", "the check runs it", "Replace the line that raises.")
    seen = check_kernel(
        kernel,
        (-(-x.numel() // BLOCK),),
        (x, scale, torch.full_like(x, float("nan")), x.numel(), len(scale)),
        lambda x, *_: x,  # its numbers are judged elsewhere
        BLOCK=BLOCK,
    )
    memory = [found for found in seen.findings if found.kind not in ("wrong numbers", "missing elements")]
    output = plain.__code__.co_varnames[2]
    return {
        "sentence": memory[0].sentence if memory else "",
        "at": f"line {at.line}, {at.code.strip()}" if memory and (at := memory[0].source) else "what it stores",
        "wrote": list(seen.wrote),
        "output": output,
        "result": seen.outputs.get(output),
        "by one program": seen.by_one_program.get(output, 0),
        "operations": list(memory_operations(inspect.getsource(plain))),
    }


def judge(asked: Values, found: Values) -> str:
    """Own kernel with right numbers, in bounds, one visit to each value; the right counts for a fresh kernel."""
    _judge_own(asked, found)
    kernel = asked["run"].kernels[0]
    want = (*memory_operations(kernel.source), sorted(kernel.dynamo_nodes))
    if not isinstance(found["parts"], list):
        raise NotYet(READ, f"returned {found['shown']}", "three values", "Look at the docstring.")
    for part, mine, its in zip(("loads", "stores", "fused operations"), found["parts"], want, strict=True):
        if mine != its:
            says = f"says {part}: {str(mine)[:60]}", f"this kernel has {str(its)[:60]}"
            raise NotYet(READ, *says, "Look at print(kernel.source).")
    return "2 loads, 1 store, as Inductor writes it"


def _judge_own(asked: Values, found: Values) -> None:
    x, result = asked["x"], found["result"]
    label = f"{LABEL} on {tuple(x.shape)}:"
    if found["sentence"]:
        said = " ".join(found["sentence"].split(" (line ")[0].split()[:24]).rstrip(".")
        raise NotYet(label, said, "x · sigmoid(x) · scale is wanted", f"Look at {found['at']}.")
    if found["wrote"] != [found["output"]]:
        wrote = ", ".join(found["wrote"]) or "nothing"
        only = f"{found['output']} is wanted, and x stays as it is"
        raise NotYet(LABEL, f"stores into {wrote}", only, "Look at tl.store.")
    if isinstance(result, torch.Tensor) and (missing := int(result.isnan().sum())):
        left = f"leaves {missing} of {x.numel()} elements as they were", "x · sigmoid(x) · scale is wanted"
        raise NotYet(label, *left, "Look at the mask, and at what it stores.")
    same_numbers(label, result, gate(exact(x), exact(asked["scale"])), torch.float32)
    if found["operations"] != [2, 1]:
        loads, stores = found["operations"]
        needs = f"has {loads} loads and {stores} stores", "a fused kernel needs 2 and 1"
        raise NotYet(LABEL, *needs, "Keep what lies between in registers: Python names.")
    if found["by one program"] > BLOCK:
        most = f"stores {found['by one program']} elements in one program", f"each does its own {BLOCK}"
        raise NotYet(LABEL, *most, "Leave the loop out: the grid has a program for each block.")


_START = "import ast, re\nimport triton\nimport triton.language as tl\n"
_READ = """
def read_kernel(kernel):
    return kernel.source.count("tl.load("), kernel.source.count("tl.store("), set(kernel.dynamo_nodes)
"""
_KERNEL = """
@triton.jit
def gate_kernel(x_ptr, scale_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(x_ptr + i, inside)
    scale = tl.load(scale_ptr + i % width, inside)
    tl.store(out_ptr + i, x * tl.sigmoid(x) * scale, inside)
"""

EXERCISE = Exercise(
    name="basic_5",
    lesson="01_basic_compile",
    points=3,
    asks_for=("read_kernel", "gate_kernel"),
    check=Check(ask, probe, judge),
    hints=(
        "Print run.pretended[0].kernels[0].source and find tl.load and tl.store; everything between is in registers.",
        "One load for each input, one store for the output, each with the mask. scale is shorter than x: "
        "element i belongs to column i % width.",
        "x = tl.load(x_ptr + i, inside); scale = tl.load(scale_ptr + …, inside); tl.store(out_ptr + i, …, inside). "
        "In read_kernel, count text in kernel.source.",
    ),
    known_mistakes=(
        KnownMistake(_START + _READ + _KERNEL.replace("x_ptr + i, inside", "x_ptr + i"), "outside"),
        KnownMistake(_START + _READ + _KERNEL.replace("scale_ptr + i % width", "scale_ptr + i"), "outside"),
        KnownMistake(_START + _READ + _KERNEL.replace("i % width", "i // width"), "float64 result"),
        KnownMistake(_START + _READ + _KERNEL.replace("tl.store(out_ptr", "tl.store(x_ptr"), "x stays as it is"),
        KnownMistake(
            _START + _READ + _KERNEL.replace("x * tl.sigmoid(x) * scale", "tl.sigmoid(x) * scale"), "float64 result"
        ),
        KnownMistake(  # through memory, as three eager kernels do
            _START
            + _READ
            + _KERNEL.replace(
                "    tl.store(out_ptr + i, x * tl.sigmoid(x) * scale, inside)",
                "    tl.store(out_ptr + i, x * tl.sigmoid(x), inside)\n"
                "    y = tl.load(out_ptr + i, inside)\n"
                "    tl.store(out_ptr + i, y * scale, inside)",
            ),
            "2 and 1",
        ),
        KnownMistake(_START + _READ + _KERNEL.replace("@triton.jit\n", ""), "@triton.jit is wanted"),
        KnownMistake(  # every program goes over everything
            _START
            + _READ
            + """
@triton.jit
def gate_kernel(x_ptr, scale_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        inside = i < n
        x = tl.load(x_ptr + i, inside)
        scale = tl.load(scale_ptr + i % width, inside)
        tl.store(out_ptr + i, x * tl.sigmoid(x) * scale, inside)
""",
            "in one program",
        ),
        KnownMistake(_START + _READ.replace('"tl.load("', '"load"') + _KERNEL, "says loads"),
        KnownMistake(_START + _READ.replace("dynamo_nodes", "nodes") + _KERNEL, "fused operations"),
        KnownMistake(_START + "\ndef read_kernel(kernel):\n    return 2, 1, {'gelu', 'mul'}\n" + _KERNEL, "says"),
        KnownMistake(_START + "\ndef read_kernel(kernel):\n    return kernel.launches\n" + _KERNEL, "three values"),
        KnownMistake(  # the whole sum in eager PyTorch
            "import torch\n" + _READ + "\ndef gate_kernel(x, scale):\n    return x * x.sigmoid() * scale\n",
            "@triton.jit is wanted",
        ),
    ),
    alternatives=(
        _START + _READ + _KERNEL,
        _START
        + """
def read_kernel(kernel):
    calls = [n.func.attr for n in ast.walk(ast.parse(kernel.source))
             if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    return calls.count("load"), calls.count("store"), kernel.dynamo_nodes

@triton.jit
def gate_kernel(x_ptr, scale_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    start = tl.program_id(axis=0) * BLOCK
    at = start + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    column = at - (at // width) * width
    out = tl.load(scale_ptr + column, mask=at < n, other=0.0) * x / (1 + tl.exp(-x))
    tl.store(out_ptr + at, out, mask=at < n)
""",
        _START
        + """
def read_kernel(kernel):
    body = kernel.source[kernel.source.index("def triton_"):]
    counts = [len(re.findall(rf"\\btl\\.{word}\\b", body)) for word in ("load", "store")]
    return *counts, list(kernel.dynamo_nodes)
"""
        + _KERNEL,
    ),
    bonus=pointwise.BONUS,
)
