"""The C++ compiler as Inductor uses it, tried on three lines, and the folder its products go to."""

from __future__ import annotations

import contextlib
import ctypes
import getpass
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from autograder.learner import CACHE

PROGRAM = '#include <Python.h>\n#include <vector>\nextern "C" int answer() { return std::vector<int>(42).size(); }\n'
"""What Inductor's C++ kernels need, in three lines: Python's header, the standard library, a shared object."""


def cache_folder() -> Path:
    """Where Inductor keeps what it compiled."""
    named = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if named:
        return Path(named)
    return Path(tempfile.gettempdir()) / ("torchinductor_" + re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser()))


def existing(folder: Path) -> Path:
    """`folder`, or the nearest folder above it that is there."""
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def compile_a_program(name: str) -> str:
    """What the compiler or the loader said against `PROGRAM`; empty if it compiles, loads and runs."""
    where = existing(cache_folder())
    with tempfile.TemporaryDirectory(dir=where if os.access(where, os.W_OK) else None) as folder:
        source, made = Path(folder) / "a.cpp", Path(folder) / "a.so"
        source.write_text(PROGRAM)
        flags = ["-shared", "-fPIC", "-std=c++17", f"-I{sysconfig.get_paths()['include']}"]
        if sys.platform == "linux":
            flags.append("-fopenmp")
        else:
            flags += ["-undefined", "dynamic_lookup"]
        command = [*name.split(), *flags, str(source), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, errors="replace")
        if done.returncode:
            return done.stderr or "it said nothing"
        try:
            return "" if ctypes.CDLL(str(made)).answer() == 42 else "its program gives a wrong answer"
        except OSError as error:
            return str(error)


def remembered(key: str) -> bool:
    """Whether this compiler passed before."""
    try:
        return (CACHE / "compiler").read_text() == key
    except OSError:
        return False


def remember(key: str) -> None:
    """Note that this compiler passed."""
    with contextlib.suppress(OSError):
        CACHE.mkdir(parents=True, exist_ok=True)
        (CACHE / "compiler").write_text(key)


def boot() -> str:
    """Differs after each start of the machine, where that is known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def trial(name: str) -> str:
    """What stops the compiler `name` from making a program that runs; empty if nothing. A pass is remembered."""
    program = shutil.which(name.split()[0]) or name
    key = f"{boot()} {os.path.realpath(program)} {Path(program).stat().st_mtime_ns} {sys.executable}"
    if remembered(key):
        return ""
    trouble = compile_a_program(name)
    if not trouble:
        remember(key)
    return trouble
