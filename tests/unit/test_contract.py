"""A contract of facts: which clause breaks by what, and the page that shows it before and after."""

import dataclasses
import re

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from compilescope import clauses, contract, contract_report, two_ranks
from compilescope.facts import Call, Compile, Graph, GraphBreak, Node, NotCompiled, Origin, Refusal, Run, Source
from compilescope.facts_contract import Clause, Contract

ORIGIN = Origin("live", "CPU", "2.13.0")
ADD = Node("add", "call", "operator.add")


def compiled(number=0, stages=("dynamo", "inference"), nodes=(ADD,), refusals=()):
    graphs = tuple(Graph(stage, f"0/{number}", nodes) for stage in stages)
    return Compile(f"0/{number}", "f", graphs=graphs, refusals=refusals)


def call(outcome="hit", compiles=(), refusals=(), **facts):
    return Run(ORIGIN, calls=(Call("f", outcome, 0.1, refusals=refusals),), compiles=tuple(compiles), **facts)


FIRST = call("first compile", [compiled()])
HIT = call()
AGAIN = call("recompile", [compiled(1, refusals=(Refusal("0/0", "n == 2", "n", "2", "3"),))])
GAVE_UP = call("gave up", refusals=(Refusal("0/0", "n == 2", "n", "2", "3"),))
STOP = GraphBreak("0/0", "GB0170", "a branch", source=Source("cell 3", 4, code="if x.sum() > 0:"))


def kept(clauses_found):
    return [one.kept for one in clauses_found]


def test_one_graph_that_was_compiled_and_no_break():
    assert kept(clauses.of_capture(FIRST)) == [True, True]


@pytest.mark.parametrize(
    ("run", "expected", "why"),
    [
        (call("never compiled"), [False, False], "nothing was compiled"),
        (call("first compile", [compiled(stages=("dynamo",))]), [False, True], "eager"),
        (call("first compile", [compiled(), compiled(1)]), [False, True], ""),
        (call("first compile", [compiled()], breaks=(STOP,)), [True, False], "GB0170, if x.sum() > 0:"),
        (
            call("first compile", [compiled()], not_compiled=(NotCompiled("g", "A break in a loop.", "Move it."),)),
            [True, False],
            "A break in a loop.",
        ),
    ],
)
def test_what_was_captured_breaks_a_clause_and_says_by_what(run, expected, why):
    found = clauses.of_capture(run)
    assert kept(found) == expected
    assert any(why in one.why for one in found)


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([FIRST, AGAIN, HIT, HIT], [True, True]),
        ([FIRST, HIT, HIT], [True, True]),
        ([FIRST, HIT, AGAIN], [True, False]),
        ([FIRST, AGAIN, AGAIN], [False, False]),
        ([FIRST, AGAIN, GAVE_UP], [False, False]),
        ([call("never compiled"), HIT, HIT], [False, False]),
    ],
)
def test_a_stream_may_compile_twice_and_not_after_its_warm_up(runs, expected):
    found = clauses.of_stream(runs)
    assert kept(found) == expected
    assert all(one.kept or runs[0] is not FIRST or "n was 2" in one.why for one in found)


def test_keys_curve_start_and_ranks():
    assert clauses.of_keys(["a", "b"], ["a", "b"]).kept
    assert clauses.of_keys(["_orig_mod.a"], ["a"]).why == "_orig_mod.a"
    assert clauses.of_keys(["a"], ["a", "b"]).why == "b is missing"
    assert clauses.of_curve([1.0, 0.5], [1.0, 0.5 + 4e-5]).kept
    assert clauses.of_curve([1.0, 0.5], [1.0, 0.5 + 6e-5]).kept is False
    assert clauses.of_curve([float("nan")], [1.0]).kept is False
    whole = call("first compile", [compiled(nodes=(ADD,) * 2)])
    assert clauses.of_start(FIRST, whole).kept
    assert clauses.of_start(whole, whole).kept is False
    assert clauses.of_start(HIT, whole).kept is False
    assert clauses.of_ranks([FIRST, FIRST], 1e-7).kept
    assert clauses.of_ranks([FIRST, FIRST], 1e-3).kept is False
    assert clauses.of_ranks([HIT, HIT], 0.0).kept is False
    assert clauses.of_ranks([dataclasses.replace(FIRST, breaks=(STOP,))], 0.0).why.startswith("GB0170")
    assert clauses.of_ranks([], 0.0, "rank 1 raised").why == "rank 1 raised"


