"""`doctor`: silent on a good machine; each fault, simulated, gets one line with its remedy."""

import argparse
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autograder import learner, machine, toolchain
from autograder.__main__ import main


@pytest.fixture(autouse=True)
def course_cache(tmp_path, monkeypatch):
    """A course cache of its own: what another run remembered must not answer."""
    monkeypatch.setattr(toolchain, "CACHE", tmp_path / "course")
    monkeypatch.setattr(learner, "RUNNING", tmp_path / "running")
    return tmp_path


def fake_version(monkeypatch, package, version):
    real = importlib.metadata.version

    def lookup(name):
        if name != package:
            return real(name)
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", lookup)


def fake_compiler(folder, monkeypatch, script):
    program = folder / "g++"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("CXX", str(program))


def test_a_good_machine_hears_nothing(capsys):
    machine.doctor()
    assert capsys.readouterr().out == ""


def test_the_table_has_all_rows_and_none_fails(capsys):
    assert main(["doctor", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    names = [row["name"] for row in rows]
    wanted = ["Python", "torch", "Compile cache", "Free disk", "C++ compiler", "triton", "GPU", "Jupyter widgets"]
    assert names == wanted
    assert not [row for row in rows if row["state"] == "fails"]


@pytest.mark.parametrize(("version", "age"), [("2.9.1+cpu", "old"), ("2.16.0", "new"), ("3.0.0a0", "new")])
def test_a_torch_outside_the_range_is_named_with_the_range(monkeypatch, capsys, version, age):
    fake_version(monkeypatch, "torch", version)
    machine.doctor()
    said = capsys.readouterr().out
    assert f"✗ torch: {version} is too {age} (2.11 to 2.15). Run: make clean lab" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("version", ["2.11.0", "2.13.0+cpu", "2.15.3+cu130"])
def test_a_torch_in_the_range_is_fine(monkeypatch, version):
    fake_version(monkeypatch, "torch", version)
    assert machine.look_at_torch().state == "ok"


@pytest.fixture
def unimportable(monkeypatch):
    """``unimportable("torch")`` makes its import fail as that of a damaged installation does."""
    real = importlib.import_module

    def unimportable(package):
        def load(name, package_of=None):
            if name == package:
                raise OSError(f"lib{package}.so: cannot open shared object file")
            return real(name, package_of)

        monkeypatch.setattr(importlib, "import_module", load)

    return unimportable


def test_a_torch_that_cannot_be_imported_is_one_failing_row(unimportable, capsys):
    unimportable("torch")
    machine.doctor()
    (said,) = capsys.readouterr().out.splitlines()
    assert "cannot be imported (OSError: libtorch.so" in said
    assert "make clean lab" in said


def test_a_missing_torch_is_one_failing_row(unimportable, monkeypatch, capsys):
    fake_version(monkeypatch, "torch", None)
    unimportable("torch")
    machine.doctor()
    assert capsys.readouterr().out == "✗ torch: not installed. Run: make lab\n"


HIDES = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1:]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
from autograder.__main__ import main
sys.exit(main(["doctor"]))
"""


@pytest.mark.parametrize("missing", ["torch", "rich", "nbgrader", "ipywidgets", "numpy"])
def test_the_table_is_printed_whatever_else_is_broken(missing):
    done = subprocess.run([sys.executable, "-c", HIDES, missing], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert "C++ compiler" in done.stdout
    assert done.returncode == int(missing == "torch")


def test_an_old_python_is_named(monkeypatch):
    monkeypatch.setattr(machine.sys, "version_info", (3, 10, 4, "final", 0))
    row = machine.look_at_python()
    assert row.state == "fails"
    assert "PYTHON=" in row.remedy


def test_no_compiler_is_named_with_what_to_install(monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    machine.doctor()
    said = capsys.readouterr().out
    assert "✗ C++ compiler: g++ is not there. " in said
    assert "apt install g++" in said


def test_a_compiler_that_cannot_compile_is_named_by_its_own_words(monkeypatch, tmp_path):
    fake_compiler(tmp_path, monkeypatch, "echo 'g++: fatal error: cannot execute cc1plus' >&2; exit 1")
    row = machine.look_at_compiler()
    assert row.state == "fails"
    assert "cannot execute cc1plus" in row.found


def test_missing_headers_of_python_are_told_apart_from_a_missing_compiler(monkeypatch):
    monkeypatch.setattr(toolchain, "PROGRAM", toolchain.PROGRAM.replace("Python.h", "nowhere/Python.h"))
    row = machine.look_at_compiler()
    assert "headers are missing" in row.found
    assert f"python3.{sys.version_info.minor}-dev" in row.remedy


def test_a_compiler_that_makes_no_program_is_named(monkeypatch, tmp_path):
    fake_compiler(tmp_path, monkeypatch, 'for last; do :; done; echo garbage > "$last"')
    assert machine.look_at_compiler().state == "fails"


def test_the_compiler_is_tried_once_and_again_when_it_changed(monkeypatch, tmp_path):
    log = tmp_path / "log"
    real = shutil.which("g++")
    fake_compiler(tmp_path, monkeypatch, f'echo x >> {log}; exec {real} "$@"')
    assert machine.look_at_compiler().state == "ok"
    assert machine.look_at_compiler().state == "ok"
    assert log.read_text().count("x") == 1
    os.utime(tmp_path / "g++", (1, 1))
    assert machine.look_at_compiler().state == "ok"
    assert log.read_text().count("x") == 2


def test_a_failed_trial_is_not_remembered(monkeypatch, tmp_path):
    fake_compiler(tmp_path, monkeypatch, "exit 1")
    assert machine.look_at_compiler().state == "fails"
    assert machine.look_at_compiler().state == "fails"


@pytest.mark.parametrize(("system", "state"), [("linux", "fails"), ("darwin", "note")])
def test_a_missing_triton_stops_only_where_there_could_be_one(monkeypatch, system, state):
    fake_version(monkeypatch, "triton", None)
    monkeypatch.setattr(machine.sys, "platform", system)
    assert machine.look_at_triton().state == state


def test_missing_widgets_are_named(monkeypatch):
    fake_version(monkeypatch, "ipywidgets", None)
    assert machine.look_at_widgets().state == "fails"


def test_widgets_that_jupyterlab_does_not_know_are_named(monkeypatch, tmp_path):
    import jupyter_core.paths

    monkeypatch.setattr(jupyter_core.paths, "jupyter_path", lambda *parts: [str(tmp_path)])
    row = machine.look_at_widgets()
    assert row.state == "fails"
    assert "jupyterlab_widgets" in row.remedy


def test_a_full_disk_is_named_with_the_folder(monkeypatch):
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda folder: argparse.Namespace(free=3_000_000))
    row = machine.look_at_disk()
    assert row.state == "fails"
    assert row.found.startswith("0.0 GB at /")


def test_a_cache_that_cannot_be_written_is_named_with_another_way(monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(blocked / "cache"))
    row = machine.look_at_cache()
    assert row.state == "fails"
    assert "Set TORCHINDUCTOR_CACHE_DIR" in row.remedy


@pytest.mark.parametrize(
    ("build", "driver", "said"),
    [(None, "580.10", "make lab TORCH=cuda"), ("13.0", "470.1", "Update the NVIDIA driver"), (None, None, "")],
)
def test_a_gpu_that_cannot_be_used_is_a_note_and_stops_nobody(monkeypatch, build, driver, said):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", build)
    monkeypatch.setattr(machine, "_nvidia_driver", lambda: driver)
    row = machine.look_at_gpu()
    assert row.state == ("note" if said else "ok")
    assert said in row.remedy


def test_a_look_that_fails_is_a_row_and_no_traceback(monkeypatch, capsys):
    def look_at_moon():
        raise RuntimeError("no telescope")

    monkeypatch.setattr(machine, "LOOKS", (look_at_moon,))
    machine.doctor()
    assert "✗ moon: RuntimeError: no telescope." in capsys.readouterr().out


DIES = """
import os, sys
from pathlib import Path
from autograder import learner
learner.RUNNING = Path(sys.argv[1])
import autograder.exercises
name = autograder.exercises.everything()[0].name
learner.judge = lambda exercise, names: os._exit(9)
learner.check(name, {})
"""


def test_a_kernel_that_died_in_a_check_is_named_once_in_the_next_one(tmp_path, capsys):
    died = subprocess.run([sys.executable, "-c", DIES, str(tmp_path / "running")], capture_output=True, text=True)
    assert died.returncode == 9, died.stderr
    machine.doctor()
    said = capsys.readouterr().out
    assert "Python ended while it checked basic_1" in said
    assert "What you wrote is still in the notebook" in said
    assert "look there for exit()" in said
    assert len(said.splitlines()) == 1
    machine.doctor()
    assert capsys.readouterr().out == ""


def test_a_strange_file_beside_the_notes_stops_nobody(tmp_path):
    (tmp_path / "running").mkdir()
    (tmp_path / "running" / ".DS_Store").touch()
    assert list(learner.checks_that_died()) == []


def test_a_check_that_is_still_running_elsewhere_is_not_called_dead(tmp_path):
    (tmp_path / "running").mkdir()
    (tmp_path / "running" / str(os.getppid())).write_text("basic_2")
    assert list(learner.checks_that_died()) == []
    assert Path(tmp_path / "running" / str(os.getppid())).exists()
