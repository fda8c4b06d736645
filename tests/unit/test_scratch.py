"""Folders that a killed grader left go with the next one; those of a living one stay."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autograder.sandbox import scratch
from autograder.sandbox.scratch import Scratch

HOLDS_ONE = """import sys
from autograder.sandbox.scratch import Scratch
print(Scratch().path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder for temporary files, in which nothing counts as new."""
    monkeypatch.setattr(scratch.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(scratch, "NEW", 0.0)
    return tmp_path


@pytest.fixture
def other(folder):
    """Another process that holds a Scratch in the same folder; `other.path` is its path."""
    env = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS_ONE], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        process.path = process.stdout.readline().strip()
        yield process
        process.kill()


def names(folder):
    return {path.name for path in folder.iterdir()}


def test_what_a_killed_process_left_is_removed_by_the_next_and_what_a_living_one_holds_is_not(folder, other):
    mine = Scratch()
    assert names(folder) == {mine.path.name, Path(other.path).name}
    other.kill()
    other.wait()
    time.sleep(0.01)
    again = Scratch()
    assert names(folder) == {mine.path.name, again.path.name}
    again.remove()
    mine.remove()
    assert names(folder) == set()


def test_a_new_folder_is_left_alone_for_its_owner_may_not_hold_it_yet(folder, monkeypatch):
    monkeypatch.setattr(scratch, "NEW", 60.0)
    (folder / f"{scratch.PREFIX}new").mkdir()
    Scratch().remove()
    assert names(folder) == {f"{scratch.PREFIX}new"}


def test_a_link_and_another_name_are_left_alone(folder):
    (folder / "target").mkdir()
    (folder / f"{scratch.PREFIX}link").symlink_to(folder / "target")
    Scratch().remove()
    assert names(folder) == {"target", f"{scratch.PREFIX}link"}
