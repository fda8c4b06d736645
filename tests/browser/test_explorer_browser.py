"""The explorer where learners meet it: JupyterLab, an exported page, a file, without script, by keyboard."""

import sys
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from nbconvert import HTMLExporter

from compilescope.explorer import explore, save_html
from compilescope.facts import Graph

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
import explorer_runs as runs
from test_explorer_targets import elsewhere as recorded_elsewhere

CELL = """from pathlib import Path
from compilescope.explorer import show
from compilescope.facts import Run
show(Run.from_json(Path("run.json").read_text()))"""


@pytest.fixture
def saved(tmp_path):
    """Address of the saved explorer of a run."""

    def saved(run, **options):
        return save_html(run, tmp_path / "page.html", **options).as_uri()

    return saved


def notebook(view=None):
    cell = nbformat.v4.new_code_cell(CELL)
    if view is not None:
        data = view._repr_mimebundle_()
        cell.outputs = [nbformat.v4.new_output("display_data", data=data)]
    return nbformat.v4.new_notebook(
        cells=[cell], metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    )


def labels(page, selector="g.n.sel"):
    return page.eval_on_selector_all(selector, "list => list.map(e => e.node.label)")


def test_in_jupyterlab_running_the_cell_draws_the_graph_and_a_click_links_it_to_its_line(
    lab, open_page, run_cell, shot
):
    folder, address = lab
    (folder / "run.json").write_text(runs.fused_run().to_json())
    nbformat.write(notebook(), folder / "lesson.ipynb")
    page = open_page(address("lesson.ipynb"), 1280, 900)
    run_cell(page)
    page.wait_for_selector(".jp-OutputArea .cs svg g.n", timeout=60_000)
    assert page.locator(".cs svg g.n").count() == 7
    page.click(".cs g.n[aria-label^='relu']")
    assert page.locator(".cs .src .l.sel").get_attribute("data-l") == "2"
    assert "kernel 2" in page.locator(".cs g.n.sel").get_attribute("aria-label")
    shot(page, "jupyterlab_trusted")


def test_in_jupyterlabs_dark_theme_the_explorer_is_dark(lab, open_page, run_cell, shot):
    folder, address = lab
    theme = folder / ".config/lab/user-settings/@jupyterlab/apputils-extension/themes.jupyterlab-settings"
    theme.parent.mkdir(parents=True)
    theme.write_text('{"theme": "JupyterLab Dark"}')
    (folder / "run.json").write_text(runs.fused_run().to_json())
    nbformat.write(notebook(), folder / "dark.ipynb")
    page = open_page(address("dark.ipynb"), 1280, 900)
    run_cell(page)
    page.wait_for_selector(".jp-OutputArea .cs svg g.n", timeout=60_000)
    theme.unlink()
    assert page.locator(".cs").get_attribute("data-dark") == "true"
    background = page.locator(".cs").evaluate("e => getComputedStyle(e).backgroundColor")
    assert max(map(int, background[4:-1].split(","))) < 90
    shot(page, "jupyterlab_dark")


def test_in_an_untrusted_notebook_the_picture_is_shown_and_nothing_spills(lab, open_page, shot):
    folder, address = lab
    nbformat.write(notebook(explore(runs.broken_run())), folder / "downloaded.ipynb")
    page = open_page(address("downloaded.ipynb"), 1280, 900)
    page.wait_for_selector(".jp-OutputArea img", timeout=60_000)
    page.wait_for_function("document.querySelector('.jp-OutputArea img').naturalWidth > 300")
    assert page.locator(".jp-OutputArea .cs").count() == 0
    visible = page.locator(".jp-OutputArea-output").first.inner_text()
    assert len(visible) < 200
    assert "{" not in visible
    shot(page, "jupyterlab_untrusted")


def test_an_exported_page_is_interactive_without_a_network(tmp_path, open_page, shot):
    html, _ = HTMLExporter().from_notebook_node(notebook(explore(runs.broken_run())))
    (tmp_path / "lesson.html").write_text(html)
    page = open_page((tmp_path / "lesson.html").as_uri())
    page.wait_for_selector(".cs svg g.n")
    assert page.locator(".cs .seam.break").count() == 1
    page.click(".cs .seam.break")
    assert page.locator(".cs .src .l.sel").get_attribute("data-l") == "3"
    shot(page, "nbconvert")


def test_a_saved_page_asks_for_nothing_from_outside(saved, open_page, shot):
    page = open_page(saved(runs.fused_run()))
    page.wait_for_selector(".cs svg g.n")
    shot(page, "saved_page")
    assert page.asked == []


def test_without_javascript_the_picture_and_the_text_are_there(saved, open_page, shot):
    page = open_page(saved(runs.broken_run()), java_script_enabled=False)
    assert page.locator("img").bounding_box()["width"] > 300
    assert page.locator("details pre").inner_text() == "" or page.locator("details").count() == 1
    shot(page, "no_javascript")