GOOD = Contract(
    ORIGIN,
    (Clause("graphs", "1", "1", True), Clause("tokens", "70%", "needs a GPU", None, bonus=True)),
    ("4 × 16", "3 × 12"),
    (1, 0),
    2,
    (3.0, 2.0),
    (3.0, 2.0),
)
BAD = dataclasses.replace(GOOD, clauses=(Clause("graphs", "1", "5", False, "<b>L['n']</b>"),), compiled=(2, -1))


def test_a_contract_is_kept_when_each_clause_but_a_bonus_is():
    assert (GOOD.kept, GOOD.broken) == (True, ())
    assert (BAD.kept, [one.name for one in BAD.broken]) == (False, ["graphs"])
    assert not Contract(ORIGIN).kept
    assert not dataclasses.replace(GOOD, clauses=(Clause("graphs", "1", "not asked"),)).kept


def test_a_contract_comes_back_from_json_and_no_contract_is_one_sentence():
    assert Contract.from_json(GOOD.to_json()) == GOOD
    with pytest.raises(ValueError, match="no contract"):
        Contract.from_json("[]")
    with pytest.raises(KeyError, match="there are: graphs, tokens"):
        GOOD.clause("speed")


def test_the_report_shows_each_clause_before_and_after_with_mark_word_and_cause():
    view = contract_report(BAD, GOOD)
    assert view.title == "Ready for production: 1 clause kept"
    assert "graphs, wanted 1: broken: 5 (<b>L['n']</b>) → kept: 1" in view.text
    assert "tokens (bonus), wanted 70%: not in this contract → not measured: needs a GPU" in view.text
    assert "before, frames compiled in each call: 4 × 16: 2, 3 × 12: plain Python" in view.text
    assert 'aria-label="broken">✗' in view.html
    assert "<b>L[" not in view.html, "a guard's text stays text"
    assert 'aria-label="call 2, 3 × 12: plain Python"' in view.html
    assert contract_report(GOOD, BAD).title == "Not ready: 0 of 1 clause kept"


def test_the_report_is_one_page_that_needs_no_network(tmp_path):
    page = contract_report(BAD, GOOD).save_html(tmp_path / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert len(page) < 50_000
    assert not re.search(r"(src|href)=.https?:", page)
    assert "Loss before each step" in page


def test_one_contract_alone_has_one_column():
    view = contract_report(BAD, names=("today", ""))
    assert view.title == "Not ready: 0 of 1 clause kept"
    assert re.findall(r"<th scope=col>([^<]*)</th>", view.html)[:3] == ["clause", "wanted", "today"]
    assert "after" not in view.text


def test_no_contract_is_said():
    with pytest.raises(TypeError, match="wants contracts, not a str"):
        contract_report(GOOD, "after")


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 5)

    def forward(self, x):
        return x + self.linear(x).relu()


def plain():
    torch.manual_seed(0)
    return Small()


def by_layer():
    model = plain()
    for layer in model.layers:
        layer.compile(backend="aot_eager")
    return model


def test_layers_of_one_kind_compiled_in_place_keep_each_clause_also_on_two_ranks():
    stream = [torch.randn(rows, 5) for rows in (4, 6, 8, 3)]
    batches = [(torch.randn(4, 5), torch.randn(4, 5)) for _ in range(2)]
    ranks = two_ranks(lambda: DistributedDataParallel(by_layer()), batches, loss=nn.functional.mse_loss)
    assert [len(run.breaks) for run in ranks.runs] == [0, 0]
    found = contract(by_layer, plain, stream, batches, loss=nn.functional.mse_loss, spread=ranks)
    assert [one.name for one in found.broken] == []
    assert found.kept
    assert found.compiled == (1, 1, 0, 0)
    assert found.shapes[0] == "4 × 5"
    assert found.clause("tokens per second").bonus


def test_ranks_that_fail_are_a_broken_clause_and_no_error():
    def fails():
        raise ValueError("no model")

    ranks = two_ranks(fails, [(torch.randn(4, 5), torch.randn(4, 5))], loss=nn.functional.mse_loss)
    assert "no model" in ranks.failed
    stream = [torch.randn(rows, 5) for rows in (4, 6, 8)]
    batches = [(torch.randn(4, 5), torch.randn(4, 5))]
    found = contract(by_layer, plain, stream, batches, loss=nn.functional.mse_loss, spread=ranks)
    assert [one.name for one in found.broken] == ["two ranks"]
    assert "no model" in found.clause("two ranks").why
