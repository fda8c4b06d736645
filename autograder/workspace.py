"""A learner's copies in my/: handed out once, updated while untouched, never overwritten; JupyterLab on them."""

from __future__ import annotations

import argparse
import contextlib
import errno
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from autograder.build import Lesson, lesson_named, lessons
from autograder.errors import CourseError
from autograder.nbgrader_config import ROOT

MINE = "my"
RESET = f"{os.path.relpath(sys.executable)} -m autograder reset"
"""The command as this Python understands it: a plain `python` may be another one."""
LEDGER = ".handed-out.json"
"""In my/: file to the digest of what was handed out, so that an edited notebook is told from an old one."""

PORTS_TO_TRY = 50


def hand_out(root: Path = ROOT) -> list[str]:
    """Bring my/ up to date with notebooks/; one sentence for each notebook that stays behind or cannot be read.

    Raises CourseError if my/ cannot be written; nothing is half written then.
    """
    released = [lesson.learner for lesson in lessons(root) if lesson.learner.exists()]
    if not released:
        raise CourseError("There is no lesson in notebooks/. Run: make build")
    with _writing(root / MINE):
        (root / MINE).mkdir(exist_ok=True)
        ledger = _read_ledger(root)
        said = [sentence for path in released for sentence in _hand_out_one(root, path, ledger)]
        _write(root / MINE / LEDGER, json.dumps(ledger, indent=1, sort_keys=True).encode())
    return said


def _hand_out_one(root: Path, released: Path, ledger: dict[str, str]) -> Iterator[str]:
    name = str(released.relative_to(root / "notebooks").as_posix())
    lesson = released.parent.name
    mine = root / MINE / name
    fresh = _digest(released.read_bytes())
    before = ledger.get(name)
    current = _digest(mine.read_bytes()) if mine.exists() else None
    if current is not None and (trouble := trouble_of(mine)):
        yield f"{MINE}/{name} {trouble}. It stays as it is; for a fresh one: {RESET} {lesson}"
    elif current in (None, before, fresh):
        if current != fresh:
            mine.parent.mkdir(parents=True, exist_ok=True)
            _write(mine, released.read_bytes())
            if current is not None:
                yield f"{MINE}/{name} was untouched and is now the new version."
        ledger[name] = fresh
    elif before != fresh:
        yield (
            f"{MINE}/{name} holds your work and stays; the course has a newer version. "
            f"To take it and keep a backup: {RESET} {lesson}"
        )


def reset(name: str, root: Path = ROOT) -> str:
    """A fresh copy of one lesson in my/, and a sentence that names the backup of the old one."""
    lesson = lesson_named(name, root)
    if not lesson.learner.exists():
        raise CourseError(f"There is no notebook for {lesson.name}. Run: make build")
    fresh = lesson.learner.read_bytes()
    mine = root / MINE / lesson.learner.relative_to(root / "notebooks")
    with _writing(root / MINE):
        mine.parent.mkdir(parents=True, exist_ok=True)
        kept = _back_up(mine) if mine.exists() and mine.read_bytes() != fresh else None
        _write(mine, fresh)
        ledger = _read_ledger(root)
        ledger[str(mine.relative_to(root / MINE).as_posix())] = _digest(fresh)
        _write(root / MINE / LEDGER, json.dumps(ledger, indent=1, sort_keys=True).encode())
    shown = mine.relative_to(root)
    if kept is None:
        return f"{shown} is fresh."
    return f"{shown} is fresh; what you had is {kept.name} beside it. If it is open in JupyterLab, reload the page."


def _back_up(mine: Path) -> Path:
    now = datetime.now()
    kept = mine.with_name(f"backup-{now:%Y-%m-%d-%H%M%S}{mine.suffix}")
    if kept.exists():
        kept = mine.with_name(f"backup-{now:%Y-%m-%d-%H%M%S-%f}{mine.suffix}")
    shutil.copy2(mine, kept)
    return kept


def trouble_of(path: Path) -> str:
    """Why JupyterLab cannot open the notebook, as the end of a sentence; empty if it can."""
    try:
        notebook = json.loads(path.read_bytes().decode("utf-8"))
    except UnicodeDecodeError:
        return "was not saved as UTF-8"
    except json.JSONDecodeError as error:
        return f"is not valid JSON from line {error.lineno} on"
    return "" if isinstance(notebook, dict) and isinstance(notebook.get("cells"), list) else "is no notebook"


