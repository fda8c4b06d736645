"""Lesson 2: what an empty cache folder is, and what it is not. Facts of the caches only; no clock."""

import torch
from torch._inductor.utils import fresh_cache
from torch.utils.benchmark import Timer

from compilescope import observe


def shift(x):
    return torch.relu(x + 1) * 2


def test_lesson_2_a_second_empty_folder_in_the_same_process_misses_again():
    compiled, found = torch.compile(shift, dynamic=False), {}
    for names in (("cold",), ("new folder", "forgotten", "warm")):
        with fresh_cache():
            for name in names:
                if name != "warm":
                    torch.compiler.reset()
                with observe(caches="use") as run:
                    compiled(torch.ones(64))
                found[name] = [one.caches.get("fx_graph") for one in run.compiles]
    assert found == {"cold": ["miss"], "new folder": ["miss"], "forgotten": ["hit"], "warm": []}


def test_lesson_2_with_dynamic_false_each_size_has_a_kernel_and_by_default_the_second_is_open():
    def outcomes(**options):
        torch.compiler.reset()
        compiled = torch.compile(shift, backend="aot_eager", **options)
        with observe() as run:
            for size in (4, 8, 16):
                compiled(torch.ones(size))
        return [call.outcome for call in run.calls]

    assert outcomes(dynamic=False) == ["first compile", "recompile", "recompile"]
    assert outcomes() == ["first compile", "recompile", "hit"]


def test_lesson_2_pytorchs_timer_calls_more_often_than_it_counts():
    calls = []
    timed = Timer("calls.append(1)", globals={"calls": calls}).timeit(5)
    assert timed.number_per_run == 5 < len(calls)
