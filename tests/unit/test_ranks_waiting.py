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
        (["0.waits", "1.waits"], True),
        (["0.waits", "1.facts"], True),
        (["0.waits"], False),
        (["0.facts"], False),
        ([], False),
    ],
)
def test_ranks_wait_for_each_other_when_each_that_is_not_done_waits(tmp_path, there, wait):
    for name in there:
        (tmp_path / name).touch()
    assert rank_process._all_wait(tmp_path, SimpleNamespace(world=2)) == wait
