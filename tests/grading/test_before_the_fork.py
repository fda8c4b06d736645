"""What the sandbox does once, before jobs are forked; and what a grader looks at once for a whole class."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.build import lesson_named
from autograder.exercises import find
from autograder.grading import cells, examiner, warm
from autograder.grading.referee import Question, Ruling
from autograder.sandbox.bubble import Bubble
from autograder.sandbox.limits import Limits
from classroom import exercises_of, solve, unsolved

LESSON = lesson_named("03_graph_breaks")
FIRST_COMPILE = """
import json, sys
import torch
from compilescope import observe
from torch._dynamo.utils import counters
counted, before = sum(map(len, counters.values())), set(sys.modules)
run = observe(torch.compile(lambda x: x.relu().sum() * 2, backend="aot_eager"), torch.ones(3, requires_grad=True))
run.result.backward()
print(json.dumps([len(run.compiles), counted, sorted(set(sys.modules) - before)]))
"""
DESCRIPTORS = """
import json, os
held = []
for name in os.listdir("/proc/self/fd"):
    try:
        held.append(os.readlink(f"/proc/self/fd/{name}"))
    except OSError:
        pass
print(json.dumps(held))
"""
THREADS = """
import os, torch
from autograder.sandbox import inside
with torch.random.fork_rng(devices=[]):
    first = torch.rand(4)
inside.preload()
drawn = torch.rand(4)
print(torch.cuda.is_initialized(), len(os.listdir("/proc/self/task")), torch.equal(drawn, first))
"""

TIMES_GUARDS = """
import json, torch
print(json.dumps(torch._dynamo.guards.profile_guard_manager(None, None, 1)))
"""
HUGE_PAGES = """
import json, pathlib
from autograder.sandbox.huge_pages import gather_into_huge_pages
held = [bytes([number]) * (16 << 20) for number in range(4)]
gather_into_huge_pages()
rollup = pathlib.Path("/proc/self/smaps_rollup").read_text().splitlines()
huge = [int(line.split()[1]) << 10 for line in rollup if line.startswith("AnonHugePages")]
print(json.dumps([sum(huge), [len(one) for one in held], [set(one) == {number} for number, one in enumerate(held)]]))
"""
WORKER = """
import json, multiprocessing, sys
from autograder.grading import pool
pool.start_early()
here, theirs = multiprocessing.Pipe()
told = "import sys; pipe.send([name in sys.modules for name in ('torch', 'autograder.grading.examiner')])"
worker = multiprocessing.get_context("forkserver").Process(target=exec, args=(told, {"pipe": theirs}))
worker.start()
print(json.dumps([here.recv(), "torch" in sys.modules]))
worker.join()
"""

COMPILES = """
import json, torch
print(json.dumps(torch.compile(lambda x: x.cosh() * 3 + x.amax())(torch.zeros(4)).tolist()))
"""


def said_by_a_process(code):
    """What a program prints in a Python of its own."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout, done.stderr[-2000:]
    return json.loads(done.stdout)


def printed(bubble, code):
    """What a cell prints in a job of its own."""
    job = bubble.start(Limits())
    job.send({"cells": [code], "asks_for": []})
    for frame in job.frames():
        if "probing" in frame:
            break
    job.end()
    return json.loads(job.output)


@pytest.fixture(scope="module")
def bubble(sandbox):
    with Bubble([find("breaks_1")]) as bubble:
        yield bubble


def test_a_job_imports_nothing_for_its_first_compile_and_finds_nothing_counted(bubble):
    compiles, counted, imported = printed(bubble, FIRST_COMPILE)
    assert (compiles, counted) == (1, 0)
    assert imported == []


def test_a_job_compiles_kernels_that_no_trusted_cache_holds(sandbox, tmp_path):
    limits = Limits()
    cache = warm.ready_cache(tmp_path / "cache", [Question.of(find("basic_3"))], limits, answers=False)
    assert list(cache.glob("inductor/*"))
    with Bubble([find("basic_3")], cache) as bubble:
        assert printed(bubble, COMPILES) == [3.0] * 4


