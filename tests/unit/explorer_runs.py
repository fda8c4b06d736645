"""Runs made by hand, so that the explorer is tested without torch."""

from dataclasses import replace

from compilescope.facts import (
    Call,
    Code,
    Compile,
    Graph,
    GraphBreak,
    Kernel,
    Node,
    NotCompiled,
    Origin,
    Refusal,
    Run,
    Saved,
    Source,
)

ORIGIN = Origin("live", "CPU", "2.13.0")
CELL = "lesson.py"
TEXT = """def price(x, w):
    y = torch.relu(x @ w)
    print("half way")
    return y * 2 + 1
"""


def call(name, target, inputs, line=0, shape=(64, 256), **more):
    source = Source(CELL, line, "price", TEXT.splitlines()[line - 1]) if line else None
    return Node(name, "call", target, inputs, "float32", shape, source=source, **more)


def entry(name, target="", shape=(64, 256)):
    return Node(name, "placeholder", target or name, (), "float32", shape)


def result(*inputs):
    return Node("output", "output", "output", inputs)


FORWARD = Graph(
    "post_grad",
    "0/0",
    (
        entry("arg0_1"),
        entry("arg1_1", shape=(256, 256)),
        call("mm", "aten.mm.default", ("arg0_1", "arg1_1"), 2),
        call("relu", "aten.relu.default", ("mm",), 2),
        call("mul", "aten.mul.Tensor", ("relu",), 4),
        call("add", "aten.add.Tensor", ("mul",), 4),
        result("add"),
    ),
)
CODE = """import torch

# Topologically Sorted Source Nodes: [y]
cpp_fused_add_mul_relu_0 = async_compile.cpp_pybinding(['float*'], r'''
extern "C" void kernel(float* in_out_ptr0)
{
    auto tmp1 = at::vec::clamp_min(tmp0, decltype(tmp0)(0));
    tmp1.store(in_out_ptr0);
}
''')

def call(args):
    extern_kernels.mm(arg0_1, arg1_1, out=buf0)
    cpp_fused_add_mul_relu_0(buf1)
    return (buf1,)

def benchmark_compiled_module():
    pass
"""
KERNELS = (
    Kernel("mm", "extern", call_lines=(13,), nodes=("mm",), bytes_read=327680, bytes_written=65536),
    Kernel(
        "cpp_fused_add_mul_relu_0",
        "cpp",
        source='\nextern "C" void kernel(float* in_out_ptr0)\n{\n'
        "    auto tmp1 = at::vec::clamp_min(tmp0, decltype(tmp0)(0));\n    tmp1.store(in_out_ptr0);\n}\n",
        lines=(5, 9),
        call_lines=(14,),
        nodes=("relu", "mul", "add"),
        dynamo_nodes=("y", "add"),
        line_nodes={4: ("relu",)},
        bytes_read=65536,
        bytes_written=65536,
    ),
)


def fused_run():
    compiled = Compile(
        "0/0", "price", CELL, 1, "inductor", (FORWARD,), (Code("0/0", "inference", CODE, KERNELS),),
    )  # fmt: skip
    return Run(ORIGIN, (Call("price", "first compile", 1.0, ("0/0",)),), (compiled,), sources={CELL: TEXT})


def broken_run():
    first = Graph("dynamo", "0/0", (entry("x", "L_x_"), call("y", "torch.relu", ("x",), 2), result("y")))
    second = Graph("dynamo", "1/0", (entry("y", "L_y_"), call("add", "operator.add", ("y",), 4), result("add")))
    line = Source(CELL, 3, "price", '    print("half way")')
    stop = GraphBreak(
        "0/0", "GB0059", "Failed to trace builtin operator", source=line, before="0/0", after="1/0",
        hints=("Avoid calling `print`.",),
    )  # fmt: skip
    compiles = (
        Compile("0/0", "price", CELL, 1, "aot_eager", (first,)),
        Compile("1/0", "torch_dynamo_resume_in_price_at_3", CELL, 3, "aot_eager", (second,), is_resume=True),
    )
    return Run(ORIGIN, (), compiles, (stop,), sources={CELL: TEXT})


