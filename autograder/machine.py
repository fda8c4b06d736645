"""What this machine has and lacks for the course, each failing row with its remedy in one line."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from autograder.learner import checks_that_died
from autograder.toolchain import cache_folder, existing, trial

OLDEST_PYTHON = (3, 11)
OLDEST_TORCH, NEWEST_TORCH = (2, 11), (2, 15)
FREE_BYTES = 1_000_000_000
"""Room for one lesson's compiled kernels and notebooks, with a margin."""


MARKS = {"ok": "✓", "note": "–", "fails": "✗"}
COLORS = {"ok": "green", "note": "yellow", "fails": "red"}


@dataclass(frozen=True)
class Row:
    """One line of the table. A ``note`` is worth knowing and stops nobody."""

    name: str
    found: str
    state: Literal["ok", "note", "fails"] = "ok"
    remedy: str = ""


def doctor() -> None:
    """Silent when all is well; otherwise one line for each thing that will stop you, with its remedy."""
    for exercise in checks_that_died():
        print(f"✗ {what_died(exercise)}")
    for row in examine():
        if row.state == "fails":
            print(f"✗ {row.name}: {row.found}. {row.remedy}")


def what_died(exercise: str) -> str:
    """One sentence about a kernel that ended in the check of `exercise`."""
    return (
        f"Python ended while it checked {exercise}. What you wrote is still in the notebook: "
        "look there for exit(), an endless recursion or too much memory, then check again."
    )


def examine() -> Iterator[Row]:
    """All rows, in the order of the table. A look that itself fails becomes a failing row."""
    for look in LOOKS:
        try:
            yield look()
        except Exception as error:
            name = look.__name__.removeprefix("look_at_").replace("_", " ")
            yield Row(name, f"{type(error).__name__}: {error}", "fails", "Report this line as a problem of the course.")


def look_at_python() -> Row:
    """The running Python."""
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < OLDEST_PYTHON:
        return Row("Python", found, "fails", "Install Python 3.11 or newer, then: make clean lab PYTHON=python3.12")
    return Row("Python", found)


def look_at_torch() -> Row:
    """The installed torch: its version, and that it can be imported at all."""
    version = _version("torch")
    if version is None:
        return Row("torch", "not installed", "fails", "Run: make lab")
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if not OLDEST_TORCH <= numbers <= NEWEST_TORCH:
        found = f"{version} is too {'old' if numbers < OLDEST_TORCH else 'new'}"
        return Row(
            "torch", f"{found} ({_dotted(OLDEST_TORCH)} to {_dotted(NEWEST_TORCH)})", "fails", "Run: make clean lab"
        )
    trouble = _import_trouble("torch")
    if trouble:
        return Row("torch", f"{version} cannot be imported ({trouble})", "fails", "Run: make clean lab")
    return Row("torch", version)


def look_at_compiler() -> Row:
    """The C++ compiler that Inductor takes: one that really makes a shared object that really loads."""
    name = os.environ.get("CXX") or {"darwin": "clang++", "win32": "cl"}.get(sys.platform, "g++")
    program = shutil.which(name.split()[0])
    if program is None:
        return Row("C++ compiler", f"{name} is not there", "fails", _install_compiler())
    if sys.platform != "win32":
        trouble = trial(name)
        if trouble:
            return Row("C++ compiler", *trouble_with(name, trouble))
    return Row("C++ compiler", program)


def trouble_with(name: str, said: str) -> tuple[str, Literal["fails"], str]:
    """What is wrong, from the compiler's own words, and the remedy."""
    if "Python.h" in said:
        python = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return "Python's headers are missing", "fails", f"Debian, Ubuntu: apt install {python}-dev. Else: use conda."
    if "failed to map" in said or "Permission denied" in said:
        return f"the cache {cache_folder()} lets no program run", "fails", _other_cache()
    line = next((line for line in said.splitlines() if "error" in line), said.strip().splitlines()[-1] if said else "")
    return f"{name} cannot compile ({line[:100]})", "fails", _install_compiler()


def look_at_triton() -> Row:
    """Triton, which writes the GPU kernels that lessons show; only Linux has it."""
    version = _version("triton")
    if version is not None:
        return Row("triton", version)
    if sys.platform != "linux":
        return Row("triton", "not made for this system", "note", "A kernel's launch and basic_5 need Linux or WSL.")
    return Row("triton", "not installed", "fails", "Run: make clean lab")


