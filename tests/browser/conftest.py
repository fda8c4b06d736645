"""A real browser for the tests: Debian's Chromium with every outside host blocked, and a JupyterLab of its own."""

import os
import secrets
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from lab_started import free_port, server
from untested import require

ROOT = Path(__file__).resolve().parents[2]
ARTIFACTS = ROOT / "artifacts" / "browser"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LOCAL = ("http://127.0.0.1", "ws://127.0.0.1", "file:", "data:", "blob:", "about:")


@pytest.fixture(scope="session")
def chromium():
    """The running browser."""
    path = require("chromium", "what a learner sees in the browser")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium):
    """``open_page(url, width=1200, height=800, **context)`` gives a page; an error in its scripts fails the test.

    ``page.asked`` has what it wanted from outside, ``page.complaints`` the errors that its console shows.
    """
    contexts, problems, asked = [], [], []

    def open_page(url, width=1200, height=800, **options):
        context = chromium.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.asked, page.complaints = asked, []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: said.type == "error" and page.complaints.append(said.text))

        def gate(route):
            if route.request.url.startswith(LOCAL):
                route.continue_()
            else:
                asked.append(route.request.url)
                route.abort()

        page.route("**/*", gate)
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture
def shot():
    """A function that keeps a screenshot under artifacts/browser, to be looked at."""
    ARTIFACTS.mkdir(parents=True, exist_ok=True)

    def shot(page, name):
        page.screenshot(path=ARTIFACTS / f"{name}.png")

    return shot


@contextmanager
def jupyter_lab(folder):
    """JupyterLab on `folder`; yields a function from a notebook's path to its address."""
    port = free_port()
    token = secrets.token_hex(8)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "JUPYTER_CONFIG_DIR": str(folder / ".config"),
        "JUPYTER_DATA_DIR": str(folder / ".data"),
        "JUPYTER_RUNTIME_DIR": str(folder / ".runtime"),
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}", "--ip=127.0.0.1"]
    command += [
        f"--IdentityProvider.token={token}",
        f"--ServerApp.root_dir={folder}",
    ]
    quiet = folder / ".config" / "labconfig" / "page_config.json"
    quiet.parent.mkdir(parents=True)
    quiet.write_text('{"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": true}}')
    with server(command, folder, environment) as running:
        _wait_for(f"http://127.0.0.1:{port}/api/status?token={token}", running, folder / "lab.log")
        yield lambda path: f"http://127.0.0.1:{port}/lab/tree/{path}?token={token}&reset"


def _wait_for(url, running, log):
    for _ in range(720):  # 3 minutes: a busy machine takes one to import the server
        if running.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.25)
    pytest.fail(f"JupyterLab did not start: {log.read_text()[-2000:]}")


def _run_cell(page, index=0):
    """Run that code cell once the kernel listens; JupyterLab drops a cell that is run before."""
    page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=60_000)
    page.wait_for_selector("text=/ipykernel.*Idle/", timeout=60_000)
    cell = page.locator(".jp-CodeCell").nth(index)
    for _ in range(20):
        cell.locator(".cm-content").click()
        page.keyboard.press("Shift+Enter")
        page.wait_for_timeout(500)
        if cell.locator(".jp-InputPrompt").first.inner_text().strip("[]: \n"):
            return
    pytest.fail("The kernel never took the cell.")


@pytest.fixture
def run_cell():
    """A function that runs a code cell of the open notebook: ``run_cell(page, index=0)``."""
    return _run_cell


@pytest.fixture
def own_lab(tmp_path):
    """As `lab`, for one test alone: its kernels end with it."""
    with jupyter_lab(tmp_path) as address:
        yield tmp_path, address


@pytest.fixture(scope="module")
def lab_on():
    """`jupyter_lab`, for tests that bring a folder of their own."""
    return jupyter_lab


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """(folder, address): put a notebook into the folder, open ``address("name.ipynb")``."""
    folder = tmp_path_factory.mktemp("lab")
    with jupyter_lab(folder) as address:
        yield folder, address
