"""Every view where a learner meets it: both themes, without script, on paper, exported, and in an untrusted notebook.

One page holds them all, so that the browser starts seldom. What a page is made of is compared from run to run by
what a screen reader is told of it, in ``structures.json``: ``UPDATE_STRUCTURES=1`` writes that file anew.
"""

import json
import os
import re
from pathlib import Path

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from nbconvert import HTMLExporter

from compilescope import views
from compilescope.views.display import Display
from views_given import CASES, learner, students

STRUCTURES = Path(__file__).with_name("structures.json")
NAMES = [*CASES, "progress", "progress_of_a_class"]
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
FRAME = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Every view</title>
<style>html{{color-scheme:light dark}}body{{margin:16px;font-family:system-ui,sans-serif}}</style></head>
<body><main>{}</main></body></html>"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Name to view."""
    mine, theirs = learner(tmp_path_factory.mktemp("my")), students(tmp_path_factory.mktemp("class"))
    return {name: make() for name, make in CASES.items()} | {"progress": mine, "progress_of_a_class": theirs}


@pytest.fixture(scope="module")
def gallery(shown, tmp_path_factory):
    """Address of a page that holds every view, each in a section of its name."""
    page = tmp_path_factory.mktemp("gallery") / "views.html"
    sections = "".join(f'<section id="{name}" class="view">{view.html}</section>' for name, view in shown.items())
    page.write_text(FRAME.format(sections), encoding="utf-8")
    return page.as_uri()


def drawn(page):
    """Wait until each explorer has drawn itself."""
    page.wait_for_function("document.querySelectorAll('.cs .head').length === 3")
    return page


def test_each_view_that_is_exported_has_an_example_here():
    exported = {name for name in views.__all__ if name != "Display"}
    assert exported - set(CASES) == set(), "Add an example to tests/browser/views_given.py."


def test_each_view_has_a_text_twin_that_begins_with_its_title(shown):
    for name, view in shown.items():
        assert isinstance(view, Display)
        assert view.text.strip(), name
        first = view.text.splitlines()[0]
        assert first == view.title or name.startswith("explorer"), name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_view_is_seen_whole_in_both_themes_and_axe_has_no_serious_finding(gallery, open_page, scheme, shot_of):
    page = drawn(open_page(gallery, 1000, 800, color_scheme=scheme))
    assert page.evaluate("document.documentElement.scrollWidth") <= 1000
    for name in NAMES:
        view = page.locator(f"#{name} > div")
        box = view.bounding_box()
        assert (box["width"] > 400, box["height"] > 40) == (True, True), name
        ink, ground = colors(view)
        assert abs(light(ink) - light(ground)) > 0.5, f"{name}: {ink} on {ground}"
        assert (light(ground) < 0.35) == (scheme == "dark"), f"{name}: {ground}"
        shot_of(view, f"view_{name}_{scheme}")
    found = Axe().run(page).response["violations"]
    serious = [
        (v["id"], node["html"][:160], node["failureSummary"][:160])
        for v in found
        if v["impact"] in ("serious", "critical")
        for node in v["nodes"]
    ]
    assert serious == []
    assert page.asked == []


def test_a_narrow_page_scrolls_inside_a_view_not_as_a_whole(gallery, open_page):
    page = drawn(open_page(gallery, 420, 800))
    wide = page.evaluate(
        "[...document.querySelectorAll('section')].filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.id)"
    )
    assert wide == []


def test_the_structure_of_each_view_is_that_of_the_run_before(gallery, open_page):
    page = drawn(open_page(gallery, 1000, 800))
    found = {name: page.locator(f"#{name}").aria_snapshot().splitlines() for name in CASES}
    if os.environ.get("UPDATE_STRUCTURES"):
        STRUCTURES.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    kept = json.loads(STRUCTURES.read_text(encoding="utf-8"))
    changed = [name for name in CASES if found[name] != kept.get(name)]
    assert changed == [], "Look at it; if it is right: UPDATE_STRUCTURES=1 pytest tests/browser/test_views_browser.py"


def test_without_javascript_each_view_is_a_picture_or_a_table(gallery, open_page, shot):
    page = open_page(gallery, 1000, 800, java_script_enabled=False)
    for name in NAMES:
        assert readable(page.locator(f"#{name}")), name
    shot(page, "views_no_javascript")


