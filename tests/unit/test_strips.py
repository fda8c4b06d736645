"""Several runs side by side: a sign for each call, what it cost, the guard that failed, and the cure beside it."""

import re

import pytest
import torch
from torch._dynamo import mark_dynamic

from compilescope import Run, observe, strips, would_recompile
from compilescope.facts import Call, Compile, Graph, Origin, Refusal
from compilescope.reading.breaks import make_refusal, read_guard_failure
from compilescope.text import describe_refusal

ORIGIN = Origin("live", "CPU", "2.13.0")
SIZE = Refusal("0/0", "tensor 'x' size mismatch at index 0. expected 4, actual 5", "x", "4", "5")


def made(*outcomes):
    calls = tuple(Call("f", one, 0.1, refusals=(SIZE,) if one == "recompile" else ()) for one in outcomes)
    compiled = [one for one in outcomes if one in ("first compile", "recompile")]
    graphs = (Graph("dynamo", "0/0", ()),)
    return Run(ORIGIN, calls=calls, compiles=tuple(Compile(f"0/{i}", "f", graphs=graphs) for i in range(len(compiled))))


MET = made("first compile", "recompile", "hit", "gave up")
CURED = made("first compile", "hit", "hit", "hit")


def cells(view, row):
    line = re.findall(r"<tr>(.*?)</tr>", view.html, re.S)[row]
    return [re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", line, re.S)]


def test_a_row_holds_signs_compiles_guard_and_its_cure():
    view = strips({"shape": MET, "left": MET}, cures={"shape": ("mark_dynamic", CURED)})
    assert cells(view, 1) == [
        "shape", "◆↻●■", "&#x27;x&#x27; size mismatch at index 0: compiled for 4, now 5", "mark_dynamic", "◆●●●",
    ]  # fmt: skip
    assert cells(view, 2)[-2:] == ["", ""]
    assert "shape: ◆↻●■ 2 compiles" in view.text
    assert "cure: mark_dynamic: ◆●●● 1 compile" in view.text


def test_labels_head_one_column_for_each_call_and_a_short_row_is_filled():
    view = strips({"all": MET, "some": made("first compile")}, labels=(5, 7, 9, 1))
    assert cells(view, 0) == ["", "5", "7", "9", "1", "compiles", "guard that failed"]
    assert cells(view, 2) == ["some", "◆", "", "", "", "1", ""]


def test_signs_have_words_for_a_screen_reader_and_a_legend_names_those_that_occur():
    view = strips({"a": MET})
    assert 'aria-label="call 2: recompile"' in view.html
    assert "gave up: the limit is reached" in re.sub(r"<[^>]+>", "", view.html)
    assert "the call raised" not in view.html


def test_names_stay_text_and_no_run_is_said():
    assert "<img" not in strips({"<img src=x>": MET}, cures={"<img src=x>": ("<img>", CURED)}).html
    assert strips({}).text


@pytest.mark.parametrize(
    ("text", "subject", "expected", "said"),
    [
        (
            "2 <= L['x'].size()[0]  # y = x + 1  # cell 3:2 in f (user code shown is first use of this value",
            "x.size()[0]", None, "2 <= x.size()[0]",
        ),
        ("2 <= L['x'].size()[0] <= 8", "x.size()[0]", None, "2 <= x.size()[0] <= 8"),
        ("L['lr'] == 0.09  # (_dynamo/output_graph.py:3375 in remove_tensorify)", "lr", "0.09", "lr == 0.09"),
        ("L['n'] == 3  # if n == 3:  # cell 3:2 in f (HINT: look)", "n", "3", "n == 3"),
    ],
)  # fmt: skip
def test_a_guard_is_read_without_torchs_remarks_and_a_range_is_no_value(text, subject, expected, said):
    refusal = read_guard_failure("0/0", text)
    assert (refusal.subject, refusal.expected, refusal.expression) == (subject, expected, said)


def test_a_range_and_a_long_float_are_told_shortly():
    bound = make_refusal("0/0", "2 <= x.size()[0]", actual="1")
    assert describe_refusal(bound) == "2 <= x.size()[0] was compiled in, and it is 1 now"
    rate = make_refusal("0/0", "lr == 0.1", actual="0.09000000000000001")
    assert describe_refusal(rate) == "lr was 0.1 when it was compiled, and is 0.09 now"


def test_requires_grad_is_told_as_then_and_now_and_a_part_of_a_module_by_its_path():
    grad = make_refusal("0/0", "tensor 'x' requires_grad mismatch. expected requires_grad=0", actual="a Tensor")
    assert (grad.expected, grad.actual) == ("False", "True")
    assert describe_refusal(grad) == "'x' requires_grad mismatch: compiled for False, now True"
    mode = make_refusal("0/0", "self._modules['drop'].training == True", actual="False")
    assert describe_refusal(mode) == "self.drop.training was True when it was compiled, and is False now"


def test_of_the_guards_on_open_sizes_only_those_that_fail_are_told():
    torch.compiler.reset()
    fast = torch.compile(lambda x: x / x.norm(dim=-1, keepdim=True), backend="aot_eager", dynamic=True)
    x = torch.ones(4, 5)
    mark_dynamic(x, 0, min=2, max=8)
    with observe():
        fast(x)
    (refusal,) = would_recompile(fast, torch.ones(9, 5)).refusals
    assert (refusal.subject, refusal.actual) == ("x.size()[0]", "9")
