"""my/: a learner's work is never overwritten, whatever happens to the course around it."""

import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest

from autograder import workspace
from autograder.__main__ import main
from autograder.build import lessons
from autograder.errors import CourseError

FIRST = "01_first/first.ipynb"


def notebook(*sources):
    cells = [nbformat.v4.new_code_cell(source, id=f"c{i}") for i, source in enumerate(sources)]
    return nbformat.writes(nbformat.v4.new_notebook(cells=cells))


def release(root, *sources, name=FIRST):
    path = root / "notebooks" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(notebook(*sources))
    shutil.copytree(workspace.ROOT / "assets" / "jupyterlab", root / "assets" / "jupyterlab", dirs_exist_ok=True)
    source = (root / "solutions" / name).with_suffix(".py")
    source.parent.mkdir(parents=True, exist_ok=True)
    source.touch()


@pytest.fixture
def root(tmp_path):
    release(tmp_path, "x = 1")
    return tmp_path


def mine(root, name=FIRST):
    return root / "my" / name


def test_the_first_start_copies_every_lesson(root):
    release(root, "y = 1", name="02_second/second.ipynb")
    assert workspace.hand_out(root) == []
    for name in (FIRST, "02_second/second.ipynb"):
        assert mine(root, name).read_bytes() == (root / "notebooks" / name).read_bytes()
    assert workspace.hand_out(root) == []


def test_an_untouched_notebook_follows_the_course(root):
    workspace.hand_out(root)
    release(root, "x = 2")
    assert workspace.hand_out(root) == [f"my/{FIRST} was untouched and is now the new version."]
    assert "x = 2" in mine(root).read_text()


def test_an_edited_notebook_stays_and_says_so_until_reset(root):
    workspace.hand_out(root)
    mine(root).write_text(notebook("x = 'my answer'"))
    assert workspace.hand_out(root) == []
    release(root, "x = 2")
    for _ in range(2):
        (said,) = workspace.hand_out(root)
        assert "holds your work and stays" in said
        assert "-m autograder reset 01_first" in said
        assert "my answer" in mine(root).read_text()


def test_outputs_are_work_and_metadata_is_none(root):
    workspace.hand_out(root)
    opened = nbformat.read(mine(root), 4)
    opened.metadata.language_info = {"name": "python", "version": "3.12"}
    nbformat.write(opened, mine(root))
    release(root, "x = 2")
    assert "was untouched" in workspace.hand_out(root)[0]
    ran = nbformat.read(mine(root), 4)
    ran.cells[0].outputs = [nbformat.v4.new_output("stream", text="a result of mine")]
    nbformat.write(ran, mine(root))
    release(root, "x = 3")
    assert "holds your work" in workspace.hand_out(root)[0]


def test_an_edit_that_equals_the_new_version_is_no_conflict(root):
    workspace.hand_out(root)
    mine(root).write_text(notebook("x = 2"))
    release(root, "x = 2")
    assert workspace.hand_out(root) == []


def test_without_the_ledger_a_notebook_that_differs_counts_as_work(root):
    workspace.hand_out(root)
    (root / "my" / workspace.LEDGER).write_text("{ damaged")
    release(root, "x = 2")
    assert "holds your work and stays" in workspace.hand_out(root)[0]
    assert "x = 1" in mine(root).read_text()


def test_invalid_json_is_named_with_its_line_and_kept(root):
    workspace.hand_out(root)
    broken = mine(root).read_text().replace('"cells": [', '"cells": [ <<<<<<< mine', 1)
    mine(root).write_text(broken)
    release(root, "x = 2")
    (said,) = workspace.hand_out(root)
    assert f"my/{FIRST} is not valid JSON from line 2 on. It stays as it is" in said
    assert "reset 01_first" in said
    assert mine(root).read_text() == broken


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "is not valid JSON"), (b"[]", "is no notebook"), (b'{"cells": "\xe9"}', "was not saved as UTF-8")],
)
def test_other_damage_is_named_and_kept(root, content, said):
    workspace.hand_out(root)
    mine(root).write_bytes(content)
    assert said in workspace.hand_out(root)[0]
    assert mine(root).read_bytes() == content


def test_reset_gives_a_fresh_lesson_and_keeps_dated_backups(root):
    workspace.hand_out(root)
    for answer in ("first try", "second try"):
        mine(root).write_text(answer)
        said = workspace.reset("01", root)
        assert "is fresh; what you had is backup-20" in said
        assert mine(root).read_bytes() == (root / "notebooks" / FIRST).read_bytes()
    backups = sorted(path.read_text() for path in mine(root).parent.glob("backup-20*.ipynb"))
    assert backups == ["first try", "second try"]
    assert workspace.hand_out(root) == []


def test_reset_of_a_fresh_lesson_makes_no_backup(root):
    workspace.hand_out(root)
    assert workspace.reset("first", root) == f"my/{FIRST} is fresh."
    assert len(list(mine(root).parent.iterdir())) == 1


def test_reset_of_an_unknown_lesson_names_the_nearest(root):
    with pytest.raises(CourseError, match="Did you mean 01_first"):
        workspace.reset("01_frist", root)


def test_no_lesson_built_says_how_to_build(tmp_path):
    with pytest.raises(CourseError, match="make build"):
        workspace.hand_out(tmp_path)


