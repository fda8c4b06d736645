import base64
import json
import re
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from compilescope.explorer import explore, save_html, show
from compilescope.explorer.coloring import CLOSE, MARKS, color_lines
from compilescope.explorer.folding import folds
from compilescope.explorer.layout import Box, place, separable
from compilescope.explorer.links import link
from compilescope.explorer.page import Page, data
from compilescope.explorer.pieces import place_large
from compilescope.explorer.static import still
from compilescope.explorer.story import chapters, headline, nothing
from compilescope.facts import Call, Graph, Run, Source
from compilescope.views.display import _ALPHABET

sys.path.insert(0, str(Path(__file__).parent))
import explorer_runs as runs


def test_nodes_of_one_kernel_stand_in_one_outline_that_says_how_many_are_fused():
    page = Page.of(runs.fused_run())
    picture = page.picture("0/0", "post_grad")
    (outline,) = picture.outlines
    inside = [
        s.label
        for s in picture.shapes
        if outline.x < s.x < outline.x + outline.width and outline.y < s.y < outline.y + outline.height
    ]
    assert inside == ["relu", "mul", "add"]
    assert outline.title == "3 ops fused"


def test_each_part_of_a_graph_that_the_backend_cut_is_drawn_with_its_own_kernels():
    run = runs.cut_run()
    page = Page.of(run)
    assert [chapter.name for chapter in page.chapters] == ["Graph 1 part 1", "Graph 1 part 2"]
    assert {key: [s.label for s in picture.shapes] for key, picture in page.pictures.items()} == {
        ("0/0, part 1 of 2", "dynamo"): ["x", "relu", "relu", "output"],
        ("0/0, part 1 of 2", "post_grad"): ["primals_1", "relu", "output"],
        ("0/0, part 2 of 2", "post_grad"): ["primals_1", "relu", "output"],
    }
    (target,) = data([page])["targets"]
    assert [[kernel[0] for kernel in part["k"]] for part in target["parts"]] == [
        ["cpp_fused_relu_0"],
        ["cpp_fused_relu_1"],
    ]
    assert [part["cut"] for part in target["parts"]] == ["", "the backend cut the Dynamo graph above into 2 parts"]
    assert "cut the graph of price into 2 parts" in explore(run).text
    picture = still(page)
    assert all(f"cpp_fused_relu_{part}" in picture for part in range(2))


def test_the_kernels_of_a_part_lead_to_its_own_line():
    first, second = Page.of(runs.cut_run()).chapters
    for chapter, line in ((first, 2), (second, 4)):
        (shape,) = [s for s in Page.of(runs.cut_run()).picture(chapter.key, "post_grad").shapes if s.kernels]
        assert (shape.source.line, shape.kernels) == (line, (0,))
        assert [one.part for one in chapter.compiled.saved] == [chapter.part]


def test_boxes_never_overlap():
    picture = Page.of(runs.fused_run()).picture("0/0", "post_grad")
    for a in picture.shapes:
        for b in picture.shapes:
            assert a is b or abs(a.y - b.y) >= 36 or abs(a.x - b.x) >= (a.width + b.width) / 2


def test_the_same_run_gives_the_same_bytes():
    assert explore(runs.fused_run()).html == explore(runs.fused_run()).html


def test_a_group_that_needs_its_own_result_from_another_one_does_not_stand_together():
    boxes = [Box("a", 10, 10, "one"), Box("b", 10, 10, "two"), Box("c", 10, 10, "one"), Box("d", 10, 10, "two")]
    assert separable(boxes, [("a", "b"), ("b", "c")]) == ["two"]
    assert place(boxes, [("a", "b"), ("b", "c")]).groups == {"two"}


def test_equal_blocks_are_shown_once_and_named_by_their_modules():
    run = runs.layered_run(24)
    (fold,) = folds(run.compiles[0].graphs[0])
    assert fold.count == 24
    assert fold.title == "×24 · layers.0 … 23"
    picture = Page.of(run).picture("0/0", "post_grad")
    assert len(picture.shapes) < 12
    assert picture.hidden["n23_4"] == "n0_4"
    assert ("n0_4", "last") in {(a, b) for a, b, _ in picture.edges}


