"""Which facts this torch gives for a pretended GPU: fact to "yes" or what came instead, as JSON."""

from __future__ import annotations

import json
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from compilescope import Run, assemble, check_kernel, observe
from compilescope.pretend import preview, previewing
from compilescope.torch_internals.pretend_capture import asked_of_inductor
from kernels_of_versions import doubled, unmasked

x, w = torch.randn(32, 64), torch.randn(64, 48)


def loss(x, w):
    return F.gelu(x @ w).softmax(-1).square().sum()


def trained(**given: Any) -> Run:
    return preview(loss, x.clone().requires_grad_(), w.clone().requires_grad_(), **given)[0]


def triton_of(fn: Callable[..., Any], *args: Any) -> str:
    """The Triton sources of a function, after a sentence for what went wrong."""
    run = preview(fn, *args)[0]
    assert not run.notes, run.notes
    return "\n".join(kernel.source for kernel in run.kernels if kernel.language == "triton")


def facts() -> Iterator[tuple[str, Callable[[], object]]]:
    """What is asked, and a function that is true when it is given."""
    run = trained()
    kernels = [kernel for kernel in run.kernels if kernel.language == "triton"]
    yield "Triton source, forward and backward", lambda: [code.which for code in run.code] == ["forward", "backward"]
    yield (
        "each of t4, a100, h100",
        lambda: (
            [one.code[0].target for one in preview(torch.tanh, x, on=("t4", "a100", "h100"))] == ["t4", "a100", "h100"]
        ),
    )
    yield "dynamic sizes", lambda: "s" in str(_dynamic().kernels[0].grid)
    yield "an argument that is written", lambda: "mutated_arg_names': ['" in triton_of(lambda x: x.add_(1), x.clone())
    yield "constants", lambda: triton_of(lambda x: x + torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.ones(4))
    yield "views", lambda: triton_of(lambda x: x.t().contiguous() * 2, x)
    yield "dropout", lambda: re.search(r"\brand(4x)?\(", triton_of(lambda x: F.dropout(x, 0.5), x))
    yield "reductions", lambda: "reduction" in triton_of(lambda x: x.var(-1), x)
    yield "a matrix product with its epilogue in one template", lambda: {"mm", "relu"} <= set(_template().nodes)
    yield "several graphs at a break", lambda: len(preview(_broken, x)[0].code) == 2
    yield "nodes and Python lines of a kernel", lambda: all(one.nodes and one.sources for one in kernels)
    yield "lines of a kernel: their node", lambda: all(one.line_nodes for one in kernels)
    yield "launch grid", lambda: all(one.grid for one in kernels)
    yield "autotune configurations", lambda: all(one.configs for one in kernels)
    yield "bytes read and written", lambda: all(one.bytes_read and one.bytes_written for one in kernels)
    yield "roofline floor with its source", lambda: all(one.floor_us and one.floor_source for one in kernels)
    made = [kernel for kernel in assemble(run).kernels if kernel.language == "triton"]
    yield "PTX", lambda: all(".target sm_90a" in str(one.ptx) for one in made)
    yield "SASS", lambda: all("EXIT" in str(one.sass) for one in made)
    yield (
        "registers, shared memory, spills",
        lambda: all(one.registers and one.shared_bytes is not None and one.spills is not None for one in made),
    )
    yield "the interpreter's numbers, forward and backward", lambda: [one.ok for one in run.interpret()] == [True, True]
    yield "a right kernel of a learner is right", lambda: _checked(doubled).ok
    yield "a wrong one is told its mistake", lambda: _checked(unmasked).findings[0].kind == "out-of-bounds read"
    yield "observe(on=…): CPU result and GPU code", _observed


def _dynamic() -> Run:
    with previewing("h100") as found:
        torch.compile(lambda x: x * 2 + 1, backend="eager", dynamic=True)(x)
    torch.compiler.reset()
    return found.runs()[0][0]


def _template() -> Any:
    with previewing("h100") as found:
        torch.compile(lambda x, w: torch.relu(x @ w), backend="eager")(torch.ones(128, 128), torch.ones(128, 128))
    torch.compiler.reset()
    found.captured[0].options = asked_of_inductor(torch._TorchCompileInductorWrapper("max-autotune", None, None))
    return found.runs()[0][0].kernels[0]


def _broken(x):
    y = x * 2
    torch._dynamo.graph_break()
    return y.sum(-1)


def _checked(kernel: Any) -> Any:
    return check_kernel(kernel, (8,), (torch.randn(1000), torch.zeros(1000), 1000), lambda x, *_: x * 2, BLOCK=128)


def _observed() -> bool:
    available = torch.cuda.is_available()
    run = observe(torch.compile(loss, backend="aot_eager"), x, w, on="h100")
    same = torch.allclose(run.result, loss(x, w))
    return same and bool(run.pretended[0].kernels) and torch.cuda.is_available() == available


def main() -> None:
    given: dict[str, str] = {}
    for name, holds in facts():
        try:
            given[name] = "yes" if holds() else "**no**"
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            given[name] = f"**no**: {type(error).__name__}"
    import triton

    print(json.dumps({"torch": torch.__version__, "triton": triton.__version__, "given": given}))


if __name__ == "__main__":
    main()
