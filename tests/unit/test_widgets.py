"""The widgets that ask Python again, driven without a front end."""

import pytest
import torch

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
