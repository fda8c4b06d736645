"""One classroom for each file: its tests read what one run of nbgrader's commands left."""

import pytest

from classroom import Classroom


@pytest.fixture(scope="module")
def classroom(tmp_path_factory):
    """An empty classroom; call `teaches` to give it a lesson."""
    return Classroom(tmp_path_factory.mktemp("class"))
