"""Parts of a Dynamo graph: their nodes lead back to it, and a backward that comes late belongs to its forward."""

from compilescope.facts import Code, Graph, Node, Source
from compilescope.reading.opened import Opened
from compilescope.reading.parts import with_origins_of_the_whole


def line(number):
    return Source("f.py", number, "forward")


def called(name, target, number, module="", origins=()):
    return Node(name, "call", target, source=line(number), module=module, origins=origins)


def whole(*nodes):
    return Graph("dynamo", "0/0", nodes)


def part(number, *nodes):
    return Graph("forward", "0/0", nodes, part=number)


def test_a_name_that_each_part_has_leads_to_the_node_of_its_own_line():
    dynamo = whole(called("linear", "torch._C._nn.linear", 3), called("linear_1", "torch._C._nn.linear", 4))
    first, second = (part(i, called("addmm", "aten.addmm.default", 3 + i, origins=("linear",))) for i in range(2))
    graphs = with_origins_of_the_whole((dynamo, first, second))
    assert [graph.nodes[0].origins for graph in graphs[1:]] == [("linear",), ("linear_1",)]


def test_on_one_line_the_module_tells_the_nodes_apart_and_where_nothing_does_there_is_no_origin():
    dynamo = whole(
        called("linear", "torch._C._nn.linear", 3, "layers.0"),
        called("linear_1", "torch._C._nn.linear", 3, "layers.1"),
        called("relu", "torch.relu", 3),
        called("relu_1", "torch.relu", 3),
    )
    nodes = [called("addmm", "aten.addmm.default", 3, f"layers.{i}", ("linear",)) for i in range(2)]
    unclear = called("relu", "aten.relu.default", 3, origins=("relu",))
    graphs = with_origins_of_the_whole((dynamo, part(0, nodes[0]), part(1, nodes[1], unclear)))
    assert [[node.origins for node in graph.nodes] for graph in graphs[1:]] == [[("linear",)], [("linear_1",), ()]]


def test_a_graph_of_one_part_is_left_as_it_is():
    graphs = (whole(called("y", "torch.relu", 3)), part(0, called("relu", "aten.relu.default", 9, origins=("y",))))
    assert with_origins_of_the_whole(graphs) is graphs


def code(which, number):
    return Code("0/0", which, f"# AOT ID: ['{number}_{which}']")


def test_a_backward_compiled_after_all_forwards_belongs_to_its_part():
    opened = Opened("0/0")
    for number in range(3):
        for stage in ("joint", "forward", "backward", "post_grad"):
            opened.begin_graph(stage)
            opened.graphs[stage] = Graph(stage, "0/0", ())
        opened.add_code(code("forward", 7 + number))
    for number in (2, 1, 0):
        opened.begin_graph("post_grad_backward")
        opened.graphs["post_grad_backward"] = Graph("post_grad_backward", "0/0", (), f"of {number}")
        opened.add_code(code("backward", 7 + number))
    assert [(one.which, one.part) for one in opened.code] == [
        ("forward", 0), ("forward", 1), ("forward", 2), ("backward", 2), ("backward", 1), ("backward", 0),
    ]  # fmt: skip
    late = {graph.part: graph.text for graph in opened.all_graphs() if graph.stage == "post_grad_backward"}
    assert late == {0: "of 0", 1: "of 1", 2: "of 2"}