def test_on_paper_nothing_of_a_view_is_cut_off(gallery, open_page, shot):
    page = drawn(open_page(gallery, 760, 1000))
    page.emulate_media(media="print")
    cut = page.evaluate(
        """[...document.querySelectorAll('section > div, section .body')].filter(e => {
          const style = getComputedStyle(e);
          return style.overflow !== 'visible' && e.scrollHeight > e.clientHeight + 1;
        }).map(e => e.closest('section.view').id)"""
    )
    assert cut == []
    shot(page, "views_print")


def test_in_an_exported_notebook_each_view_is_drawn_without_a_network(shown, tmp_path, open_page):
    html, _ = HTMLExporter().from_notebook_node(notebook(shown))
    (tmp_path / "views.html").write_text(html, encoding="utf-8")
    page = drawn(open_page((tmp_path / "views.html").as_uri(), 1200, 900))
    outputs = page.locator(".jp-OutputArea-output")
    assert outputs.count() == len(shown)
    for number, (name, view) in enumerate(shown.items()):
        assert shortened(view.title) in shortened(outputs.nth(number).inner_text()), name


def test_in_an_untrusted_notebook_each_view_is_a_picture_or_a_table(lab, shown, open_page, shot):
    folder, address = lab
    whole = folder / ".config/lab/user-settings/@jupyterlab/notebook-extension/tracker.jupyterlab-settings"
    whole.parent.mkdir(parents=True, exist_ok=True)
    whole.write_text('{"windowingMode": "none"}')  # else cells out of sight are not drawn
    nbformat.write(notebook(shown), folder / "views.ipynb")
    page = open_page(address("views.ipynb"), 1280, 900)
    there = f"document.querySelectorAll('.jp-OutputArea-output').length === {len(shown)}"
    page.wait_for_function(there, timeout=150_000)
    outputs = page.locator(".jp-OutputArea-output")
    for number, name in enumerate(shown):
        assert readable(outputs.nth(number)), name
    assert page.locator(".jp-OutputArea .cs").count() == 0
    text = page.locator(".jp-Notebook").inner_text()
    assert ".cv{" not in text
    assert "DecompressionStream" not in text
    shot(page, "views_untrusted")


def test_in_jupyterlab_the_hint_ladder_climbs_by_its_button_until_the_last_rung(lab, open_page, run_cell, shot):
    folder, address = lab
    cell = nbformat.v4.new_code_cell('from autograder import hint\nhint("basic_1")')
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata=KERNEL), folder / "hints.ipynb")
    page = open_page(address("hints.ipynb"), 1280, 700)
    run_cell(page)
    output = page.locator(".jp-CodeCell .jp-OutputArea").first
    output.get_by_text("Hint 1 of 3").wait_for(timeout=60_000)
    for rung in ("Hint 2 of 3", "Hint 3 of 3"):
        output.get_by_role("button", name=rung).click()
        output.locator(f"p:has-text('{rung}')").wait_for(timeout=20_000)
    assert output.locator("p").count() == 3
    assert output.get_by_role("button").count() == 0
    shot(page, "hint_ladder")


def notebook(shown):
    cells = []
    for name, view in shown.items():
        cell = nbformat.v4.new_code_cell(name)
        cell.outputs = [nbformat.v4.new_output("display_data", data=view._repr_mimebundle_())]
        cells.append(cell)
    return nbformat.v4.new_notebook(cells=cells, metadata=KERNEL)


def readable(place):
    """Whether there is a picture that was loaded, a table, or at least a sentence."""
    pictures = place.locator("img")
    if pictures.count():
        width, height = pictures.first.evaluate("e => e.decode().then(() => [e.naturalWidth, e.naturalHeight])")
        return width > 200 and height > 80
    return len(place.inner_text().split()) > 5


def shortened(text):
    return re.sub(r"\s+", " ", text)


def colors(view):
    """Ink and ground of a view, as (red, green, blue)."""
    found = view.evaluate("e => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor]")
    return [tuple(float(part) for part in re.findall(r"[\d.]+", one)[:3]) for one in found]


def light(color):
    """0 for black, 1 for white."""
    return sum(color) / 3 / 255


@pytest.fixture
def shot_of():
    """A function that keeps a screenshot of one view, to be looked at."""
    folder = Path(__file__).resolve().parents[2] / "artifacts" / "browser"
    folder.mkdir(parents=True, exist_ok=True)
    return lambda view, name: view.screenshot(path=folder / f"{name}.png")