def test_a_graph_of_many_hundred_boxes_is_laid_out_in_pieces_that_do_not_overlap():
    boxes = [Box(f"n{i}", 60, 36, f"k{i // 3}" if i % 7 else None) for i in range(900)]
    edges = [(f"n{i}", f"n{i + 1}") for i in range(899)] + [(f"n{i}", f"n{i + 4}") for i in range(0, 890, 5)]
    placed = place_large(boxes, [*edges, ("n3", "n800")])
    assert len(placed.centers) == 900
    assert len(placed.lines) == len(edges) + 1
    spots = sorted(placed.centers.values(), key=lambda c: c[1])
    near = [(a, b) for i, a in enumerate(spots) for b in spots[i + 1 : i + 12]]
    assert all(abs(a[1] - b[1]) >= 36 or abs(a[0] - b[0]) >= 60 for a, b in near)
    assert all(placed.centers[a][1] < placed.centers[b][1] for a, b in edges)
    assert len(placed.groups) > 200


def test_equal_blocks_are_found_without_module_names():
    (fold,) = folds(runs.layered_run(24, module=False).compiles[0].graphs[0])
    assert fold.count >= 23


def test_a_block_that_differs_ends_the_repetition():
    graph = runs.layered_run(24).compiles[0].graphs[0]
    nodes = tuple(replace(n, target="aten.gelu") if n.name == "n12_1" else n for n in graph.nodes)
    assert [fold.count for fold in folds(Graph("post_grad", "0/0", nodes))] == [12, 11]


def test_small_graphs_are_shown_whole():
    assert folds(runs.layered_run(5).compiles[0].graphs[0]) == []
    assert len(Page.of(runs.layered_run(24), fold=False).picture("0/0", "post_grad").shapes) == 24 * 7 + 3


def test_a_break_stands_in_front_of_the_graph_that_resumes_after_it():
    first, second = chapters(runs.broken_run())
    (seam,) = second.before
    assert not first.before
    assert not first.after
    assert (seam.tag, seam.source.line) == ("GB0059", 3)
    assert "line 3" in seam.title
    assert headline(runs.broken_run()) == "price: 2 graphs, 1 graph break"


def test_a_break_whose_frame_is_unknown_is_not_lost():
    run = runs.broken_run()
    stop = replace(run.breaks[0], compile_id="9/9", before=None, after=None)
    assert chapters(replace(run, breaks=(stop,)))[-1].after[0].tag == "GB0059"


def test_a_recompile_says_the_value_then_and_now():
    _, second = chapters(runs.recompiled_run())
    assert second.before[0].kind == "recompile"
    assert second.before[0].reason == "'x' size mismatch at index 0: compiled for 4, now 5"


def test_nothing_compiled_says_so_with_the_reason_and_the_remedy():
    view = explore(runs.uncompiled_run())
    assert view.title == "Nothing was compiled"
    picture = still(Page.of(runs.uncompiled_run()))
    assert "print stands inside a loop. Move print out of the loop." in picture
    assert data([Page.of(runs.uncompiled_run())])["none"][0]["at"] == [0, 3]


@pytest.mark.parametrize(
    ("run", "fragment"),
    [
        (Run(runs.ORIGIN), "No compiled function was called"),
        (Run(runs.ORIGIN, (Call("f", "hit", 0.1), Call("f", "hit", 0.1))), "2 calls ran code that was compiled before"),
        (replace(runs.broken_run(), compiles=()), "Dynamo gave the whole function up"),
    ],
)
def test_an_empty_run_tells_why(run, fragment):
    (item,) = nothing(run)
    assert fragment in item.reason
    assert item.remedy
    assert explore(run).html


