"""Graphs, guards and dynamic sizes, with the learner's lines; and input that is not nice."""

import os
import subprocess
import sys

import pytest
import torch

from compilescope import observe

X = torch.ones(4, 3)


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def seen(fn, *args, backend="eager", **options):
    return observe(torch.compile(fn, backend=backend, **options), *args)


def formula(x, n):
    y = torch.sin(x) * n
    z = y.sum(dim=0, keepdim=True)
    return torch.cat([x, z])[1:]


def test_the_graph_has_every_operation_with_shape_type_and_line():
    graph = seen(formula, X, 2).graphs[0]
    assert [(node.op, node.target) for node in graph.nodes] == [
        ("placeholder", "L_x_"),
        ("call", "torch.sin"),
        ("call", "operator.mul"),
        ("call", "Tensor.sum"),
        ("call", "torch.cat"),
        ("call", "operator.getitem"),
        ("output", "output"),
    ]
    total = graph.nodes[3]
    assert (total.dtype, total.shape, total.stride, total.device) == ("float32", (1, 3), (3, 1), "cpu")
    assert total.source.code == "z = y.sum(dim=0, keepdim=True)"
    assert total.source.file == __file__
    assert total.inputs == (graph.nodes[2].name,)
    assert graph.text.splitlines()[total.line - 1].strip().startswith(f"{total.name}:")


def test_what_changes_a_tensor_in_place_is_a_node():
    def changes(x):
        y = x.clone()
        y[0] = 3.0
        y += 1
        return y

    targets = [node.target for node in seen(changes, X).graphs[0].calls()]
    assert targets[0] == "Tensor.clone"
    assert "operator.setitem" in targets
    assert "operator.iadd" in targets


def test_a_condition_is_one_node_and_its_branches_do_not_spill():
    def conditional(p, x):
        return torch.cond(p, lambda x: x.sin(), lambda x: x.cos(), (x,))

    run = seen(conditional, torch.tensor(True), X, backend="aot_eager")
    for graph in run.compiles[0].graphs:
        assert [node.target for node in graph.nodes if "cond" in node.target and node.op == "call"] == [
            "higher_order.cond"
        ]
        assert not [node for node in graph.calls() if "sin" in node.target]


def test_a_guard_has_subject_expression_and_line():
    run = seen(formula, X, 2)
    guards = {
        guard.subject: guard for guard in run.compiles[0].guards if guard.kind in ("EQUALS_MATCH", "TENSOR_MATCH")
    }
    assert guards["L['n']"].expression == "L['n'] == 2"
    assert guards["L['n']"].source.code == "y = torch.sin(x) * n"
    assert guards["L['n']"].source.file == __file__
    assert "size=[4, 3]" in guards["L['x']"].expression
    assert all(guard.depth >= 1 for guard in run.compiles[0].guards)


def test_a_size_that_was_fixed_names_the_line_that_fixed_it():
    def fixes(x):
        return x + torch.ones(4, 3)

    symbols = {symbol.subject: symbol for symbol in seen(fixes, X, dynamic=True).compiles[0].symbols}
    rows = symbols["L['x'].size()[0]"]
    assert rows.specialized_to == 4
    assert rows.specialized_by.code == "return x + torch.ones(4, 3)"
    assert rows.specialized_by.file == __file__


def test_a_size_that_stays_dynamic_has_a_range():
    symbols = {symbol.subject: symbol for symbol in seen(formula, X, 2, dynamic=True).compiles[0].symbols}
    rows = symbols["L['x'].size()[0]"]
    assert (rows.hint, rows.minimum, rows.specialized_to) == (4, 2, None)


def test_branches_on_a_dynamic_size_narrow_its_range_and_their_guards_have_lines():
    def branches(x):
        if x.shape[0] > 2:
            x = x + 1
        if x.shape[0] * 2 < 40:
            x = x * 2
        return x

    (compiled,) = seen(branches, X, dynamic=True).compiles
    symbols = {symbol.subject: symbol for symbol in compiled.symbols}
    rows = symbols["L['x'].size()[0]"]
    assert (rows.minimum, rows.maximum, rows.specialized_to) == (3, 19, None)
    (guard,) = [guard for guard in compiled.guards if guard.expression == "3 <= L['x'].size()[0] <= 19"]
    assert guard.source.code == "if x.shape[0] > 2:"


def test_a_result_comes_back_unchanged():
    run = seen(formula, X, 2)
    assert torch.equal(run.result, formula(X, 2))
    assert run.origin.kind == "live"
    assert run.origin.torch == torch.__version__


def test_keyword_arguments_reach_the_function():
    run = observe(torch.compile(formula, backend="eager"), x=X, n=2)
    assert torch.equal(run.result, formula(X, 2))


def test_a_graph_of_thousands_of_nodes_is_read():
    def long(x):
        for _ in range(3000):
            x = x + 1
        return x

    graph = seen(long, torch.ones(2)).graphs[0]
    assert len(graph.calls()) == 3000
    assert graph.calls()[-1].inputs == (graph.calls()[-2].name,)


def test_compiling_turned_off_from_outside_is_named_in_a_fresh_process():
    program = (
        "import torch; from compilescope import observe\n"
        "def f(x): return x + 1\n"
        "with observe() as run: torch.compile(f)(torch.ones(2))\n"
        "print([fact.kind for fact in run.not_compiled], len(run.graphs))\n"
    )
    environment = {**os.environ, "TORCHDYNAMO_DISABLE": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['environment'] 0"
    assert done.stderr == ""
