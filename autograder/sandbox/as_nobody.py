"""Run a command as the user nobody, in a mount namespace of its own: how root starts a sandbox.

``python as_nobody.py PATH… -- COMMAND…``. Nobody may not pass folders such as /root; what the sandbox shows of them
(the PATHs) is bound to the same place in a view in which it may. Root of a container, who may not mount, needs PATHs
that everybody may pass; OSError otherwise. Imports no torch and nothing of the course.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from pathlib import Path

NOBODY = 65534
_NEW_MOUNTS, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x20000, 4096, 0x4000, 0x40000
_LIBC = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Never returns: becomes the command."""
    cut = sys.argv.index("--")
    paths, command = [Path(path) for path in sys.argv[1:cut]], sys.argv[cut + 1 :]
    closed = {path: first for path in paths if (first := closed_folder(path))}
    if closed:
        may_mount = _LIBC.unshare(_NEW_MOUNTS) == 0
        if not may_mount:
            folder = min(map(str, closed.values()))
            raise OSError(f"{folder} is closed to the user nobody, and root may not mount here: chmod o+x {folder}")
        _mount("none", "/", flags=_MS_REC | _MS_PRIVATE)
        make_passable(closed)
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    os.execvp(command[0], command)


def make_passable(closed: dict[Path, Path]) -> None:
    """Bind each path to its own place, over a fresh one in place of the folder that nobody may not pass."""
    stage = tempfile.mkdtemp()
    _mount("tmpfs", stage, kind="tmpfs", data="mode=755")
    staged = {path: _bind(path, Path(stage, str(number))) for number, path in enumerate(closed)}
    for folder in sorted(set(closed.values())):
        _mount("tmpfs", str(folder), kind="tmpfs", data="mode=755")
    for path, copy in staged.items():
        _bind(copy, path)


def closed_folder(path: Path) -> Path | None:
    """The first folder above `path` that others may not pass."""
    return next((folder for folder in reversed(path.parents) if not folder.stat().st_mode & 1), None)


def _bind(source: Path, target: Path) -> Path:
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount(str(source), str(target), flags=_MS_BIND | _MS_REC)
    return target


def _mount(source: str, target: str, kind: str = "none", flags: int = 0, data: str = "") -> None:
    done = _LIBC.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode() or None)
    _must(done, f"mount {target}")


def _must(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    main()
