import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from compilescope.facts import Call, Compile, Guard, Phase, Refusal, Run, Saved, Source, Symbol
from compilescope.views import compare, compare_entries, guard_tree, kernel_bars, road, saved_bars, timeline
from compilescope.views.guard_words import plain_name, words

sys.path.insert(0, str(Path(__file__).parent))
import explorer_runs as runs

LINE = Source(runs.CELL, 2, "price", "y = torch.relu(x @ w)")
TENSOR = (
    "check_tensor(L['x'], Tensor, DispatchKeySet(CPU), torch.float32, device=None, requires_grad=False, "
    "size=[4, None], stride=[1])"
)
GUARDS = (
    Guard("TENSOR_MATCH", TENSOR, "L['x']", 2, LINE),
    Guard("EQUALS_MATCH", "L['mode'] == 'fast'", "L['mode']", 2, LINE),
    Guard("ID_MATCH", "___check_obj_id(G['torch'], 7), type=<class 'module'>", "G['torch']", 2),
    Guard("EQUALS_MATCH", "G['scale'] == 2.0", "G['scale']", 2),
    Guard("LAMBDA_GUARD", "2 <= L['x'].size()[1]  # return x", "", 0),
    Guard("GLOBAL_STATE", "___check_global_state()", "", 1),
)
CALLS = (
    Call("price", "first compile", 2.0, ("0/0",)),
    *(Call("price", "hit", 1e-5) for _ in range(20)),
    Call("price", "recompile", 1.0, ("0/1",), (Refusal("0/0", "mode == 'fast'", "mode", "'fast'", "'slow'", LINE),)),
    Call("price", "gave up", 1e-3),
)


def guarded_run():
    run = runs.recompiled_run()
    first, second = run.compiles
    other = tuple(replace(g, expression=g.expression.replace("fast", "slow")) for g in GUARDS)
    return replace(run, compiles=(replace(first, guards=GUARDS), replace(second, guards=other)))


def rows(view):
    return [re.sub(r"<[^>]+>", " ", row) for row in re.findall(r"<tr>(.*?)</tr>", view.html, re.S)]


def test_the_timeline_has_a_row_for_each_call_and_one_for_a_long_stretch_of_hits():
    view = timeline(Run(runs.ORIGIN, CALLS))
    assert view.title == "23 calls: 20 hits, 1 first compile, 1 recompile, 1 gave up"
    assert [r for r in rows(view) if "2 to 21" in r and "×20" in r]
    assert view.text.count("\n") == 24


def test_a_recompile_in_the_timeline_opens_to_the_value_then_and_now():
    view = timeline(Run(runs.ORIGIN, CALLS, sources={runs.CELL: runs.TEXT}))
    (opened,) = re.findall(r"<details>(.*?)</details>", view.html.replace("&#x27;", "'"), re.S)
    for said in ("0/0", "<code>'fast'</code>", "<code>'slow'</code>", "line 2"):
        assert said in opened


def test_outcomes_are_told_apart_without_color():
    signs = re.findall(r'class="tag"[^>]*>(.)', timeline(Run(runs.ORIGIN, CALLS)).html)
    assert signs == ["◆", "●", "↻", "■"]


def test_each_second_of_the_road_is_counted_in_one_step():
    phases = (
        Phase("dynamo", "0/0", 0.0, 10.0, 0),
        Phase("backend_compile", "0/0", 1.0, 8.0, 1),
        Phase("create_aot_dispatcher_function", "0/0", 1.0, 8.0, 2),
        Phase("inductor_compile", "0/0", 2.0, 6.0, 3),
        Phase("async_compile.wait", "0/0", 5.0, 2.0, 4),
        Phase("build_guards", "0/0", 9.5, 0.5, 1),
    )
    view = road(Run(runs.ORIGIN, phases=phases))
    assert view.title == "10.00 s of compiling"
    told = dict(re.findall(r"^([\w ]+): ([\d.]+) s", view.text, re.M))
    assert told == {
        "Dynamo": "1.50",
        "guards": "0.50",
        "AOTAutograd": "2.00",
        "Inductor": "4.00",
        "kernel compilers": "2.00",
    }


def test_guards_are_grouped_by_argument_in_words_and_housekeeping_is_only_counted():
    view = guard_tree(guarded_run())
    assert re.findall(r"<h4>([^<]+)</h4>", view.html)[:3] == ["x", "mode", "global scale"]
    first = " ".join(rows(view))
    for said in (
        "float32 tensor of size [4, any], no gradient",
        "equals",
        "any other value",
        "size where it is a number",
    ):
        assert said in first
    assert "2 guards of Dynamo" in view.html
    assert "2 &lt;= x.size(1)" in view.html


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("L['x']", "x"),
        ("L['self']._modules['up']._parameters['bias']", "self.up.bias"),
        ("L['sizes'][0]", "sizes[0]"),
        ("G['config'].scale", "config.scale"),
    ],
)
def test_a_subject_is_named_as_the_learner_wrote_it(subject, name):
    assert plain_name(subject) == name


