"""The comparison with a pristine copy: what runs leave alone, and what replacing leaves."""

import os

import pytest
import torch

import compilescope
from autograder.sandbox.pristine import Kept
from compilescope import observe


@pytest.fixture(scope="module")
def kept():
    """What stands before anything of this file runs."""
    torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(2))
    return Kept()


def changed(kept, before):
    after = kept.state()
    starts = range(0, len(before), 32)
    return [name for name, at in zip(kept.names, starts, strict=True) if before[at : at + 32] != after[at : at + 32]]


def test_compiling_and_observing_replace_nothing(kept):
    before = kept.state()
    observe(torch.compile(lambda x: x.sin() + x.softmax(-1), backend="aot_eager"), torch.ones(3, 3))
    module = torch.nn.Linear(2, 2)
    torch.compile(module, backend="aot_eager")(torch.ones(2, 2)).sum().backward()
    torch.optim.AdamW(module.parameters()).step()
    torch.compiler.reset()
    assert changed(kept, before) == []


def test_another_process_that_forked_says_the_same(kept):
    before = kept.state()
    reading, writing = os.pipe()
    if os.fork() == 0:
        filler = [object() for _ in range(1000)]
        os.write(writing, b"same" if filler and kept.state() == before else b"other")
        os._exit(0)
    assert os.read(reading, 9) == b"same"
    os.wait()


@pytest.mark.parametrize(
    ("owner", "name", "said"),
    [
        (torch, "compile", "torch.compile"),
        (torch, "allclose", "torch.allclose"),
        (torch.Tensor, "__eq__", "torch.Tensor.__eq__"),
        (torch.nn.Module, "__call__", "torch.nn.modules.module.Module.__call__"),
        (compilescope, "observe", "compilescope.observe"),
        (torch.compiler, "set_stance", "torch.compiler.set_stance"),
    ],
)
def test_what_is_replaced_is_named(kept, monkeypatch, owner, name, said):
    before = kept.state()
    monkeypatch.setattr(owner, name, lambda *args, **kwargs: True)
    assert [one for one in changed(kept, before) if one.endswith(said.removeprefix("torch.nn.modules.module."))]


def test_a_function_that_keeps_its_place_with_other_code_is_named(kept, monkeypatch):
    before = kept.state()
    monkeypatch.setattr(observe, "__code__", (lambda *args, **kwargs: None).__code__.replace(co_freevars=()))
    assert "compilescope.observe" in changed(kept, before)
