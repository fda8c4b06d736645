"""Bytecode before and after Dynamo, readable on whatever pair of Python and torch runs this."""

import sys

import pytest
import torch

from compilescope import bytecode, observe

module = sys.modules["compilescope.bytecode"]  # the package's attribute of that name is the function
X = torch.ones(4)


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def halves(x):
    y = torch.sin(x)
    print(end="")
    return y + 1


def branch(x):
    y = x * 2
    if x.sum() > 0:
        return y + 1
    return y - 1


def called(fn):
    compiled = torch.compile(fn, backend="eager")
    compiled(X)
    return compiled


@pytest.fixture(params=["depyf", "own"])
def reader(request, monkeypatch):
    if request.param == "own":
        monkeypatch.setattr(module, "_decompiled", lambda code: None)
    else:
        pytest.importorskip("depyf", reason="depyf is not installed: its Python was not tested.")


@pytest.mark.parametrize("fn", [halves, branch])
def test_calls_of_graphs_and_resume_functions_are_marked(reader, fn):
    text = bytecode(called(fn))
    before, after = text.split("\n\n", 1)
    assert before.startswith(f"# {fn.__name__}, before Dynamo")
    assert "the compiled graph" not in before
    assert after.count("the compiled graph") >= 2
    assert f"torch_dynamo_resume_in_{fn.__name__}" in after
    assert "goes on after the graph break" in after
    assert "record_pregraph" not in after
    assert "__compiled_fn_" not in after


def test_the_disassembly_names_the_learners_lines(monkeypatch):
    monkeypatch.setattr(module, "_decompiled", lambda code: None)
    before = bytecode(called(halves)).split("\n\n")[0]
    line = halves.__code__.co_firstlineno
    assert f"\n {line + 1:>3} " in before.replace(f"\n{line + 1:>4} ", f"\n {line + 1:>3} ")
    assert "sin" in before


def test_a_decompiler_that_fails_is_no_error(monkeypatch):
    import depyf

    def fails(code):
        raise RuntimeError("no such opcode")

    monkeypatch.setattr(depyf, "decompile", fails)
    assert "LOAD_" in bytecode(called(halves))


def test_a_compile_of_a_run_is_shown_too():
    run = observe(torch.compile(halves, backend="eager"), X)
    text = bytecode(run.compiles[0])
    assert "before Dynamo" in text
    assert "← the compiled graph" in text
    assert "← goes on after the graph break" in text


def test_a_function_that_was_not_called_says_what_to_do():
    with pytest.raises(ValueError, match=r"call torch\.compile\(halves\) once"):
        bytecode(torch.compile(halves, backend="eager"))
