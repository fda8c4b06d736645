"""Ranks with a GPU each compute at full speed while they wait for it: they say themselves that they wait."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from compilescope import rank_process


def test_a_rank_says_that_it_waits_for_its_gpu_while_nothing_moves_and_the_gpu_is_busy(tmp_path):
    program = textwrap.dedent("""
        import json, random, sys, textwrap, threading, time
        from pathlib import Path
        from compilescope.rank_work import tell_when_still
        told, busy = Path(sys.argv[1]), [True]
        look = threading.Thread(target=tell_when_still, args=(told, 0.3, lambda: busy[0], 0.05), daemon=True)
        look.start()
        def waited(seconds=2.0):
            time.sleep(seconds)
            return told.exists()
        print(waited())
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            textwrap.dedent("  a" * random.randrange(9)).title().split()
            json.dumps({"a": [random.random()] * random.randrange(9)}, indent=1)
        print(told.exists())
        busy[0] = False
        print(waited())
    """)
    here = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    said = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "0.waits"],
        env=os.environ | {"PYTHONPATH": here},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split() == ["True", "False", "False"]


@pytest.mark.parametrize(
    ("there", "wait"),
    [
        ({"0.waits": 0, "1.waits": 5}, True),
        ({"0.waits": 7, "1.facts": 0}, True),
        ({"0.waits": 0, "1.facts": 7}, False),  # said before the other was done, which may have been what it waited for
        ({"0.waits": 9, "0.facts": 5, "1.facts": 0}, False),
        ({"0.waits": 0}, False),
        ({"0.facts": 0}, False),
        ({}, False),
    ],
)
def test_ranks_wait_for_each_other_when_each_that_is_not_done_says_so(tmp_path, there, wait):
    for name, at in there.items():
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (at, at))
    assert rank_process._all_wait(tmp_path, SimpleNamespace(world=2)) == wait


def watched(monkeypatch, tmp_path, looks, seconds=0.6):
    """How ranks end of which each look finds (CPU seconds, bytes, runnable), so many seconds after the last; "late"
    when nothing else ended them."""
    clock, left = [0.0], iter(looks)

    def later(*_):
        clock[0] += seconds
        return [], [], []

    monkeypatch.setattr(rank_process.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(rank_process.select, "select", later)
    monkeypatch.setattr(rank_process.os, "waitpid", lambda *_: (0, 0))
    monkeypatch.setattr(rank_process, "_all_started", lambda *_: True)
    monkeypatch.setattr(rank_process, "_done_by_ranks", lambda _: next(left))
    job = SimpleNamespace(backend="gloo", limit=20 * seconds, patience=4.0, world=2)
    return rank_process._watch(1, tmp_path, job, os.getppid())


@pytest.mark.parametrize(
    ("looks", "how"),
    [
        ([(0.0, 0, False)] * 99, "stuck"),
        ([(0.0, number, False) for number in range(99)], "late"),  # a slow disk: they read
        ([(number / 10, 0, False) for number in range(99)], "late"),
        ([(0.0, 0, True)] * 99, "late"),  # others have the cores
    ],
)
def test_ranks_are_stuck_when_none_of_them_computes_reads_or_could_compute(monkeypatch, tmp_path, looks, how):
    assert watched(monkeypatch, tmp_path, looks) == how


def test_a_machine_that_stood_still_for_minutes_counts_as_one_look(monkeypatch, tmp_path):
    looks = [(0.0, 0, False)] * 3 + [(100.0 * number, 0, False) for number in range(1, 99)]
    assert watched(monkeypatch, tmp_path, looks, seconds=100.0) == "late"