def test_paper_gets_the_whole_graph(saved, open_page, shot):
    page = open_page(saved(runs.broken_run()), 900, 700)
    page.wait_for_selector(".cs svg g.n")
    page.emulate_media(media="print")
    body = page.locator(".cs .graph .body")
    assert body.evaluate("e => e.scrollHeight <= e.clientHeight + 1")
    shot(page, "print")


def test_pointing_at_a_line_lights_its_nodes_its_kernel_and_its_code(saved, open_page, shot):
    page = open_page(saved(runs.fused_run()))
    page.hover(".cs .src .l[data-l='4']")
    assert sorted(labels(page)) == ["add", "mul"]
    assert labels(page, "g.n.kin") == ["relu"]
    assert page.locator(".cs .chip.on").count() == 1
    assert page.locator(".cs .code .l.kin").count() > 3
    shot(page, "pointing")
    page.hover(".cs .head")
    assert labels(page) == []


def test_pointing_at_a_code_line_lights_the_one_node_it_computes(saved, open_page):
    page = open_page(saved(runs.fused_run()))
    page.hover(".cs .code .l[data-l='7']")
    assert labels(page) == ["relu"]
    assert page.locator(".cs .src .l.sel").get_attribute("data-l") == "2"


def test_pointing_at_a_kernel_lights_what_it_fused(saved, open_page):
    page = open_page(saved(runs.fused_run()))
    page.hover(".cs .chip >> nth=1")
    assert sorted(labels(page, "g.n.kin")) == ["add", "mul", "relu"]


def test_fused_nodes_share_color_number_and_outline(saved, open_page):
    page = open_page(saved(runs.fused_run()))
    color = "list => list.map(e => getComputedStyle(e.querySelector('rect')).stroke)"
    fused = page.eval_on_selector_all("g.n[aria-label*='kernel 2']", color)
    other = page.eval_on_selector_all("g.n[aria-label*='kernel 1']", color)
    assert len(fused) == 3
    assert len(set(fused)) == 1
    assert set(fused).isdisjoint(other)
    assert page.locator("svg text.ot").text_content() == "2 · 3 ops fused"


def test_everything_is_reached_by_keyboard(saved, open_page, shot):
    page = open_page(saved(runs.fused_run()))
    page.wait_for_selector(".cs svg g.n")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('g.n')"):
            break
    seen = []
    for key in ("ArrowDown", "ArrowDown", "ArrowUp"):
        seen += labels(page)
        page.keyboard.press(key)
    assert seen + labels(page) == ["mm", "relu", "mul", "relu"]
    assert "relu" in page.locator(".cs [aria-live]").inner_text()
    shot(page, "keyboard")
    page.keyboard.press("Escape")
    assert labels(page) == []


def test_search_finds_nodes_and_says_how_many(saved, open_page):
    page = open_page(saved(runs.fused_run()))
    page.fill(".cs input", "arg")
    assert len(labels(page)) == 2
    assert "2 nodes match" in page.locator(".cs [aria-live]").inner_text()
    page.fill(".cs input", "nothing like this")
    assert "No node matches" in page.locator(".cs [aria-live]").inner_text()


def test_names_that_hold_html_stay_text_in_every_pane(saved, open_page):
    nasty = "<img src=x onerror=document.title='hacked'>"
    graph = Graph("dynamo", "0/0", (runs.entry(nasty), runs.call("y", nasty, (nasty,), 1), runs.result("y")), nasty)
    run = runs.broken_run()
    stop = replace(run.breaks[0], reason=nasty, source=replace(run.breaks[0].source, code=nasty))
    first = replace(run.compiles[0], function=nasty, graphs=(graph,))
    run = replace(run, compiles=(first, run.compiles[1]), breaks=(stop,), sources={runs.CELL: nasty}, notes=(nasty,))
    page = open_page(saved(run))
    page.wait_for_selector(".cs svg g.n")
    for spot in (".cs g.n.c", ".cs .src .l", ".cs .seam"):
        page.locator(spot).first.click()
    assert page.locator("img").count() == 0
    assert page.title() != "hacked"


def test_a_run_without_source_still_shows_its_graph(saved, open_page):
    page = open_page(saved(replace(runs.fused_run(), sources={})))
    page.wait_for_selector(".cs svg g.n")
    assert page.locator(".cs .src").is_hidden()
    assert page.locator(".cs .graph").bounding_box()["width"] > 450


def test_stages_and_targets_have_tabs(saved, open_page):
    page = open_page(saved(runs.both_targets_run()))
    assert page.locator(".cs [role=tablist][aria-label=Target] [role=tab]").all_inner_texts() == [
        "this CPU",
        "NVIDIA H100 (pretended)",
    ]
    page.click("text=NVIDIA H100 (pretended)")
    assert "pretended" in page.locator(".cs .origin").inner_text()
    page.click(".cs [role=tab]:has-text('Dynamo')")
    assert page.locator(".cs svg").get_attribute("aria-label").startswith("Graph 1, Dynamo")


