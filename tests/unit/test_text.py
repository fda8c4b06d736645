"""Facts as plain text: each sentence holds the facts, and nothing is a wall."""

import pytest
import torch

from compilescope import observe
from compilescope.facts import Kernel, NotCompiled, Origin, Refusal, Run, Saved, Source
from compilescope.text import (
    describe,
    describe_break,
    describe_call,
    describe_graph,
    describe_guards,
    describe_kernel,
    describe_not_compiled,
    describe_phases,
    describe_refusal,
    describe_saved,
    describe_symbols,
    seconds,
    size,
)

X = torch.ones(4, 3)


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def halves(x):
    y = torch.sin(x)
    print(end="")
    return y + 1


def labelled(x, label):
    return x + len(label)


def test_a_summary_counts_graphs_breaks_and_recompiles():
    run = observe(torch.compile(halves, backend="eager"), X)
    text = describe(run)
    assert text.splitlines()[0] == "2 graphs, 1 graph break, 0 recompiles."
    assert "halves(…) at line" in text
    assert text.splitlines()[-1] == f"({run.origin.sentence()})"


def test_zero_graphs_are_loud():
    text = describe(observe(halves, X))
    assert text.splitlines()[0].startswith("0 graphs")
    assert "0 graphs: everything ran as plain Python." in text
    assert "torch.compile(f)" in text


def test_a_summary_never_becomes_a_wall():
    compiled = torch.compile(labelled, backend="eager")
    with observe() as run:
        for length in range(30):
            compiled(X, "a" * length)
    lines = describe(run).splitlines()
    assert len(lines) <= 25
    assert "… and 22 more." in lines


def test_a_recompile_tells_the_value_then_and_now():
    compiled = torch.compile(labelled, backend="eager")
    with observe() as run:
        compiled(X, "a")
        compiled(X, "bb")
    assert "label was 'a' when it was compiled, and is 'bb' now" in describe_call(run.calls[1])


def test_a_size_mismatch_tells_both_sizes():
    refusal = Refusal("0/0", "tensor 'x' size mismatch at index 0. expected 4, actual 5", "x", "4", "5")
    assert describe_refusal(refusal) == "'x' size mismatch at index 0: compiled for 4, now 5"


def test_a_break_tells_its_number_line_and_sides():
    run = observe(torch.compile(halves, backend="eager"), X)
    text = describe_break(run.breaks[0])
    assert "GB0059" in text
    assert 'print(end="")' in text
    assert f"before it: graph {run.compiles[0].compile_id}" in text
    assert f"after it: graph {run.compiles[1].compile_id}" in text


def test_a_graph_is_one_line_a_node():
    run = observe(torch.compile(halves, backend="eager"), X)
    text = describe_graph(run.graphs[0])
    assert "1 operation" in text
    assert "torch.sin(L_x_)  float32[4, 3]" in text
    assert len(text.splitlines()) == 1 + len(run.graphs[0].nodes)


def test_guards_on_the_learners_values_come_in_words():
    run = observe(torch.compile(labelled, backend="eager"), X, "ab")
    text = describe_guards(run.compiles[0])
    assert "L['x'] is float32[4, 3], requires_grad=False" in text
    assert "L['label'] == 'ab'" in text
    assert "check_tensor" not in text


def test_symbols_tell_their_range():
    compiled = torch.compile(halves, backend="eager", dynamic=True)
    run = observe(compiled, X)
    assert "at least 2" in describe_symbols(run.compiles[0])
    torch.compiler.reset()
    run = observe(torch.compile(halves, backend="eager", dynamic=False), X)
    assert "no dynamic size" in describe_symbols(run.compiles[0])


def test_saved_tensors_tell_what_they_cost():
    saved = (Saved("primals_1", "float32", (8, 8), 256, True), Saved("relu", "float32", (1000,), 4000))
    assert describe_saved(saved).startswith("2 tensors saved for backward: 1 are inputs")
    assert "4.0 kB: relu" in describe_saved(saved)
    assert describe_saved(()) == "Nothing is saved for backward."


def test_a_kernel_tells_nodes_bytes_and_lines():
    kernel = Kernel("cpp_fused_0", "cpp", nodes=("add", "mul"), bytes_read=512, sources=(Source("f.py", 3),))
    assert describe_kernel(kernel) == ("cpp_fused_0 (cpp): add, mul; reads 512 B, writes an unknown size; from line 3.")


def test_what_is_missing_is_said():
    run = Run(Origin("live", "CPU", "2.13.0"), missing={"kernels": "This torch has none."})
    assert "Not known: kernels. This torch has none." in describe(run)


def test_a_frame_left_to_python_tells_reason_and_remedy():
    fact = NotCompiled("f", "It is plain.", "Compile it.", Source("f.py", 9))
    assert describe_not_compiled(fact) == "f ran as plain Python at line 9. It is plain. Compile it."


def test_phases_tell_the_longest_first():
    run = observe(torch.compile(halves, backend="eager"), X)
    assert describe_phases(run).splitlines()[0].startswith("dynamo: ")


@pytest.mark.parametrize(("value", "text"), [(2e-6, "2 µs"), (3.14e-3, "3.1 ms"), (0.5, "0.50 s"), (12.0, "12.00 s")])
def test_seconds_have_a_unit(value, text):
    assert seconds(value) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2_000_000, "2.0 MB")])
def test_sizes_have_a_unit(value, text):
    assert size(value) == text