def test_a_cache_hit_without_facts_says_which_are_missing_why_and_what_to_do():
    reason = 'A cache of torch answered instead of a compile; observe with caches="bypass" to see it.'
    run = runs.both_targets_run()
    compiled = replace(run.compiles[0], graphs=run.compiles[0].graphs[:1], code=(), caches={"fx_graph": "hit"})
    run = replace(run, compiles=(compiled,), pretended=(), missing={"code": reason, "post_grad": reason})
    said = f"Not known: code, post_grad. {reason}"
    assert data([Page.of(run)])["targets"][0]["notes"] == [said]
    assert said in explore(run).text
    assert "Not known: code, post_grad." in still(Page.of(run))
    assert len(Page.of(run).picture("0/0", "dynamo").shapes) == 7


def test_200_mb_of_generated_code_are_cut_and_said_to_be():
    run = runs.fused_run()
    compiled = run.compiles[0]
    body = "    buf = torch.empty_strided((64, 256), (256, 1))\n" * 4_000_000
    long = replace(compiled.code[0], text=runs.CODE.replace("    return (buf1,)", body))
    assert len(long.text) > 200_000_000
    view = explore(replace(run, compiles=(replace(compiled, code=(long,)),)))
    assert len(view.html) < 50_000
    assert "Left out: 2 lines of imports and 3999317 lines of code" in json.dumps(_payload(view.html))


def test_a_line_of_200_mb_is_cut():
    run = runs.fused_run()
    compiled = run.compiles[0]
    long = replace(compiled.code[0], text=runs.CODE.replace("(buf1,)", f"({'x' * 200_000_000},)"))
    assert len(explore(replace(run, compiles=(replace(compiled, code=(long,)),))).html) < 50_000


def test_values_kept_for_backward_are_badges_not_edges():
    picture = Page.of(runs.trained_run()).picture("0/0", "forward")
    assert [s.label for s in picture.shapes if s.saved] == ["le"]
    assert {(a, b) for a, b, _ in picture.edges if b == "output"} == {("relu", "output")}


def test_kernels_are_linked_to_nodes_lines_and_source():
    run = runs.fused_run()
    links = link(run.compiles[0])
    assert links.kernels_of("post_grad", "relu") == (1,)
    assert links.kernels_of("post_grad", "mm") == (0,)
    part = data([Page.of(run)])["targets"][0]["parts"][0]
    text = _kept(data([Page.of(run)]), part["docs"][0][1])
    assert text["k"] == [[0, [[13, 13]]], [1, [[5, 9], [14, 14]]]]
    assert text["n"] == {7: ["relu"]}


def test_imports_and_benchmark_of_the_generated_code_are_left_out():
    part = data([Page.of(runs.fused_run())])
    text = _kept(part, part["targets"][0]["parts"][0]["docs"][0][1])
    first, shown = text["c"][0]
    assert first == 3
    assert "benchmark_compiled_module" not in shown
    assert "2 lines of imports" in text["x"]


def test_colors_do_not_change_the_text():
    text = 'def f(x):\n    """Two\n    lines"""\n    return x + 1.0  # done'
    marked = "\n".join(color_lines(text, "python"))
    assert marked != text
    assert re.sub(f"[{''.join(MARKS.values())}{CLOSE}]", "", marked) == text


def test_names_that_hold_html_stay_text():
    nasty = "<img src=x onerror=alert(1)></script>"
    graph = Graph("dynamo", "0/0", (runs.entry(nasty), runs.call("y", nasty, (nasty,), 2), runs.result("y")))
    run = runs.broken_run()
    run = replace(
        run, compiles=(replace(run.compiles[0], function=nasty, graphs=(graph,)),), sources={runs.CELL: nasty}
    )
    html = explore(run).html
    assert nasty not in html
    assert html.count("<script") == html.count("</script>") == 1


def test_a_graph_of_one_node_and_a_graph_of_none_are_drawn():
    for nodes in ((runs.entry("x"),), ()):
        run = runs.broken_run()
        run = replace(run, compiles=(replace(run.compiles[0], graphs=(Graph("dynamo", "0/0", nodes),)),))
        assert len(Page.of(run).picture("0/0", "dynamo").shapes) == len(nodes)


