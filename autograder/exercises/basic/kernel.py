"""basic_5: read Inductor's Triton, then write a kernel that does the same."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

import torch

from autograder.exercise import STUB, Answer, Draw, Exercise, KnownMistake, NotYet
from autograder.judging import called
from compilescope.check_kernel import check_kernel
from compilescope.facts import Kernel
from compilescope.pretend import preview

BLOCK = 64


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


def drawn_kernel(draw: Draw) -> Kernel:
    """Inductor's kernel for a drawn pointwise chain of 2 to 4 tensors and 1 or 2 results."""
    tensors = [draw.tensor(16, 32).cpu() for _ in range(draw.size(2, 4))]
    chain = [draw.choice((torch.sin, torch.tanh, torch.sigmoid, torch.exp)) for _ in tensors]
    two = draw.choice((True, False))

    def mix(*inputs: torch.Tensor) -> Any:
        total = chain[0](inputs[0])
        for function, value in zip(chain[1:], inputs[1:], strict=True):
            total = function(total) * value
        return (total, total.neg()) if two else total

    return preview(mix, *tensors, on="h100")[0].kernels[0]


def check(answer: Answer, draw: Draw) -> str:
    """The right counts for a fresh kernel; own kernel with right numbers, in bounds, one visit to each value."""
    _own_kernel(answer.gate_kernel, draw)
    kernel = drawn_kernel(draw)
    want = (*memory_operations(kernel.source), frozenset(kernel.dynamo_nodes))
    got = called("read_kernel(kernel)", answer.read_kernel, kernel)
    parts = ("loads", "stores", "fused operations")
    if not isinstance(got, (tuple, list)) or len(got) != len(parts):
        raise NotYet("read_kernel(kernel)", f"returned {str(got)[:40]}", "three values", "Look at the docstring.")
    for part, mine, its in zip(parts, got, want, strict=True):
        if (set(mine) if isinstance(its, frozenset) and not isinstance(mine, int) else mine) != its:
            shown = sorted(its) if isinstance(its, frozenset) else its
            given = sorted(mine) if isinstance(mine, (set, tuple, list, frozenset)) else mine
            raise NotYet(
                "read_kernel(kernel)",
                f"says {part}: {str(given)[:60]}",
                f"this kernel has {str(shown)[:60]}",
                "Look at print(kernel.source).",
            )
    return "2 loads, 1 store, as Inductor writes it"


def _own_kernel(kernel: Any, draw: Draw) -> None:
    label = "gate_kernel"
    plain = getattr(kernel, "fn", None)
    if plain is None:
        raise NotYet(label, "is no Triton kernel", "@triton.jit is wanted", "Look at the line above def.")
    if STUB in plain.__code__.co_consts:
        raise NotYet(label, "is still to be written", "the check runs it", "Replace the line that raises.")
    rows, width = 2 * draw.size(2, 5) + 1, 2 * draw.size(5, 12) + 1  # odd, so that the last block is not full
    x, scale = draw.tensor(rows, width).cpu(), draw.tensor(width).cpu()
    found = check_kernel(
        kernel,
        (-(-x.numel() // BLOCK),),
        (x, scale, torch.empty_like(x), x.numel(), width),
        lambda x, scale, *_: gate(x, scale),
        BLOCK=BLOCK,
    )
    if not found.ok:
        first = found.findings[0]
        said = " ".join(first.sentence.split(" (line ")[0].split()[:24]).rstrip(".")
        at = f"line {first.source.line}, {first.source.code.strip()}" if first.source else "what it stores"
        raise NotYet(f"{label} on {tuple(x.shape)}:", said, "x · sigmoid(x) · scale is wanted", f"Look at {at}.")
    output = plain.__code__.co_varnames[2]
    if found.wrote != (output,):
        wrote = ", ".join(found.wrote)
        raise NotYet(label, f"stores into {wrote}", f"{output} is wanted, and x stays as it is", "Look at tl.store.")
    loads, stores = memory_operations(inspect.getsource(plain))
    if (loads, stores) != (2, 1):
        raise NotYet(
            label,
            f"has {loads} loads and {stores} stores",
            "a fused kernel needs 2 and 1",
            "Keep what lies between in registers: Python names.",
        )


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
    check=check,
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
        KnownMistake(_START + _READ + _KERNEL.replace("i % width", "i // width"), "is wanted"),
        KnownMistake(_START + _READ + _KERNEL.replace("tl.store(out_ptr", "tl.store(x_ptr"), "x stays as it is"),
        KnownMistake(
            _START + _READ + _KERNEL.replace("x * tl.sigmoid(x) * scale", "tl.sigmoid(x) * scale"), "is wanted"
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
)
