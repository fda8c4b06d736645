"""Lesson 1 as a learner begins: `autograder lab`, a browser, run all, an answer, a mistake."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from lab_started import free_port, started_lab

from autograder.exercises import of_lesson

ROOT = Path(__file__).resolve().parents[2]
LESSON = "01_basic_compile"
FRONT = f"/lab/tree/{LESSON}/basic_compile.ipynb"
PARTS = ("autograder", "compilescope", "solutions", "assets")
FIRST = of_lesson(LESSON)[0]
BUSY = "[...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].some(e => e.textContent.includes('*'))"


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A copy of the course with its notebooks built, as a learner has it."""
    folder = tmp_path_factory.mktemp("course")
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, "-m", "autograder", "build"], cwd=folder, env=environment(folder), check=True)
    return folder


def environment(folder):
    return {
        **os.environ,
        "PYTHONPATH": str(folder),
        "XDG_CACHE_HOME": str(folder / ".cache"),
        "JUPYTER_CONFIG_DIR": str(folder / ".config"),
        "JUPYTER_DATA_DIR": str(folder / ".data"),
        "JUPYTER_RUNTIME_DIR": str(folder / ".runtime"),
    }


@pytest.fixture(scope="module")
def lab_address(course):
    """Where the course's JupyterLab is."""
    with started_lab(course, sys.executable, environment(course), free_port()) as address:
        yield address


@pytest.fixture
def lesson(lab_address, open_page):
    """The page that opens, its kernel listening."""
    page = open_page(lab_address, 1400, 1000)
    page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=60_000)
    page.wait_for_selector("text=/ipykernel.*Idle/", timeout=60_000)
    yield page
    assert page.asked == []
    assert page.locator(".jp-Dialog, .Toastify__toast").count() == 0


def choose(page, menu, entry):
    page.locator(".lm-MenuBar-itemLabel", has_text=re.compile(f"^{menu}$")).click()
    page.locator(".lm-Menu-itemLabel", has_text=re.compile(f"^{entry}$")).click()
    settle(page)


def settle(page, seconds=300):
    """Wait until no cell is running or queued."""
    page.wait_for_timeout(500)
    page.wait_for_function(f"!({BUSY})", timeout=seconds * 1000)


def cell_with(page, text):
    return page.locator(".jp-CodeCell").filter(has=page.locator(".cm-content", has_text=text)).first


def output(cell):
    """All text below the cell, also while it is scrolled out of sight."""
    return cell.locator(".jp-OutputArea").text_content()


def run(page, cell):
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    settle(page)
    return output(cell)


def write(page, cell, code):
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(code.strip())
    return run(page, cell)


def test_the_lesson_draws_its_graph_and_judges_what_is_typed(lesson, shot):
    page = lesson
    assert FRONT in page.url
    solution = cell_with(page, f"def {FIRST.asks_for[0]}(")
    check = cell_with(page, f'check("{FIRST.name}")')

    choose(page, "Run", "Run All Cells")
    assert output(page.locator(".jp-CodeCell").first) == ""
    assert "is still to be written" in output(check)

    view = page.locator(".jp-OutputArea .cs svg").first
    view.scroll_into_view_if_needed()
    box = view.locator("g.n").first.bounding_box()
    assert min(box["width"], box["height"]) > 5
    assert view.locator("g.n").count() > 3
    shot(page, "lesson_01_explorer")

    write(page, solution, FIRST.alternatives[0])
    assert f"✓ {FIRST.name} · {FIRST.points} of {FIRST.points} points" in run(page, check)
    check.scroll_into_view_if_needed()
    shot(page, "lesson_01_passed")

    mistake = FIRST.known_mistakes[0]
    write(page, solution, mistake.code)
    said = run(page, check)
    assert f"✗ {FIRST.name} · 0 of {FIRST.points} points" in said
    assert mistake.says in said
    assert "Traceback" not in said
    shot(page, "lesson_01_mistake")