def test_huge_generated_code_is_cut_and_says_so():
    run = runs.fused_run()
    compiled = run.compiles[0]
    long = replace(compiled.code[0], text=runs.CODE.replace("    return (buf1,)", "    pass\n" * 200_000))
    view = explore(replace(run, compiles=(replace(compiled, code=(long,)),)))
    assert len(view.html) < 50_000
    assert "lines of code" in json.dumps(_payload(view.html))


@pytest.mark.parametrize("make", [runs.fused_run, runs.broken_run, runs.recompiled_run, runs.uncompiled_run])
def test_a_lesson_sized_view_needs_no_network_and_stays_small(make):
    html = explore(make()).html
    assert len(html.encode()) < 50_000
    payload = "".join(map(str, _payload(html)))
    assert set(re.findall(r"https?://[^\s'\"<)]+", html + payload)) <= {"http://www.w3.org/2000/svg"}


def test_targets_that_share_a_graph_store_it_once():
    run = runs.fused_run()
    both = replace(run, pretended=(replace(run, origin=replace(run.origin, kind="pretended", device="NVIDIA H100")),))
    content = _payload(explore(both).html)[2]
    assert [t["name"] for t in content["targets"]] == ["this CPU", "NVIDIA H100 (pretended)"]
    assert len(content["pics"]) == len(_payload(explore(run).html)[2]["pics"])


def test_a_pretended_gpu_shows_only_the_stages_that_differ_there():
    run = runs.both_targets_run()
    forward = replace(runs.FORWARD, stage="forward")
    compiled = replace(run.compiles[0], graphs=(*run.compiles[0].graphs, forward))
    run = replace(run, compiles=(compiled,))
    run = replace(run, pretended=(replace(run, origin=run.pretended[0].origin, pretended=()),))
    here, there = (t["parts"][0]["pics"] for t in _payload(explore(run).html)[2]["targets"])
    assert set(here) == {"dynamo", "forward", "post_grad"}
    assert set(there) == {"dynamo", "post_grad"}


def test_show_prints_the_text_where_there_is_no_notebook(capsys):
    show(runs.fused_run())
    assert "price" in capsys.readouterr().out


def test_what_is_no_run_gets_a_sentence():
    with pytest.raises(TypeError, match="wants the run that observe gave"):
        show("run")


def test_save_html_writes_one_page_and_names_a_missing_folder(tmp_path):
    page = save_html(runs.broken_run(), tmp_path / "page.html")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    with pytest.raises(FileNotFoundError, match="make it first"):
        save_html(runs.broken_run(), tmp_path / "missing" / "page.html")


def test_a_run_saves_itself_as_the_same_page(tmp_path):
    page = runs.broken_run().save_html(tmp_path / "run.html")
    assert page.read_text(encoding="utf-8") == save_html(runs.broken_run(), tmp_path / "page.html").read_text("utf-8")


def test_the_still_picture_holds_source_graph_break_and_legend():
    picture = still(Page.of(runs.broken_run()))
    for part in ("def price(x, w):", "relu", "GB0059", "Graph 2", "live on this CPU, torch 2.13.0"):
        assert part in picture
    assert "cpp_fused_add_mul_relu_0: 3 ops fused, reads 65.5 kB, writes 65.5 kB" in still(Page.of(runs.fused_run()))


def test_a_line_outside_the_learners_files_is_no_link():
    run = runs.fused_run()
    graph = run.compiles[0].graphs[0]
    nodes = tuple(replace(n, source=Source("torch/nn/functional.py", 7)) if n.name == "mm" else n for n in graph.nodes)
    run = replace(run, compiles=(replace(run.compiles[0], graphs=(replace(graph, nodes=nodes),)),))
    content = data([Page.of(run)])
    picture = _kept(content, content["targets"][0]["parts"][0]["pics"]["post_grad"])
    assert [n[8] for n in picture["n"] if n[1] == "mm"] == [0]


BASE_85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"


def _payload(html):
    packed = re.search(r"const t='([^']+)'", html).group(1)
    theirs = base64.b85decode(packed.translate(str.maketrans(_ALPHABET, BASE_85)))
    return json.loads(zlib.decompressobj(31).decompress(theirs))  # what pads the last four bytes is left


def _kept(content, number):
    return content["pics"][content["at"][number]]