def test_an_unknown_kind_of_guard_is_shown_as_it_is():
    assert words(Guard("NEW_MATCH", "L['x'].new == 1", "L['x']")).holds == "L['x'].new == 1"


def test_two_entries_differ_in_the_guard_that_made_the_recompile():
    view = compare_entries(*guarded_run().compiles)
    assert view.text.splitlines()[1] == "mode: equals 'fast' in 0/0, equals 'slow' in 0/1"
    assert "differ in 1 guards" in view.title


def test_compare_says_what_is_better_and_judges_no_seconds():
    view = compare(runs.broken_run(), runs.fused_run())
    assert "graph breaks: 1 → 0 (▼ 1 (-100%), better)" in view.text
    assert view.title.startswith("Better in graph breaks")
    assert compare(runs.fused_run(), runs.fused_run()).title == "The same compile twice"
    with pytest.raises(TypeError, match="two runs"):
        compare(runs.fused_run(), "other")


def test_saved_inputs_cost_nothing_more():
    run = runs.trained_run()
    saved = (Saved("x", "float32", (64, 256), 65536, is_input=True), Saved("le", "bool", (64, 256), 16384))
    view = saved_bars(replace(run, compiles=(replace(run.compiles[0], saved=saved),)))
    assert view.title == "16.4 kB kept for backward"
    assert [re.findall(r"(le|x|value) ", row)[0] for row in rows(view)] == ["value", "le", "x"]
    assert "an input: there anyway" in view.html


def test_a_dynamic_size_is_shown_with_its_range_and_where_it_was_lost():
    run = guarded_run()
    symbol = Symbol("s77", "L['x'].size()[0]", 8, 2, None, 8, LINE)
    run = replace(run, compiles=(replace(run.compiles[0], symbols=(symbol,)),))
    (row,) = [r for r in rows(guard_tree(run)) if "s77" in r]
    for said in ("at least 2", "fixed to 8", "line 2"):
        assert said in row


def test_kernel_bars_share_one_scale():
    view = kernel_bars(runs.fused_run())
    widths = [float(w) for w in re.findall(r'<i(?: class="w")? style="width:([\d.]+)%', view.html)]
    assert widths == pytest.approx([83.3, 16.7, 16.7, 16.7], abs=0.1)
    assert "reads 65.5 kB, writes 65.5 kB" in view.text


def test_a_floor_and_a_measured_time_are_shown_with_their_source():
    run = runs.fused_run()
    code = run.compiles[0].code[0]
    kernels = tuple(
        replace(k, floor_us=1.5, floor_source="131,072 bytes at 3.35 TB/s", time_us=2.25) for k in code.kernels
    )
    run = replace(run, compiles=(replace(run.compiles[0], code=(replace(code, kernels=kernels),)),))
    html = kernel_bars(run).html
    assert "1.5 µs" in html
    assert "2.25 µs (×1.5)" in html
    assert "Floor: the least time, at 3.35 TB/s." in html


@pytest.mark.parametrize("view", [timeline, road, guard_tree, kernel_bars, saved_bars])
def test_a_run_without_those_facts_says_so(view):
    shown = view(Run(runs.ORIGIN))
    assert shown.text
    assert "<p>" in shown.html


@pytest.mark.parametrize("view", [timeline, guard_tree, kernel_bars])
def test_names_that_hold_html_stay_text(view):
    nasty = "<img src=x onerror=alert(1)>"
    run = runs.fused_run()
    code = run.compiles[0].code[0]
    kernels = tuple(replace(k, name=nasty, nodes=(nasty,)) for k in code.kernels)
    compiled = Compile("0/0", nasty, guards=(Guard("EQUALS_MATCH", nasty, f"L['{nasty}']"),))
    compiled = replace(compiled, code=(replace(code, kernels=kernels),))
    assert nasty not in view(replace(run, calls=(Call(nasty, "hit", 1.0),), compiles=(compiled,))).html


@pytest.mark.parametrize("view", [timeline, road, guard_tree, kernel_bars])
def test_views_are_small_need_no_script_and_print_their_origin(view):
    shown = view(replace(guarded_run(), calls=CALLS, compiles=runs.fused_run().compiles))
    assert len(shown.html) < 20_000
    assert "<script" not in shown.html
    assert "http" not in shown.html
    assert "live on this CPU" in shown.html
    assert "live on this CPU" in shown.text
