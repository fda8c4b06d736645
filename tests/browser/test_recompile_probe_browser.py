"""The probe in JupyterLab: each control asks the guards, and the answer names the one that refuses."""

import nbformat
import pytest

CELL = """
import torch
from compilescope.widgets import recompile_probe

def soften(x, temperature=2.0):
    return (x / temperature).softmax(-1)

fast = torch.compile(soften, backend="eager")
fast(torch.ones(4, 6), 2.0), fast(torch.ones(5, 6), 2.0)
recompile_probe(fast, torch.ones(4, 6), 2.0)
"""


@pytest.fixture
def probe(lab, open_page, run_cell):
    """The page, and the output that holds the widget."""
    folder, address = lab
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    nbformat.write(
        nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL.strip())], metadata=kernel),
        folder / "probe.ipynb",
    )
    page = open_page(address("probe.ipynb"), 1280, 900)
    run_cell(page)
    output = page.locator(".jp-CodeCell .jp-OutputArea").first
    output.get_by_text("would not compile again").wait_for(timeout=60_000)
    return page, output


def test_each_control_is_asked_and_the_guard_that_refuses_is_named(probe, shot):
    page, output = probe
    rows, temperature = output.locator("input[type=number]").first, output.locator("input[type=number]").last

    def says(text):
        output.get_by_text(text).first.wait_for(timeout=20_000)

    rows.fill("400")
    rows.press("Tab")
    says("✓ hit")
    rows.fill("1")
    rows.press("Tab")
    says("2 <= x.size()[0]")
    shot(page, "recompile_probe")
    rows.fill("4")
    rows.press("Tab")
    says("would not compile again")
    output.locator("select").select_option("float64")
    says("dtype mismatch")
    output.locator("select").select_option("float32")
    says("would not compile again")
    output.get_by_text("transposed").click()
    says("stride")
    output.get_by_text("transposed").click()
    says("would not compile again")
    output.get_by_text("gradients on").click()
    says("grad_mode")
    output.get_by_text("gradients on").click()
    says("would not compile again")
    temperature.fill("3")
    temperature.press("Tab")
    says("temperature was 2.0 when it was compiled, and is 3.0 now")