@pytest.fixture
def somebody():
    """A folder that others can reach, and this process without root's right to write everywhere."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    release(folder, "x = 1")
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    else:
        folder.chmod(0o555)
    yield folder
    if is_root:
        os.seteuid(0)
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode | stat.S_IRWXU)
    shutil.rmtree(folder)


def test_a_read_only_folder_gets_one_sentence(somebody):
    with pytest.raises(CourseError, match=r"Permission denied. Make .*my writable .* or copy the course"):
        workspace.hand_out(somebody)
    assert not (somebody / "my").exists()


def test_a_locked_folder_of_mine_loses_nothing(root):
    workspace.hand_out(root)
    mine(root).write_text(notebook("my answer"))
    for path in (root, *root.parents):
        if path.stat().st_uid == os.getuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o055)
    mine(root).parent.chmod(0o555)
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(65534)
    try:
        with pytest.raises(CourseError, match="Permission denied"):
            workspace.reset("01", root)
        assert "my answer" in mine(root).read_text()
    finally:
        if was_root:
            os.seteuid(0)
        mine(root).parent.chmod(0o755)


def test_a_full_disk_leaves_what_was_there(root, monkeypatch):
    workspace.hand_out(root)
    before = mine(root).read_bytes()
    release(root, "x = 2")

    def full(handle, mode):
        os.close(handle)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(workspace.os, "fdopen", full)
    with pytest.raises(CourseError, match="The disk is full"):
        workspace.hand_out(root)
    assert mine(root).read_bytes() == before
    assert [path.name for path in mine(root).parent.iterdir()] == ["first.ipynb"]


@pytest.fixture
def taken():
    """A port on which somebody else listens."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_a_taken_port_is_one_sentence_that_names_a_free_one(taken):
    with pytest.raises(CourseError, match=rf"^Port {taken} is taken, .*: make lab PORT=\d+$") as refused:
        workspace.require_port(taken)
    workspace.require_port(int(str(refused.value).rsplit("=", 1)[1]))


def test_a_port_that_does_not_exist_is_one_sentence():
    with pytest.raises(CourseError, match=r"Port 70000 does not exist. .* make lab PORT=\d+$"):
        workspace.require_port(70000)


def test_lesson_1_is_in_front(root):
    workspace.hand_out(root)
    command = workspace.lab_command(root, 8899, "none", lessons(root)[0])
    assert f"--LabApp.default_url=/lab/tree/{FIRST}" in command
    assert "--no-browser" in command
    assert "--ServerApp.port=8899" in command
    assert "--browser=firefox" in workspace.lab_command(root, 8899, "firefox", lessons(root)[0])


def test_jupyterlab_takes_the_settings_of_the_course_before_those_of_the_user(monkeypatch):
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "/of/the/user")
    first, second = workspace.lab_environment(workspace.ROOT)["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert second == "/of/the/user"
    settings = json.loads((Path(first) / "labconfig" / "page_config.json").read_text())
    assert settings["disabledExtensions"]["@jupyterlab/apputils-extension:announcements"]


def test_a_broken_first_lesson_opens_its_folder_instead(root):
    workspace.hand_out(root)
    mine(root).write_text("{")
    assert "--LabApp.default_url=/lab/tree/01_first" in workspace.lab_command(root, 8899, None, lessons(root)[0])


LAB = """
import sys
from pathlib import Path
from autograder import workspace
from autograder.build import lessons
workspace.ROOT = Path(sys.argv[1])
workspace.hand_out.__defaults__ = (workspace.ROOT,)
workspace.lessons = lambda root=workspace.ROOT: lessons(root)
import autograder.__main__
sys.exit(autograder.__main__.main(["lab", "--port", sys.argv[2], "--browser", "none"]))
"""


def test_make_lab_on_a_taken_port_ends_with_the_sentence_and_loses_nothing(root, taken):
    done = subprocess.run([sys.executable, "-c", LAB, str(root), str(taken)], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"Port {taken} is taken")
    assert len(done.stderr.splitlines()) == 1
    assert mine(root).exists()


def test_make_lab_serves_lesson_1(root, tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path / "log"
    command = [sys.executable, "-c", LAB, str(root), str(port)]
    with log.open("w") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out, env=os.environ | {"JUPYTER_TOKEN": "t"})
    try:
        wait_for(port, log, server)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/?token=t", timeout=30) as page:
            assert page.url.split("?")[0].endswith(f"/lab/tree/{FIRST}")
            hidden = json.loads(re.search(r'config-data"[^>]*>(.*?)</script>', page.read().decode(), re.S)[1])
            hidden = hidden["disabledExtensions"]
            assert {"@jupyterlab/apputils-extension:announcements", "@jupyter/nbgrader"} <= set(hidden)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/contents/{FIRST}?token=t", timeout=30) as answer:
            assert json.load(answer)["type"] == "notebook"
        assert "nbgrader" not in log.read_text()
    finally:
        server.terminate()
        server.wait(20)


def wait_for(port, log, server):
    for _ in range(300):
        with socket.socket() as probe:
            if not probe.connect_ex(("127.0.0.1", port)):
                return
        assert server.poll() is None, log.read_text()
        time.sleep(0.1)
    pytest.fail(log.read_text())


def test_the_command_line_says_one_sentence_and_no_traceback(capsys):
    assert main(["reset", "no_such_lesson"]) == 1
    said = capsys.readouterr()
    assert said.err.startswith('There is no lesson "no_such_lesson".')
    assert len(said.err.splitlines()) == 1
