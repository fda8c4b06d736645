"""The contract: frozen, JSON both ways, no torch."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from compilescope.facts import (
    Autotuning,
    Call,
    Choice,
    Code,
    Compile,
    CudaGraphs,
    Graph,
    GraphBreak,
    GraphSkip,
    Guard,
    Kernel,
    Node,
    NotCompiled,
    NotFused,
    Origin,
    Phase,
    Refusal,
    Run,
    Saved,
    Source,
    Symbol,
)

LINE = Source("f.py", 3, "f", "return x")
REFUSAL = Refusal("0/0", "n == 2", "n", "2", "3", LINE, "a hint")
FULL = Run(
    Origin("live", "CPU", "2.13.0", "3.7.1", "3.11.7", "2026-11-29", "", 1),
    calls=(Call("f", "recompile", 0.5, ("0/1",), (REFUSAL,), LINE),),
    compiles=(
        Compile(
            "0/1",
            "f",
            "f.py",
            3,
            "inductor",
            graphs=(
                Graph(
                    "dynamo",
                    "0/1",
                    (
                        Node("x", "placeholder", "L_x_", (), "float32", ("s77", 4), (4, 1), "cpu", None, 2),
                        Node(
                            "y", "call", "torch.sin", ("x",), "float32", ("s77", 4), (4, 1), "cpu", LINE, 5, "", "a.b"
                        ),
                        Node("output", "output", "output", ("y",), origins=("y",)),
                    ),
                    "text",
                ),
            ),
            code=(
                Code(
                    "0/1",
                    "forward",
                    "text",
                    (
                        Kernel(
                            "k",
                            "triton",
                            lines=(1, 2),
                            line_nodes={2: ("y",)},
                            grid=("s77", 1),
                            sources=(LINE,),
                            bytes_read=8,
                        ),
                    ),
                    "h100",
                ),
            ),
            guards=(Guard("EQUALS_MATCH", "n == 2", "L['n']", 1, LINE),),
            refusals=(REFUSAL,),
            symbols=(Symbol("s77", "L['x'].size()[0]", 8, 2, None, 8, LINE),),
            saved=(Saved("y", "float32", ("s77", 4)),),
            not_fused=(NotFused("a", "b", "no shared data"),),
            provenance={"y": ("y",)},
            caches={"fx_graph": "hit"},
        ),
    ),
    breaks=(GraphBreak("0/1", "GB0059", "print", hints=("no",), source=LINE, stack=(LINE,), before="0/1"),),
    not_compiled=(NotCompiled("g", "why", "what to do", LINE, "plain"),),
    phases=(Phase("dynamo", "0/1", 0.1, 0.2, 1),),
    autotuning=(Autotuning("algorithm", "mm 2x2", (Choice("mm", 1.5, "", 8, 0), Choice("t", None)), "mm", "0/1"),),
    cuda_graphs=CudaGraphs(1, 1, 2, (GraphSkip("a reason", LINE),)),
    peak_memory_bytes=64,
    sources={"f.py": "text"},
    missing={"sass": "no"},
    notes=("a note",),
    pretended=(Run(Origin("pretended", "NVIDIA H100", "2.13.0")),),
    result=object(),
)


def test_a_run_with_every_fact_comes_back_from_json_equal():
    back = Run.from_json(FULL.to_json())
    assert back == FULL
    assert back.result is None
    assert back.compiles[0].graphs[0].nodes[0].shape == ("s77", 4)
    assert back.compiles[0].code[0].kernels[0].line_nodes == {2: ("y",)}
    assert back.compiles[0].code[0].kernels[0].lines == (1, 2)


def test_every_field_of_every_fact_is_exercised_above():
    """A new field must be given a value in FULL, or in a default that JSON brings back."""
    assert {field.name for field in dataclasses.fields(Run)} == {
        "origin", "calls", "compiles", "breaks", "not_compiled", "phases", "sources", "missing", "notes", "pretended",
        "result", "autotuning", "cuda_graphs", "peak_memory_bytes",
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "{", "[]", '{"origin": 3}', '{"calls": []}', "null"])
def test_what_is_no_run_is_refused_with_the_remedy(text):
    with pytest.raises(ValueError, match=r"Run\.to_json"):
        Run.from_json(text)


def test_a_fact_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        FULL.notes = ()


def test_graphs_kernels_and_recompiles_are_found():
    assert FULL.graphs == (FULL.compiles[0].graphs[0],)
    assert [kernel.name for kernel in FULL.kernels] == ["k"]
    assert FULL.recompiles == FULL.compiles
    assert [node.name for node in FULL.graphs[0].calls()] == ["y"]
    assert [node.name for _, node in FULL.walk_nodes("dynamo")] == ["x", "y", "output"]
    with pytest.raises(KeyError):
        FULL.graphs[0].node("z")


@pytest.mark.parametrize(
    ("kind", "words"),
    [("live", "live on this CPU"), ("pretended", "not timed"), ("recorded", "recorded on"), ("trace", "a trace")],
)
def test_each_origin_has_its_sentence(kind, words):
    assert words in Origin(kind, "CPU", "2.13.0", date="2026-11-29").sentence()


def test_facts_are_read_without_torch():
    code = (
        "import sys, types;"
        "package = types.ModuleType('compilescope'); package.__path__ = [sys.argv[1]];"
        "sys.modules['compilescope'] = package; import compilescope.facts;"
        "assert 'torch' not in sys.modules"
    )  # fmt: skip
    folder = str(Path(sys.modules["compilescope.facts"].__file__).parent)
    subprocess.run([sys.executable, "-c", code, folder], check=True)