def test_a_recorded_target_is_linked_to_the_learners_lines_and_says_where_it_is_from(saved, open_page, shot):
    page = open_page(saved(runs.both_targets_run(), others=[recorded_elsewhere()]))
    names = page.locator(".cs [role=tablist][aria-label=Target] [role=tab]").all_inner_texts()
    assert names == ["this CPU", "NVIDIA H100 (pretended)", "NVIDIA H200, recorded"]
    page.click("text=NVIDIA H200, recorded")
    assert "recorded on NVIDIA H200" in page.locator(".cs .origin").inner_text()
    assert "took 44.7 µs" in page.locator(".cs .chip >> nth=1").inner_text()
    page.hover(".cs .src .l[data-l='4']")
    assert sorted(labels(page)) == ["add", "mul"]
    shot(page, "three_targets")


def test_each_part_of_a_graph_that_ddp_cut_is_reached_and_linked_to_its_own_kernel(saved, open_page, shot):
    page = open_page(saved(runs.cut_run()))
    assert page.locator(".cs .jump:not(.cut)").all_inner_texts() == ["1 part 1", "1 part 2"]
    page.click(".cs .jump >> text='1 part 2'")
    page.locator(".cs g.n[aria-label^='relu']").nth(1).click()
    assert page.locator(".cs .src .l.sel").get_attribute("data-l") == "4"
    assert "kernel 2" in page.locator(".cs g.n.sel").get_attribute("aria-label")
    shot(page, "parts")
    page.click(".cs [role=tablist] >> text='Dynamo'")
    assert page.locator(".cs .absent").inner_text() == "the backend cut the Dynamo graph above into 2 parts"


def test_equal_blocks_show_once_and_open_on_demand(saved, open_page, shot):
    page = open_page(saved(runs.layered_run(24)))
    assert page.locator(".cs svg g.n").count() < 12
    assert "×24 · layers.0 … 23" in page.locator(".cs svg text.ot").text_content()
    shot(page, "folded")
    page.click("text=/open the blocks/")
    assert page.locator(".cs svg g.n.c").count() == 24 * 5 + 1
    y = page.eval_on_selector_all("g.n.c", "list => list.map(e => e.node.y)")
    assert len(set(y)) == len(y)
    shot(page, "unfolded")
    page.click("text=/fold equal blocks/")
    assert page.locator(".cs svg g.n").count() < 12


def test_nothing_compiled_is_said_loudly_at_the_line(saved, open_page, shot):
    page = open_page(saved(runs.uncompiled_run()))
    assert "Move print out of the loop." in page.locator(".cs .loud").inner_text()
    assert page.locator(".cs .src .l.cut").get_attribute("data-l") == "3"
    assert page.locator(".cs .graph").is_hidden()
    shot(page, "nothing_compiled")


@pytest.mark.parametrize(("scheme", "width"), [("dark", 1200), ("dark", 800), ("light", 800), ("light", 480)])
def test_themes_and_widths_show_every_pane_without_a_sideways_scroll_of_the_page(saved, open_page, shot, scheme, width):
    page = open_page(saved(runs.fused_run()), width, 900, color_scheme=scheme)
    page.wait_for_selector(".cs svg g.n")
    for pane in ("src", "graph", "code"):
        assert page.locator(f".cs .{pane}").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    background = page.locator(".cs").evaluate("e => getComputedStyle(e).backgroundColor")
    assert (max(map(int, background[4:-1].split(","))) < 90) == (scheme == "dark")
    shot(page, f"{scheme}_{width}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("make", ["fused_run", "broken_run", "uncompiled_run"])
def test_axe_has_no_serious_finding(saved, open_page, scheme, make):
    page = open_page(saved(getattr(runs, make)()), color_scheme=scheme)
    page.wait_for_selector(".cs .head")
    found = Axe().run(page).response["violations"]
    serious = [
        (v["id"], v["nodes"][0]["html"][:160], v["nodes"][0]["failureSummary"][:200])
        for v in found
        if v["impact"] in ("serious", "critical")
    ]
    assert serious == []


def test_pointing_answers_within_a_frame_in_a_graph_of_2000_nodes(saved, open_page, shot):
    page = open_page(saved(runs.layered_run(285), fold=False))
    page.wait_for_selector(".cs svg g.n")
    assert page.locator(".cs svg g.n").count() > 1900
    spent = page.evaluate("""() => {
      const all = [...document.querySelectorAll("g.n.c")], times = [];
      for (let i = 0; i < 40; i++) {
        const g = all[i * 31 % all.length], t = performance.now();
        g.dispatchEvent(new PointerEvent("pointerover", {bubbles: true, pointerType: "mouse"}));
        times.push(performance.now() - t);
      }
      return times.sort((a, b) => a - b)[20];
    }""")
    shot(page, "2000_nodes")
    print(f"pointing: {spent:.1f} ms (median)")
    assert len(labels(page)) == 1