def test_a_job_does_not_time_its_guards(bubble):
    assert printed(bubble, TIMES_GUARDS) == 0


def test_memory_in_huge_pages_holds_what_it_held():
    huge, sizes, same = said_by_a_process(HUGE_PAGES)
    assert sizes == [16 << 20] * 4
    assert all(same)
    release = tuple(int(part) for part in platform.release().split(".")[:2])
    if platform.machine() == "x86_64" and release >= (6, 1) and Path("/sys/kernel/mm/transparent_hugepage").is_dir():
        assert huge >= 32 << 20


def test_a_worker_is_forked_from_a_process_that_has_imported_torch_and_the_command_imports_none():
    assert said_by_a_process(WORKER) == [[True, True], False]


def test_a_job_holds_no_descriptor_of_the_grader_or_of_a_job_beside_it(bubble):
    beside = bubble.start(Limits())
    held = printed(bubble, DESCRIPTORS)
    beside.end()
    assert [one for one in held if "pidfd" in one] == []
    assert sum(one.startswith("socket:") for one in held) == 1


def test_no_thread_and_no_gpu_is_begun_before_the_fork_and_nothing_drawn():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", THREADS],
        env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.stdout.split() == ["False", "1", "True"], done.stderr[-2000:]


def test_of_huge_cells_no_names_are_kept_in_memory():
    cells._remembered.cache_clear()
    huge = cells._names("x = 1\n" * cells.SHORT)
    assert cells._remembered.cache_info().currsize == 0
    assert cells._names("x = 1") == huge
    assert cells._remembered.cache_info().currsize == 1


class Box:
    """A sandbox that only notes whether it was closed."""

    def __init__(self, *_, cache=None, **__):
        self.cache, self.closed = cache, False

    def close(self):
        self.closed = True


@pytest.fixture
def ruled(monkeypatch):
    """The exercises that were looked at in a sandbox, in order."""
    seen = []

    def rule(_, question, *__):
        seen.append(question.exercise.name)
        return Ruling(question.exercise.name, 0, question.exercise.points, "not solved yet")

    monkeypatch.setattr(examiner, "Bubble", Box)
    monkeypatch.setattr(examiner, "rule", rule)
    return seen


def test_cells_that_are_as_they_were_released_are_judged_once_for_the_whole_class(ruled):
    grader, notebook = examiner.Examiner(LESSON), unsolved(LESSON)
    names = exercises_of(notebook)
    for _ in range(3):
        for name in names:
            assert grader.rule_on(name, notebook).exercise == name
    assert ruled == names
    solved = solve(unsolved(LESSON), LESSON, names[0])
    for _ in range(2):
        grader.rule_on(names[0], solved)
    assert ruled == [*names, names[0], names[0]]


def test_what_happens_to_the_ruling_of_one_student_happens_to_no_other(ruled):
    grader, notebook = examiner.Examiner(LESSON), unsolved(LESSON)
    grader.rule_on("breaks_1", notebook).sentence += " Bonus"
    assert grader.rule_on("breaks_1", notebook).sentence == "not solved yet"


@pytest.mark.parametrize("compiled", [True, False], ids=["answers compiled something", "answers compiled nothing"])
def test_a_sandbox_that_began_beside_its_cache_is_kept_where_the_cache_stays_empty(
    ruled, monkeypatch, tmp_path, compiled
):
    given = []

    def made(folder, *_, bubble):
        given.append(bubble)
        folder.mkdir(exist_ok=True)
        (folder / warm.DONE).touch()
        if compiled:
            (folder / "inductor").mkdir(exist_ok=True)
        return folder

    monkeypatch.setattr(examiner, "ready_cache", made)
    monkeypatch.setattr(examiner, "wanted_facts", lambda _: {})
    grader = examiner.Examiner(LESSON, cache=tmp_path / "cache")
    (early,) = given
    assert early.closed is compiled
    assert (grader._bubble is early) is not compiled
    assert examiner.Examiner(LESSON, cache=tmp_path / "cache")._bubble.cache == tmp_path / "cache"
    assert given[1:] == [None]
