"""The widgets that ask Python again, driven without a front end."""

import nbformat
import pytest
import torch
from nbclient import NotebookClient

from compilescope import observe
from compilescope.widgets.edit_and_compare import Editor
from compilescope.widgets.recompile_probe import Probe


def scaled(x, factor, flag):
    return x * factor if flag else x + factor


@pytest.fixture
def probe():
    torch.compiler.reset()
    compiled = torch.compile(scaled, backend="eager", dynamic=False)
    x = torch.ones(4, 8)
    compiled(x, 3, True)
    return Probe(compiled, x, 3, True)


def test_the_call_that_was_made_is_a_hit(probe):
    assert probe.verdict.outcome == "hit"


@pytest.mark.parametrize(
    ("change", "subject"),
    [
        (lambda p: setattr(p.controls[0].sizes[0], "value", 5), "x"),
        (lambda p: setattr(p.controls[0].dtype, "value", "float64"), "x"),
        (lambda p: setattr(p.controls[0].requires_grad, "value", True), "x"),
        (lambda p: setattr(p.controls[0].transposed, "value", True), "x"),
        (lambda p: setattr(p.controls[1].widgets[0], "value", 4), "factor"),
        (lambda p: setattr(p.controls[2].widgets[0], "value", False), "flag"),
    ],
    ids=["size", "dtype", "requires_grad", "stride", "int", "bool"],
)
def test_one_change_is_refused_by_the_guard_on_that_argument(probe, change, subject):
    change(probe)
    assert probe.verdict.outcome == "recompile"
    assert probe.verdict.refusals[0].subject == subject
    assert probe.text in probe._answer.value.replace("&#x27;", "'").replace("&gt;", ">")


def test_asking_compiles_and_calls_nothing(probe):
    with observe() as run:
        probe.controls[0].sizes[0].value = 7
    assert not run.calls
    assert not run.compiles


def test_an_argument_that_cannot_be_made_is_one_sentence(probe):
    probe.controls[0].dtype.value = "int64"
    probe.controls[0].requires_grad.value = True
    assert "only floating-point" in probe._answer.value


def test_changing_it_back_is_a_hit_again(probe):
    probe.controls[1].widgets[0].value = 9
    probe.controls[1].widgets[0].value = 3
    assert probe.verdict.outcome == "hit"


def test_a_function_that_is_not_compiled_is_refused():
    with pytest.raises(ValueError, match="is not compiled"):
        Probe(scaled, torch.ones(2), 1, True)


def shifted(x):
    y = x + 1
    return y.relu()


def test_an_edit_is_observed_and_compared_with_the_first_version():
    editor = Editor(shifted, torch.ones(3))
    assert len(editor.first.graphs) == 1
    editor.source.value = "def shifted(x):\n    y = x + 1\n    print(end='')\n    return y.relu()\n"
    editor.go()
    assert len(editor.run.graphs) == 2
    assert len(editor.run.breaks) == 1
    assert editor.run.breaks[0].source.line == 3
    assert "text/html" in editor.picture.outputs[0]["data"]
    assert "break" in editor.said.value


@pytest.mark.parametrize(
    ("text", "named"),
    [("def shifted(x) return", "SyntaxError"), ("def other(x): return x", "NameError"), ("1/0", "ZeroDivisionError")],
)
def test_an_error_in_the_edit_is_one_sentence_and_the_picture_stays(text, named):
    editor = Editor(shifted, torch.ones(3))
    before = editor.picture.outputs
    editor.source.value = text
    editor.go()
    assert named in editor.said.value
    assert editor.picture.outputs == before
    assert not editor.button.disabled


def test_a_compiled_function_or_one_without_source_is_refused():
    with pytest.raises(TypeError, match="plain function"):
        Editor(torch.compile(shifted, backend="eager"), torch.ones(3))
    with pytest.raises(TypeError, match=r"no source|plain function"):
        Editor(len, [])


HEADLESS = (
    "import torch\nfrom compilescope.recorded import recorded_modes\n"
    "from compilescope.widgets import break_it, mode_chooser, recompile_probe\n"
    "from autograder import hint, predict",
    "def shifted(x):\n    return (x + 1).relu()",
    "fast = torch.compile(shifted, backend='eager')\nfast(torch.ones(3))\nrecompile_probe(fast, torch.ones(3))",
    "break_it(shifted, torch.ones(3))",
    "mode_chooser(recorded_modes('modes'))",
    "predict('How many graphs?', [1, 2], lambda: 1)",
    "hint('basic_1')",
)


def test_in_a_kernel_without_a_front_end_each_widget_has_a_text_twin_and_nothing_goes_to_stderr(monkeypatch, tmp_path):
    """As nbgrader runs them: a graded notebook must not lose points to a widget that nobody can draw."""
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in HEADLESS])
    NotebookClient(notebook, timeout=180, startup_timeout=180).execute()
    outputs = [cell.outputs for cell in notebook.cells]
    assert not [one for cell in outputs for one in cell if one.output_type in ("stream", "error")]
    said = [[one.data["text/plain"] for one in cell if "text/plain" in one.get("data", {})] for cell in outputs]
    for number, words in ((2, "would not compile again"), (3, "1 graph"), (4, "calls"), (5, "Predict:"), (6, "Hint 1")):
        assert words in " ".join(said[number])
        assert "VBox(" not in " ".join(said[number])
