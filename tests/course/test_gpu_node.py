"""A GPU node without network: gathered here by bundle.sh, installed there by node.sh, and JupyterLab runs the course.

The node is an environment that has torch and nothing else; there is no GPU in it.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
import venv
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path

import pytest
from lab_started import free_port, started_lab
from untested import skip

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("autograder", "compilescope", "notebooks", "solutions", "assets", "requirements", "tests/gpu")
UNTESTED = "a GPU node without network"


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A copy of the course with the bundle in it, as it travels to the node."""
    folder = tmp_path_factory.mktemp("node") / "the course"
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    gathered = ran(folder, Path(sys.executable).parent, "tests/gpu/bundle.sh", python)
    if "from versions: none" in gathered.stderr:
        skip(f"No package index answers: {UNTESTED} was not tested.")
    assert gathered.returncode == 0, gathered.stderr
    return folder


@pytest.fixture(scope="module")
def programs(course):
    """The node's folder of programs, after node.sh."""
    node = course.parent / "python"
    venv.create(node, with_pip=True, symlinks=True)
    has = course.parent / "what the node has"
    has.mkdir()
    for name in ("torch", "triton"):
        for file in {Path(str(file)).parts[0] for file in distribution(name).files or ()} - {"..", "__pycache__"}:
            (has / file).symlink_to(distribution(name).locate_file(file))
    (packages,) = node.glob("lib/python*/site-packages")
    (packages / "torch.pth").write_text(f"{has}\n")
    # This machine's loader knows every driver already: node.sh has nothing to tell it.
    (node / "bin" / "ldconfig").write_text("#!/bin/sh\necho libcuda.so.1\n")
    (node / "bin" / "ldconfig").chmod(0o755)
    installed = ran(course, node / "bin", "tests/gpu/node.sh")
    assert installed.returncode == 0, installed.stderr
    assert "ready: torch" in installed.stdout
    return node / "bin"


def ran(folder, programs, *command):
    """`command` with these programs first, and no more of this process's Python."""
    return subprocess.run(
        ["bash", *command] if command[0].endswith(".sh") else [programs / command[0], *command[1:]],
        cwd=folder,
        env=environment(folder, programs),
        capture_output=True,
        text=True,
    )


def environment(folder, programs):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "JUPYTER", "VIRTUAL"))}
    own = {f"JUPYTER_{name}_DIR": str(folder / f".{name.lower()}") for name in ("CONFIG", "DATA", "RUNTIME")}
    return {**kept, **own, "PATH": f"{programs}:{os.environ['PATH']}"}


def test_the_doctor_finds_the_widgets(course, programs):
    said = ran(course, programs, "python3", "-m", "autograder", "doctor")
    assert "✓  Jupyter widgets" in said.stdout


def test_a_second_call_of_node_sh_installs_nothing_again(course, programs):
    site = programs.parent / "course-site"
    before = (site / "installed.lock").stat().st_mtime_ns
    assert ran(course, programs, "tests/gpu/node.sh").returncode == 0
    assert (site / "installed.lock").stat().st_mtime_ns == before


def test_jupyterlab_opens_the_course_and_its_kernel_knows_the_course(course, programs):
    python, around = programs / "python3", environment(course, programs)
    with (
        started_lab(course, python, around, free_port()) as address,
        urllib.request.urlopen(address, timeout=30) as page,
    ):
        settings = re.search(r'<script id="jupyter-config-data"[^>]*>(.*?)</script>', page.read().decode(), re.S)
    assert "assets not found" not in (course / "lab.log").read_text()
    extensions = {one["name"] for one in json.loads(settings[1])["federated_extensions"]}
    assert {"@jupyter-widgets/jupyterlab-manager", "anywidget"} <= extensions
    cell = "import autograder, compilescope; print(compilescope.__file__)"
    program = (
        "import nbformat.v4 as v4; from nbclient import NotebookClient; "
        f"book = v4.new_notebook(cells=[v4.new_code_cell({cell!r})]); "
        "NotebookClient(book, kernel_name='python3').execute(); print(book.cells[0].outputs[0].text)"
    )
    said = ran(course / "my" / "01_basic_compile", programs, "python3", "-c", program)
    assert said.stdout.strip() == str(course / "compilescope" / "__init__.py"), said.stderr


def test_a_bundle_for_another_python_is_refused_in_one_sentence(course, programs):
    with replaced(course / "gpu-bundle" / "bundle.lock", "# for Python 3.99\n"):
        said = refused(course, programs)
    assert said.endswith("make gpu-bundle NODE_PYTHON={}.{}".format(*sys.version_info))


def test_a_folder_without_a_bundle_is_refused_in_one_sentence(course, programs):
    with replaced(course / "gpu-bundle" / "bundle.lock", None):
        assert "make gpu-bundle" in refused(course, programs)


def test_a_python_without_torch_is_refused_in_one_sentence(course, programs, tmp_path):
    (tmp_path / "python3").write_text(f'#!/bin/sh\nexec "{programs}/python3" -S "$@"\n')  # no site, no packages
    (tmp_path / "python3").chmod(0o755)
    assert "has no torch" in refused(course, tmp_path)


def test_what_jupyter_has_on_the_node_stays_as_it_is(course, programs):
    share = programs.parent / "share" / "jupyter"
    ours = share.resolve()
    share.unlink()
    own = share / "labextensions" / "anywidget" / "package.json"
    own.parent.mkdir(parents=True)
    own.write_text("the node's")
    try:
        assert ran(course, programs, "tests/gpu/node.sh").returncode == 0
        assert own.read_text() == "the node's"
        assert (share / "labextensions" / "@jupyter-widgets" / "jupyterlab-manager" / "package.json").is_file()
    finally:
        shutil.rmtree(share)
        share.symlink_to(ours)


@contextmanager
def replaced(file, text):
    """The file with this text, or not there at all."""
    before = file.read_text()
    file.unlink()
    if text is not None:
        file.write_text(text)
    try:
        yield
    finally:
        file.write_text(before)


def refused(course, programs):
    """The one sentence that node.sh ends with."""
    said = ran(course, programs, "tests/gpu/node.sh")
    assert said.returncode == 1
    (sentence,) = said.stderr.splitlines()
    return sentence
