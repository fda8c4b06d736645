"""One classroom for each file: its tests read what one run of nbgrader's commands left."""

import importlib.util

import pytest
from untested import require, skip

from classroom import Classroom


@pytest.fixture(scope="module")
def classroom(tmp_path_factory):
    """An empty classroom; call `teaches` to give it a lesson."""
    return Classroom(tmp_path_factory.mktemp("class"))


@pytest.fixture(scope="session")
def sandbox():
    """Skips, loudly, where there is no bubblewrap."""
    return require("bwrap", "the sandbox that student code is graded in")


@pytest.fixture(scope="session")
def chromium():
    """Skips, loudly, where there is no Chromium."""
    return require("chromium", "feedback as a student's browser shows it")


@pytest.fixture(scope="session")
def dask():
    """Skips, loudly, where the extra `cluster` is not installed."""
    if importlib.util.find_spec("distributed"):
        return
    skip("distributed is not installed: grading on a cluster was not tested.")
