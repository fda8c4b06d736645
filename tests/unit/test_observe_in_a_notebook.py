"""In a real kernel: cells have readable names and their text, and nothing is written to the cell's output."""

import json

import nbformat
import pytest
from nbclient import NotebookClient

CELLS = [
    "import torch\nfrom compilescope import observe",
    "def price(x):\n    y = torch.sin(x)\n    print(end='')\n    return y + 1",
    "with observe() as run:\n    torch.compile(price, backend='eager')(torch.ones(4))",
    # run again after the block and before anybody looks at the run: the cell has another number from here on
    "def price(x):\n    y = torch.sin(x)\n    print(end='')\n    return y + 1",
    """import json
print(json.dumps({
    "sources": run.sources,
    "break": [run.breaks[0].source.file, run.breaks[0].source.line],
    "call": [run.calls[0].source.file, run.calls[0].source.line],
    "nodes": sorted({node.source.file for _, node in run.walk_nodes("dynamo") if node.source}),
    "guards": sorted({guard.source.file for guard in run.compiles[0].guards if guard.source}),
    "text": run.graphs[0].text,
}))""",
]


@pytest.fixture(scope="module")
def told():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    return notebook


@pytest.fixture
def facts(told):
    return json.loads(told.cells[-1].outputs[0].text)


def test_a_fact_points_to_a_cell_by_its_number(facts):
    assert facts["break"] == ["cell 2", 3]
    assert facts["call"] == ["cell 3", 2]
    assert facts["nodes"] == ["cell 2"]


def test_the_text_of_the_cells_is_in_the_run(facts):
    assert facts["sources"]["cell 2"].strip() == CELLS[1]
    assert facts["sources"]["cell 3"].strip() == CELLS[2]


def test_no_temporary_file_name_is_left_anywhere(facts):
    assert "ipykernel" not in json.dumps(facts)
    assert "cell 2" in facts["guards"]


def test_observing_writes_nothing_into_the_cell(told):
    outputs = told.cells[2].outputs  # on a busy machine a line tells of the wait, and is empty afterwards
    assert [one for one in outputs if one.get("data", {}).get("text/html") != ""] == []
