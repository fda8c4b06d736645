"""Environments with a given torch, for `matrix.py` and `bytecode_pairs.py`: ``.venv-VERSION`` in the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("2.11.0", "2.13.0", "2.14.1", "2.15.0")
SPACE = 8 * 2**30
TORCH_BRINGS = ("torch==", "triton==", "setuptools==")


def python_of(version: str, pip: Mapping[str, str] | None = None, python: str = sys.executable) -> Path:
    """The Python of an environment with that torch and the course's packages; makes it if there is none.

    `python` is the one to make it with. Where the index has no CPU build it takes a CUDA build, about 5 GB. `pip`:
    settings for pip's environment, where uv is not installed.
    """
    course = ROOT / ".venv/bin/python"
    if course.exists() and (version, release(python)) == (installed(course), release(course)):
        return course
    folder = folder_of(version, python)
    ready = folder / "bin/python"
    if ready.exists() and installed(ready) == version:
        return ready
    free = shutil.disk_usage(ROOT).free
    if free < SPACE:
        sys.exit(f"torch {version} needs {SPACE >> 30} GB of disk, and {free >> 30} GB are free.")
    subprocess.run([python, "-m", "venv", folder], check=True)
    with tempfile.TemporaryDirectory() as name:
        wanted = Path(name, "course.txt")
        lock = (ROOT / "requirements/course.lock").read_text().splitlines(keepends=True)
        wanted.write_text(
            "".join(line for line in lock if not line.startswith(("torch==", "triton==", "setuptools==")))
        )
        packages = [f"torch=={version}", "pytest", "pytest-timeout", "-r", str(wanted)]
        _install(ready, packages, pip or {})
    return ready


def _install(python: Path, packages: Iterable[str], pip: Mapping[str, str]) -> None:
    """With uv, which keeps each wheel once for all environments; else with pip."""
    uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if uv is None:
        command = [str(python), "-m", "pip", "install", "--quiet", "--no-cache-dir", *packages]
        subprocess.run(command, env=os.environ | pip, check=True)
        return
    command = [uv, "pip", "install", "--quiet", "--python", str(python), *packages]
    cpu = subprocess.run([*command, "--torch-backend=cpu"], stderr=subprocess.DEVNULL, check=False)
    if cpu.returncode:
        subprocess.run(command, check=True)


def folder_of(version: str, python: str = sys.executable) -> Path:
    """``.venv-2.15.0``; with another Python than this one ``.venv-2.15.0-3.12``."""
    other = release(python)
    return ROOT / (f".venv-{version}" + ("" if other == release(sys.executable) else f"-{other}"))


def installed(python: Path) -> str:
    """Version of torch in that environment, ``2.13.0``; empty if there is none."""
    return _said(python, "import importlib.metadata as m; print(m.version('torch').split('+')[0])")


def release(python: str | Path) -> str:
    """``3.12`` for a Python 3.12.1."""
    return _said(python, "import sys; print('%d.%d' % sys.version_info[:2])")


def _said(python: str | Path, program: str) -> str:
    return subprocess.run([str(python), "-c", program], capture_output=True, text=True).stdout.strip()


def remove(version: str, python: str = sys.executable) -> None:
    """Remove what `python_of` made."""
    shutil.rmtree(folder_of(version, python), ignore_errors=True)


def pip_settings(given: Iterable[str]) -> dict[str, dict[str, str]]:
    """``VERSION:NAME=VALUE`` for each, to version, name and value."""
    settings: dict[str, dict[str, str]] = {}
    for one in given:
        version, _, rest = one.partition(":")
        name, _, value = rest.partition("=")
        settings.setdefault(version, {})[name] = value
    return settings
