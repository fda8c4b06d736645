"""Graphs that call graphs: read from torch's text, and drawn with their bodies in frames."""

import pytest
import torch
from torch._higher_order_ops import scan, while_loop

from compilescope import observe
from compilescope.explorer import explore
from compilescope.explorer.code_pane import graph_text
from compilescope.explorer.labels import label
from compilescope.explorer.links import Links
from compilescope.explorer.nested import opened
from compilescope.explorer.picture import draw
from compilescope.facts import Run


def clip(x, limit):
    norm = x.norm()
    return torch.cond(norm > limit, lambda x: x * (limit / norm), lambda x: x.clone(), (x,)).tanh()


def observed(fn, *args):
    torch.compiler.reset()
    return observe(torch.compile(fn, backend="aot_eager"), *args)


@pytest.fixture(scope="module")
def clipped():
    return observed(clip, torch.ones(8), torch.tensor(1.0))


@pytest.mark.parametrize("stage", ["dynamo", "inference"])
def test_each_branch_is_a_graph_whose_lines_are_those_of_the_printed_text(clipped, stage):
    graph = clipped.compiles[0].graph(stage)
    assert len(graph.inner) == 2
    assert [len(body.calls()) for body in graph.inner] == [2, 1]
    lines = graph.text.splitlines()
    for body in graph.inner:
        assert body.name in {node.target for node in graph.nodes if node.op == "get_attr"}
        assert all(f"{node.name}:" in lines[node.line - 1] for node in body.calls())
        assert all(node.source.line == clip.__code__.co_firstlineno + 2 for node in body.calls())


def test_a_run_with_branches_survives_being_stored(clipped):
    assert Run.from_json(clipped.to_json()).graphs == clipped.graphs


def test_operations_of_branches_are_not_counted_as_those_of_the_graph(clipped):
    assert sum("truediv" in node.target for node in clipped.graphs[0].calls()) == 0


def test_the_picture_has_both_branches_between_predicate_and_cond(clipped):
    graph = clipped.graphs[0]
    picture = draw(graph, clipped.compiles[0], Links())
    frames = {outline.title: outline for outline in picture.outlines}
    assert set(frames) == {"if true", "if false"}
    at = {label(shape.node): shape for shape in picture.shapes}
    assert not any(name.startswith("cond_") for name in at)
    for name, title in (("truediv", "if true"), ("clone", "if false")):
        frame, shape = frames[title], at[name]
        assert frame.x < shape.x < frame.x + frame.width
        assert frame.y < shape.y < frame.y + frame.height
        assert at["gt"].y < frame.y < at["cond"].y
    reads = {
        (source.partition(".")[2] or source, target.partition(".")[2] or target) for source, target, _ in picture.edges
    }
    assert reads >= {("gt", "cond"), ("mul", "cond"), ("clone", "cond"), ("norm", "truediv"), ("L_limit_", "truediv")}
    assert ("gt", "clone") not in reads  # only the place, no value, comes from the predicate


def test_a_line_of_the_text_lights_up_the_node_of_its_branch(clipped):
    names = {name for _, named in graph_text(clipped.graphs[0]).nodes for name in named}
    drawn = {shape.node.name for shape in draw(clipped.graphs[0], clipped.compiles[0], Links()).shapes}
    assert names == drawn


def halve(x):
    return while_loop(lambda x: x.max() > 1, lambda x: (x / 2,), (x,))


def averages(xs):
    def step(mean, x):
        mean = 0.9 * mean + 0.1 * x
        return mean, mean.clone()

    return scan(step, torch.zeros(xs.shape[1]), xs)[1]


@pytest.mark.parametrize(
    ("fn", "x", "titles"),
    [(halve, torch.tensor([3.0]), {"as long as", "each round"}), (averages, torch.randn(4, 3), {"each step"})],
)
def test_bodies_of_loops_have_their_frames(fn, x, titles):
    run = observed(fn, x)
    picture = draw(run.graphs[0], run.compiles[0], Links())
    assert {outline.title for outline in picture.outlines} == titles
    assert all(f">{title}<" in explore(run).html for title in titles)


def same_value_twice(x):
    return torch.cond(x.sum() > 0, lambda x, y: x + y, lambda x, y: x * y, (x, x))


def test_a_graph_without_bodies_is_drawn_as_it_is_and_one_with_a_repeated_argument_all_the_same():
    plain = observed(lambda x: x.sin(), torch.ones(3)).graphs[0]
    assert opened(plain).graph is plain
    run = observed(same_value_twice, torch.ones(3))
    assert {outline.title for outline in draw(run.graphs[0], run.compiles[0], Links()).outlines} == {
        "if true",
        "if false",
    }


@torch.compiler.nested_compile_region
def block(x, weight):
    return (x @ weight).relu() + x


def tower(x, weights):
    for weight in weights:
        x = block(x, weight)
    return x


def test_a_body_that_several_calls_share_is_drawn_once():
    with torch.no_grad():
        run = observed(tower, torch.randn(4, 8), [torch.randn(8, 8) for _ in range(3)])
    graph = run.graphs[0]
    picture = draw(graph, run.compiles[0], Links())
    assert [outline.title for outline in picture.outlines] == [f"{graph.inner[0].name}, in 3 calls"]
    drawn = [label(shape.node) for shape in picture.shapes]
    assert drawn.count("relu") == 1
    assert drawn.count("invoke_subgraph") == 3
    assert drawn.count(graph.inner[0].name) == 2  # the other calls name it
