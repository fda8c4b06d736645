"""The grader's own temporary folders: locked while their owner lives, so that what a killed one left can be removed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

PREFIX = "course-sandbox-"
NEW = 60.0
"""Seconds in which a folder may still be without its lock."""


class Scratch:
    """A folder of this process, which goes with `remove`, or with the next Scratch of anybody if the process dies."""

    def __init__(self) -> None:
        remove_leftovers()
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def remove(self) -> None:
        """Delete it and all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_leftovers() -> None:
    """Delete folders of this user that nobody holds any more."""
    for entry in os.scandir(tempfile.gettempdir()):
        if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False) and is_left_over(entry):
            shutil.rmtree(entry.path, ignore_errors=True)


def is_left_over(entry: os.DirEntry[str]) -> bool:
    """Whether a folder is this user's, no new one, and held by no living process."""
    try:
        status = entry.stat(follow_symlinks=False)
        if status.st_uid != os.geteuid() or time.time() - status.st_ctime < NEW:
            return False
        folder = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(folder)
    return True
