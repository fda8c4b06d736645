"""One classroom for each file: its tests read what one run of nbgrader's commands left."""

import importlib.util
from pathlib import Path

import pytest

from classroom import Classroom


@pytest.fixture(scope="module")
def classroom(tmp_path_factory):
    """An empty classroom; call `teaches` to give it a lesson."""
    return Classroom(tmp_path_factory.mktemp("class"))


def _require(program, untested):
    spec = importlib.util.spec_from_file_location("tests_conftest", Path(__file__).parents[1] / "conftest.py")
    shared = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(shared)
    return shared.require(program, untested)


@pytest.fixture(scope="session")
def sandbox():
    """Skips, loudly, where there is no bubblewrap."""
    return _require("bwrap", "the sandbox that student code is graded in")


@pytest.fixture(scope="session")
def chromium():
    """Skips, loudly, where there is no Chromium."""
    return _require("chromium", "feedback as a student's browser shows it")
