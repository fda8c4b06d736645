"""The course on a GPU, its table and its watch, without any GPU."""

import argparse
import os
import sys
import time

import psutil
import pytest

import course
from autograder.exercises import everything
from course_table import Proved, table
from gpu_memory import Watch

OPTIONS = argparse.Namespace(jobs=4, more_jobs=14)


@pytest.fixture
def gpu_of_512_mib(tmp_path, monkeypatch):
    """A program nvidia-smi that says that whoever asks holds 512 of 700 MiB in use."""
    program = tmp_path / "nvidia-smi"
    program.write_text('#!/bin/sh\ncase $1 in *memory.used) echo 700 ;; *) echo "$PPID, 512" ;; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")


def wait_for(peak):
    until = time.monotonic() + 20
    while not peak.all and time.monotonic() < until:
        time.sleep(0.05)
    return peak.own, peak.all


def test_the_watch_sees_what_a_process_and_its_descendants_hold(gpu_of_512_mib):
    with Watch() as watch, watch.of(os.getpid()) as ours:
        assert wait_for(ours) == (512, 700)


def test_what_others_hold_is_not_ours(gpu_of_512_mib):
    with Watch() as watch, watch.of(1 << 22) as other:
        assert wait_for(other) == (0, 700)


def test_a_part_that_takes_too_long_ends_with_all_that_it_started(tmp_path, monkeypatch):
    slow, told = tmp_path / "slow.py", tmp_path / "pids"
    slow.write_text(
        "import subprocess, sys, time\n"
        "one = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'], start_new_session=True)\n"
        f"open({str(told)!r}, 'w').write(str(one.pid)); time.sleep(99)\n"
    )
    monkeypatch.setattr(course, "__file__", str(slow))
    with Watch() as watch:
        found = course.run(("02_timing", "timing_1"), "all", 5, watch, tmp_path)
    assert "took longer than 5 s" in found.problems[0]
    left = int(told.read_text())
    assert not psutil.pid_exists(left) or psutil.Process(left).status() == psutil.STATUS_ZOMBIE


def test_a_part_that_ends_without_a_word_does_not_hold(tmp_path, monkeypatch):
    (tmp_path / "ends.py").write_text("raise SystemExit(3)")
    monkeypatch.setattr(course, "__file__", str(tmp_path / "ends.py"))
    with Watch() as watch:
        found = course.run(("02_timing", "timing_1"), "0", 60, watch, tmp_path)
    assert "ended with exit code 3" in found.problems[0]
    assert not found.holds


def test_each_part_of_each_lesson_is_run_once_and_solved_ones_first(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["course.py"])
    options = course.options_of(["-o", "x"])
    (first, jobs), (rest, more_jobs) = course.phases(list(course.lessons()), options)
    assert {part for _, part in first} == {"solved"}
    assert len(first) == 8
    assert len({*first, *rest}) == len(first) + len(rest)
    assert {part for _, part in rest} == {"unsolved", *(one.name for one in everything())}
    assert (jobs, more_jobs) == (4, 14)


def test_the_table_says_what_does_not_hold_and_what_is_over_budget():
    found = [
        Proved("02_timing", "solved", (), 90, 80.0, 0, 500, 900),
        Proved("02_timing", "timing_1", ("timing_1: this right answer is refused",), 9, None, 12, 9000, 9900),
        Proved("05_modes", "solved", (), 200, 190.0, 0, 0, 700),
        Proved("03_graph_breaks", "solved", (), 200, 130.0, 0, 0, 0),
    ]
    text = table(found, OPTIONS)
    assert "| 02_timing | yes | 80 | – | – | 11 of 12 | 9000 |" in text
    assert "| 05_modes | yes | 190 | – | – | – | at most 700 |" in text
    assert "- 02_timing, timing_1: 9000 MiB of GPU memory; at most 8192." in text
    assert "- 03_graph_breaks: the solved notebook took 130 s; at most 120." in text
    assert "05_modes: the solved" not in text
    assert "refused" in text
