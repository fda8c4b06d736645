"""One classroom for each file: its tests read what one run of nbgrader's commands left."""

import importlib.util
import os
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


@pytest.fixture(scope="session")
def dask():
    """Skips, loudly, where the extra `cluster` is not installed."""
    if importlib.util.find_spec("distributed"):
        return
    sentence = "distributed is not installed: grading on a cluster was not tested."
    if os.environ.get("COURSE_REQUIRE_ALL") == "1":
        pytest.fail(sentence)
    pytest.skip(sentence)
