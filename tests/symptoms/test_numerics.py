"""Symptoms 40 and 43e to 43g: numbers, threads, caches between processes, a missing C++ compiler."""

import os
import random
import subprocess
import sys
import threading

import pytest
import torch
import torch._inductor.config as inductor
from torch._inductor.utils import fresh_cache

from compilescope import Run, observe
from rows import TORCH, row


def largest_difference(answer, exact):
    return (answer.double() - exact).abs().max().item()


def smooth(x):
    return torch.softmax(x * 3 + 1, -1) * x.sigmoid() - x.tanh()


@row("40")
def test_in_bf16_the_fused_kernel_is_not_farther_from_float64_than_eager():
    x = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    exact = smooth(x.double())
    run = observe(torch.compile(smooth), x)
    assert largest_difference(run.result, exact) <= largest_difference(smooth(x), exact)
    assert not torch.equal(run.result, smooth(x))
    assert max(len(kernel.nodes) for kernel in run.kernels) > 3
    assert all(kernel.language == "cpp" for kernel in run.kernels)


@row("40")
def test_dropout_with_the_same_seed_differs_from_eager_unless_fallback_random():
    def dropped(x):
        return torch.nn.functional.dropout(x, 0.5)

    x = torch.ones(64)
    torch.manual_seed(7)
    eager = dropped(x)
    torch.manual_seed(7)
    own = observe(torch.compile(dropped), x)
    assert any("inductor_random" in node.target for _, node in own.walk_nodes("post_grad"))
    assert not torch.equal(own.result, eager)
    torch.compiler.reset()
    with inductor.patch(fallback_random=True):
        torch.manual_seed(7)
        same = observe(torch.compile(dropped), x)
    assert not any("inductor_random" in node.target for _, node in same.walk_nodes("post_grad"))
    assert torch.equal(same.result, eager)


def add_one(x):
    return torch.sin(x) + 1


def add_two(x):
    return torch.sin(x) + 2


def add_three(x):
    return torch.sin(x) + 3


@row("43e")
def test_threads_compile_without_an_error_and_each_sees_only_its_own():
    runs = {}

    def work(function):
        fn = torch.compile(function, backend="eager")
        with observe() as run:
            for size in (4, 5, 6):
                fn(torch.ones(size))
        runs[function.__name__] = run

    threads = [threading.Thread(target=work, args=(function,)) for function in (add_one, add_two, add_three)]
    for thread in threads:
        thread.start()
        if TORCH < (2, 12):
            thread.join()  # torch 2.11 ends in a segmentation fault, also unobserved, when threads compile at once
    for thread in threads:
        thread.join()
    assert len(runs) == 3
    for name, run in runs.items():
        assert [call.outcome for call in run.calls] == ["first compile", "recompile", "hit"]
        assert {one.function for one in run.compiles} == {name}


SECOND_PROCESS = """
import sys, torch
from compilescope import observe
def double(x):
    return torch.sin(x) * float(sys.argv[2])
with observe(caches="use") as run:
    torch.compile(double)(torch.ones(8))
open(sys.argv[1], "w").write(run.to_json())
"""


@row("43f")
def test_a_second_process_takes_the_code_from_the_disk_but_traces_again(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(SECOND_PROCESS)
    new_to_every_cache = str(random.random())
    settings = {"PYTHONPATH": os.pathsep.join(sys.path)}
    runs = []
    for number in range(2):
        facts = tmp_path / f"{number}.json"
        command = [sys.executable, program, facts, new_to_every_cache]
        subprocess.run(command, env=os.environ | settings, check=True, capture_output=True)
        runs.append(Run.from_json(facts.read_text()))
    cold, warm = runs
    assert cold.compiles[0].caches["fx_graph"] == "miss"
    assert "hit" in warm.compiles[0].caches.values()
    names = [{phase.name for phase in run.phases} for run in runs]
    assert "entire_frame_compile" in names[0] & names[1], "Dynamo traces in both"
    assert any("GraphLowering" in name or "codegen" in name for name in names[0])
    assert not any("GraphLowering" in name or name == "fx_codegen_and_compile" for name in names[1])


@row("43g")
def test_without_a_cpp_compiler_the_graph_is_there_and_the_error_is_a_fact(tmp_path):
    def double(x):
        return torch.sin(x) * 2

    with fresh_cache(), inductor.patch({"cpp.cxx": (str(tmp_path / "none"),)}):
        with observe() as run, pytest.raises(Exception, match="compiler"):
            torch.compile(double)(torch.ones(8))
        assert run.calls[0].outcome == "error"
        (compiled,) = run.compiles
        assert compiled.graph("dynamo")
        assert "compiler" in compiled.error
        assert run.kernels, "the source that could not be compiled"
        torch.compiler.reset()
        assert len(observe(torch.compile(double, backend="aot_eager"), torch.ones(8)).graphs) == 1
