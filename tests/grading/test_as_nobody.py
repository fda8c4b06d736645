"""Root starts the sandbox as the user nobody, also root of a container, who may not mount."""

import ctypes
import os
import subprocess
import sys

import pytest

from autograder.sandbox import as_nobody

DROP, SYS_ADMIN = 24, 21
"""``prctl``'s PR_CAPBSET_DROP, and the capability without which nobody mounts."""


@pytest.fixture(autouse=True)
def root():
    """Skips, loudly, where root runs no tests."""
    if os.geteuid() != 0:
        pytest.skip("These tests are not run by root: how root starts the sandbox was not tested.")


def who_reads(path, may_mount):
    """The user that the command ran as and what it read, or what it said."""
    program = [sys.executable, "-I", as_nobody.__file__, str(path), "--", "sh", "-c", f"id -u; cat {path}"]
    drop = None if may_mount else lambda: ctypes.CDLL(None).prctl(DROP, SYS_ADMIN, 0, 0, 0)
    done = subprocess.run(program, capture_output=True, text=True, preexec_fn=drop)
    return done.stdout.split() or done.stderr.splitlines()[-1]


@pytest.fixture
def file(tmp_path):
    """``file(mode)``: a file that everybody may read, in a folder with that mode."""

    def made(mode):
        path = tmp_path / "folder" / "file"
        path.parent.mkdir()
        path.write_text("text")
        for above in path.parents[1:]:
            if above.stat().st_uid == 0 and not above.stat().st_mode & 1:
                above.chmod(0o755)
        path.parent.chmod(mode)
        return path

    return made


def test_nobody_passes_a_folder_that_only_root_may_pass(file):
    assert who_reads(file(0o700), may_mount=True) == ["65534", "text"]


def test_root_of_a_container_becomes_nobody_where_everybody_may_pass(file):
    assert who_reads(file(0o755), may_mount=False) == ["65534", "text"]


def test_root_of_a_container_says_which_folder_is_closed(file):
    path = file(0o700)
    said = who_reads(path, may_mount=False)
    assert said.endswith(
        f"{path.parent} is closed to the user nobody, and root may not mount here: chmod o+x {path.parent}"
    )