def _digest(content: bytes) -> str:
    """Of the cells, their sources and outputs: JupyterLab rewrites other parts of a notebook that nobody edited."""
    try:
        cells = json.loads(content)["cells"]
        told = [(c["cell_type"], "".join(c["source"]), c.get("outputs") or []) for c in cells]
        content = json.dumps(told, sort_keys=True).encode()
    except (ValueError, KeyError, TypeError):
        pass  # no notebook: any change counts
    return hashlib.sha256(content).hexdigest()


def _read_ledger(root: Path) -> dict[str, str]:
    """Empty if it is missing or damaged: then each notebook that differs from the release counts as edited."""
    try:
        ledger = json.loads((root / MINE / LEDGER).read_text())
    except (OSError, ValueError):
        return {}
    return ledger if isinstance(ledger, dict) else {}


def _write(path: Path, content: bytes) -> None:
    """All or nothing: a full disk leaves what was there."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = error.filename or folder
        if error.errno == errno.ENOSPC:
            raise CourseError(f"The disk is full at {where}. Free some room; your notebooks are unchanged.") from error
        raise CourseError(
            f"Cannot write {where}: {error.strerror}. Make {folder} writable for you (chmod -R u+rwX {folder.name}), "
            "or copy the course to a folder of your own."
        ) from error


def require_port(wanted: int) -> None:
    """CourseError, with a port that is free, unless JupyterLab can listen on `wanted`."""
    trouble = port_trouble(wanted)
    if not trouble:
        return
    start = wanted + 1 if 1023 < wanted < 65535 else 8888
    free = next((port for port in range(start, min(start + PORTS_TO_TRY, 65536)) if not port_trouble(port)), 9500)
    raise CourseError(f"Port {wanted} {trouble}. Start on another one: make lab PORT={free}")


def port_trouble(port: int) -> str:
    """Why nothing new can listen on `port`, as the end of a sentence; empty if it can."""
    try:
        with socket.socket() as probe:
            if os.name == "posix":
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
    except PermissionError:
        return "is for the system's own servers"
    except OverflowError:
        return "does not exist"
    except OSError:
        return "is taken, perhaps by a JupyterLab of yours that still runs"
    return ""


def lab_command(root: Path, port: int, browser: str | None, first: Lesson) -> list[str]:
    """The command that opens JupyterLab in my/ with `first` in front."""
    page = first.learner.relative_to(root / "notebooks")
    front = page if not trouble_of(root / MINE / page) else page.parent
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={root / MINE}"]
    command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    command += [f"--LabApp.default_url=/lab/tree/{front.as_posix()}"]
    command += ["--LabApp.extension_manager=readonly"]  # the lock says what is installed
    # What the terminal says is the address, and what goes wrong.
    command += ["--ServerApp.log_level=ERROR", "--LabApp.log_level=ERROR"]
    # The layout of other projects names files that are not here.
    command += [f"--LabApp.workspaces_dir={root / MINE / '.workspaces'}"]
    if browser == "none":
        command.append("--no-browser")
    elif browser:
        command.append(f"--browser={browser}")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # containers; JupyterLab refuses otherwise
    return command


def lab_environment(root: Path) -> dict[str, str]:
    """The environment for that command: the course's own settings of JupyterLab come first.

    They leave out its announcements, which ask the network, and nbgrader's panes, which are for those who teach.
    """
    folders = [str(root / "assets" / "jupyterlab"), os.environ.get("JUPYTER_CONFIG_PATH", "")]
    return {**os.environ, "JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, folders))}


def main_lab(args: argparse.Namespace) -> int:
    """``python -m autograder lab [--port N] [--browser none]``: returns when JupyterLab ends."""
    for sentence in hand_out():
        print(sentence)
    require_port(args.port)
    command, environment = lab_command(ROOT, args.port, args.browser, lessons()[0]), lab_environment(ROOT)
    sys.stdout.flush()
    if os.name == "posix":
        os.execve(command[0], command, environment)  # Ctrl-C then reaches JupyterLab itself
    return subprocess.call(command, env=environment)


def main_reset(args: argparse.Namespace) -> int:
    """``python -m autograder reset LESSON``."""
    print(reset(args.lesson))
    return 0