def recompiled_run():
    graphs = [Graph("dynamo", i, (entry("x"), call("y", "torch.relu", ("x",), 2), result("y"))) for i in ("0/0", "0/1")]
    refusal = Refusal("0/0", "tensor 'x' size mismatch at index 0. expected 4, actual 5", "x", "4", "5")
    compiles = (
        Compile("0/0", "price", CELL, 1, "eager", (graphs[0],)),
        Compile("0/1", "price", CELL, 1, "eager", (graphs[1],), refusals=(refusal,)),
    )
    return Run(ORIGIN, (), compiles, sources={CELL: TEXT})


def trained_run():
    graph = Graph(
        "forward",
        "0/0",
        (
            entry("primals_1"),
            call("relu", "aten.relu.default", ("primals_1",), 2),
            call("le", "aten.le.Scalar", ("relu",)),
            result("relu", "le"),
        ),
    )
    compiled = Compile("0/0", "price", CELL, 1, "aot_eager", (graph,), saved=(Saved("le", "bool", (64, 256)),))
    return Run(ORIGIN, (), (compiled,), sources={CELL: TEXT})


def cut_run():
    """As DDP leaves it: one Dynamo graph, two parts with names of their own, each with its code."""
    dynamo = Graph(
        "dynamo",
        "0/0",
        (entry("x"), call("y", "torch.relu", ("x",), 2), call("z", "torch.relu", ("y",), 4), result("z")),
    )
    parts, code = [], []
    for part, (line, origin) in enumerate(((2, "y"), (4, "z"))):
        node = replace(call("relu", "aten.relu.default", ("primals_1",), line), origins=(origin,))
        parts.append(Graph("post_grad", "0/0", (entry("primals_1"), node, result("relu")), part=part))
        kernel = Kernel(f"cpp_fused_relu_{part}", "cpp", nodes=("relu",), dynamo_nodes=(origin,))
        code.append(Code("0/0", "forward", f"cpp_fused_relu_{part}(buf0)", (kernel,), part=part))
    saved = tuple(Saved("relu", "float32", (64, 256), 65536, part=part) for part in range(2))
    compiled = Compile("0/0", "price", CELL, 1, "inductor", (dynamo, *parts), tuple(code), saved=saved)
    return Run(ORIGIN, (), (compiled,), sources={CELL: TEXT})


def uncompiled_run():
    missed = NotCompiled(
        "price", "print stands inside a loop.", "Move print out of the loop.", Source(CELL, 3, "price", "print(i)")
    )
    return Run(ORIGIN, (Call("price", "never compiled", 0.1),), not_compiled=(missed,), sources={CELL: TEXT})


def layered_run(blocks=24, module=True):
    nodes = [entry("x")]
    last = "x"
    for i in range(blocks):
        for j, target in enumerate(("aten.mm", "aten.relu", "aten.mul", "aten.mm", "aten.add")):
            nodes.append(entry(f"w{i}_{j}")) if target == "aten.mm" else None
            inputs = (last, f"w{i}_{j}") if target == "aten.mm" else (last,)
            if target == "aten.add":
                inputs = (last, f"n{i}_1")
            nodes.append(call(f"n{i}_{j}", target, inputs, 2, module=f"layers.{i}" if module else ""))
            last = f"n{i}_{j}"
    nodes.append(call("last", "aten.sum", (last,), 4))
    graph = Graph("post_grad", "0/0", (*nodes, result("last")))
    return Run(ORIGIN, (), (Compile("0/0", "model", CELL, 1, "inductor", (graph,)),), sources={CELL: TEXT})


def both_targets_run():
    run = fused_run()
    dynamo = Graph(
        "dynamo",
        "0/0",
        (
            entry("l_x_", "L_x_"),
            entry("l_w_", "L_w_", (256, 256)),
            call("matmul", "operator.matmul", ("l_x_", "l_w_"), 2),
            call("y", "torch.relu", ("matmul",), 2),
            call("mul", "operator.mul", ("y",), 4),
            call("add", "operator.add", ("mul",), 4),
            result("add"),
        ),
    )
    compiled = replace(run.compiles[0], graphs=(dynamo, FORWARD))
    run = replace(run, compiles=(compiled,))
    return replace(run, pretended=(replace(run, origin=Origin("pretended", "NVIDIA H100", "2.13.0")),))