def look_at_gpu() -> Row:
    """GPU and driver; a machine without them can do the whole course."""
    if _import_trouble("torch"):
        return Row("GPU", "cannot be seen without torch", "note", "Mend torch first.")
    import torch

    if torch.cuda.is_available():
        driver = _kernel_driver() or _nvidia_driver()
        found = f"{torch.cuda.get_device_name()}, driver {driver or 'unknown'}, CUDA {torch.version.cuda}"
        if torch.cuda.get_device_capability() < (7, 0):
            return Row("GPU", found, "note", "Triton needs a newer GPU (capability 7.0); lessons take the CPU's way.")
        return Row("GPU", found)
    driver = _nvidia_driver()
    if driver and torch.version.cuda is None:
        return Row("GPU", f"driver {driver}, but torch is the CPU build", "note", "To use it: make lab TORCH=cuda")
    if driver:
        found = f"driver {driver} does not serve CUDA {torch.version.cuda}"
        return Row("GPU", found, "note", "Update the NVIDIA driver.")
    return Row("GPU", "none needed; Triton code is made for a pretended H100")


def look_at_widgets() -> Row:
    """The widgets of predictions, and the part of them that JupyterLab loads."""
    if _version("ipywidgets") is None or _version("anywidget") is None:
        return Row("Jupyter widgets", "not installed", "fails", "Run: make clean lab")
    from jupyter_core.paths import jupyter_path

    folders = [Path(path) / "@jupyter-widgets" / "jupyterlab-manager" for path in jupyter_path("labextensions")]
    if not any(folder.exists() for folder in folders):
        remedy = "Run: pip install --force-reinstall jupyterlab_widgets, then start JupyterLab anew."
        return Row("Jupyter widgets", "unknown to JupyterLab", "fails", remedy)
    return Row("Jupyter widgets", f"ipywidgets {_version('ipywidgets')}")


def look_at_disk() -> Row:
    """Free room where compiled kernels go."""
    folder = existing(cache_folder())
    free = shutil.disk_usage(folder).free
    if free < FREE_BYTES:
        remedy = f"Free 1 GB there. Or: {_other_cache()}"
        return Row("Free disk", f"{free / 1e9:.1f} GB at {folder}", "fails", remedy)
    return Row("Free disk", f"{free / 1e9:.0f} GB")


def look_at_cache() -> Row:
    """Whether compiled kernels can be written."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return Row("Compile cache", f"{folder}: {error.strerror}", "fails", _other_cache())
    return Row("Compile cache", str(folder))


LOOKS: tuple[Callable[[], Row], ...] = (
    look_at_python,
    look_at_torch,
    look_at_cache,
    look_at_disk,
    look_at_compiler,
    look_at_triton,
    look_at_gpu,
    look_at_widgets,
)


def _kernel_driver() -> str | None:
    """What the kernel says, at once; nvidia-smi takes a second."""
    try:
        found = re.search(r"\b\d{3,}\.\d+(\.\d+)?\b", Path("/proc/driver/nvidia/version").read_text())
    except OSError:
        return None
    return found.group() if found else None


def _nvidia_driver() -> str | None:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return said.stdout.split("\n")[0].strip() or None if said.returncode == 0 else None


def _import_trouble(module: str) -> str:
    """Why `module` cannot be imported, in a few words; empty if it can."""
    try:
        importlib.import_module(module)
    except Exception as error:  # a broken installation raises anything: OSError, AttributeError, ImportError
        said = str(error).splitlines() or [""]
        return f"{type(error).__name__}: {said[0][:80]}"
    return ""


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _install_compiler() -> str:
    if sys.platform == "darwin":
        return "Run: xcode-select --install"
    if sys.platform == "win32":
        return "Use WSL (wsl --install), or Visual Studio's C++ build tools."
    return "Debian, Ubuntu: apt install g++. Fedora: dnf install gcc-c++. Without root: conda install cxx-compiler"


def _other_cache() -> str:
    return "Set TORCHINDUCTOR_CACHE_DIR to another folder and start again."


def main(args: argparse.Namespace) -> int:
    """``python -m autograder doctor``: the table; 1 if a row fails."""
    rows = list(examine())
    if args.json:
        print(json.dumps([vars(row) for row in rows], indent=1))
    else:
        show_table(rows)
        for exercise in checks_that_died(forget=False):
            print(what_died(exercise))
    return int(any(row.state == "fails" for row in rows))


def show_table(rows: list[Row]) -> None:
    """Print the rows; as plain lines where rich is missing, for that is when a doctor is called."""
    try:
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table
    except ImportError:
        for row in rows:
            print(f"{MARKS[row.state]} {row.name}: {row.found} {row.remedy}".rstrip())
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("", "what", "found", "what to do"):
        table.add_column(title, overflow="fold")
    for row in rows:
        mark = f"[{COLORS[row.state]}]{MARKS[row.state]}[/]"
        table.add_row(mark, row.name, escape(row.found), escape(row.remedy))
    Console().print(table)
