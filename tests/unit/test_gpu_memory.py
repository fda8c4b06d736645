"""The limit on a GPU's memory, with a driver that is a script."""

import os
import socket

import pytest

from autograder.sandbox.gpu_memory import taken_by
from autograder.sandbox.job import Job
from autograder.sandbox.limits import SAID, Limits

MINE, OTHER = 4711, 4712


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """Puts a program named nvidia-smi first, which prints what the test writes."""
    program, says = tmp_path / "nvidia-smi", tmp_path / "says"
    program.write_text(f'#!/bin/sh\n[ "$1" = --query-compute-apps=pid,used_gpu_memory ] && cat {says}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return says


def test_only_memory_of_the_processes_asked_for_counts(driver):
    driver.write_text(f"{MINE}, 1024\n{OTHER}, 50000\n{MINE}, 1\nnot a row\n{MINE}, [N/A]\n")
    assert taken_by([MINE]) == 1025 << 20
    assert taken_by([]) == 0


def test_without_a_driver_nothing_is_taken(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert taken_by([MINE]) == 0


class Sandbox:
    """A keeper whose job never says anything, and ends when it is killed."""

    def __init__(self):
        self.ours, self.theirs = socket.socketpair()
        self.killed = []

    def kill(self, number, why):
        self.killed.append(why)
        self.theirs.send(b"x")

    def has_ended(self, number):
        return False

    def said(self, number):
        self.ours.recv(1)
        return {"ended": number, "why": self.killed[-1]}

    def fileno(self):
        return self.ours.fileno()

    def gpu_memory(self):
        return taken_by([MINE])


def test_a_job_that_takes_more_than_it_may_is_ended_and_says_so(driver, monkeypatch):
    monkeypatch.setattr("autograder.sandbox.job.GPU_LOOK_EVERY", 0.0)
    driver.write_text(f"{MINE}, 9000\n")
    keeper, (channel, theirs), (reading, writing) = Sandbox(), socket.socketpair(), os.pipe()
    job = Job(keeper, 1, Limits(wall=30, cell=30, gpu_memory=8 << 30), channel, reading)
    assert list(job.frames()) == []
    assert job.why == "gpu memory"
    assert "GPU's memory" in SAID[job.why]
    theirs.close()
    os.close(writing)
