"""Which cells of a notebook an exercise needs to run."""

import nbformat
import pytest

from autograder.grading.cells import code_cells, needed


def places(sources, names, end=None):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    cells = code_cells(notebook)
    return [cell.place for cell in needed(cells, names, len(sources) if end is None else end)]


@pytest.mark.parametrize(
    ("sources", "wanted"),
    [
        (["import torch", "x = 1", "def f(x):\n    return torch.sin(x)"], [0, 2]),
        (["k = 2", "y = 1", "def f(x):\n    return k * x"], [0, 2]),
        (["run = 1", "run = 2", "def f(y):\n    return [run for run in y]"], [2]),
        (["def f(): pass", "def f(): return 1"], [1]),
        (["def f(): pass", "g = f", "f = g"], [0, 1, 2]),
        (["def f(): pass", "import m", "f = m.wrap(f)"], [0, 1, 2]),
        (["settings = {}", "settings['a'] = 1", "def f(): return settings"], [0, 1, 2]),
        (
            ["class Net: pass", "def forward(self): pass", "Net.forward = forward", "def f(): return Net()"],
            [0, 1, 2, 3],
        ),
        (["n = 0", "n += 1", "def f(): return n"], [0, 1, 2]),
        (["k = 1", "y = k", "k = 5", "def f(): return y + k"], [0, 1, 2, 3]),
        (["%matplotlib inline", "!ls", "f = 1"], [2]),
        (["from m import *", "f = 1"], [1]),
        (["this is no Python", "f = 1"], [1]),
        (["if True:\n    import a\nelse:\n    import b as a", "def f(): return a"], [0, 1]),
        (["for i in range(3):\n    last = i", "def f(): return last"], [0, 1]),
        (["with open('x') as h:\n    text = h.read()", "def f(): return text"], [0, 1]),
        (["@deco\ndef f(): pass", "def deco(g): return g"], [0, 1]),
        (["default = 3", "def f(x=default): return x", "default = 4"], [0, 1]),
    ],
)
def test_the_cells_that_define_f_and_what_they_use(sources, wanted):
    assert places(sources, ["f"]) == wanted


def test_what_stands_below_the_check_does_not_count():
    assert places(["f = 1", "check", "f = 2"], ["f"], end=1) == [0]
    assert places(["x = 1", "check", "f = 2"], ["f"], end=1) == []
