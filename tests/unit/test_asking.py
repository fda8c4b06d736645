"""would_recompile: Dynamo's answer without a call."""

import pytest
import torch

from compilescope import observe, would_recompile
from compilescope.text import describe_verdict

X = torch.ones(4)
SCALE = 3


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def times(x, n, flag=True):
    return x * n if flag else x


def scaled(x):
    return x * SCALE


def compiled_once():
    compiled = torch.compile(times, backend="eager")
    compiled(X, 2)
    return compiled


def test_an_empty_cache_means_a_first_compile():
    verdict = would_recompile(torch.compile(times, backend="eager"), X, 2)
    assert verdict.outcome == "first compile"
    assert not verdict
    assert "cache is empty" in describe_verdict(verdict)


def test_the_same_call_is_accepted_by_the_entry():
    verdict = would_recompile(compiled_once(), X, 2)
    assert verdict.outcome == "hit"
    assert verdict.accepts == verdict.entries[0]
    assert not verdict


@pytest.mark.parametrize(
    ("args", "subject", "expected", "actual"),
    [((X, 3), "n", "2", "3"), ((X[:2], 2), "x", "4", "2"), ((X, 2, False), "flag", "True", "False")],
)
def test_another_call_is_refused_with_both_values(args, subject, expected, actual):
    verdict = would_recompile(compiled_once(), *args)
    assert verdict
    assert verdict.outcome == "recompile"
    refusal = verdict.refusals[0]
    assert (refusal.subject, refusal.expected, refusal.actual) == (subject, expected, actual)
    assert refusal.source.code == "return x * n if flag else x"


def test_the_answer_is_what_then_happens():
    compiled = compiled_once()
    calls = [(X, 2), (X, 5), (X[:3], 2), (X.double(), 2), (X, 5)]
    for args in calls:
        verdict = would_recompile(compiled, *args)
        run = observe(compiled, *args)
        assert run.calls[0].outcome == verdict.outcome


def test_asking_neither_calls_nor_compiles():
    calls = []

    def told(x):
        calls.append(1)
        return x + 1

    compiled = torch.compile(told, backend="eager")
    compiled(X)
    seen = len(calls)
    with observe() as run:
        would_recompile(compiled, X[:2])
    assert len(calls) == seen
    assert run.compiles == ()


def test_a_changed_global_is_refused(monkeypatch):
    compiled = torch.compile(scaled, backend="eager")
    compiled(X)
    monkeypatch.setitem(globals(), "SCALE", 4)
    refusal = would_recompile(compiled, X).refusals[0]
    assert "SCALE" in refusal.subject
    assert (refusal.expected, refusal.actual) == ("3", "4")


def test_grad_mode_is_looked_at():
    compiled = compiled_once()
    with torch.no_grad():
        verdict = would_recompile(compiled, X, 2)
    assert [refusal.subject for refusal in verdict.refusals] == ["grad_mode"]


def test_an_entry_of_another_backend_does_not_accept():
    compiled_once()
    verdict = would_recompile(torch.compile(times, backend="aot_eager"), X, 2)
    assert verdict.outcome == "recompile"
    assert "backend" in verdict.refusals[0].expression


def test_a_full_cache_gives_up():
    compiled = torch.compile(lambda x, label: x + len(label), backend="eager")
    with torch._dynamo.config.patch(recompile_limit=1):
        compiled(X, "a")
        verdict = would_recompile(compiled, X, "b")
    assert verdict.outcome == "give up"
    assert not verdict


@pytest.mark.parametrize("how", ["torch.compile", "module.compile"])
def test_a_module_is_asked_like_a_function(how):
    class Model(torch.nn.Module):
        def forward(self, x):
            return x + 1

    model = Model()
    if how == "torch.compile":
        model = torch.compile(model, backend="eager")
    else:
        model.compile(backend="eager")
    model(X)
    assert would_recompile(model, X).outcome == "hit"
    assert would_recompile(model, X.double()).outcome == "recompile"


def test_a_plain_function_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"times is not compiled: ask about torch\.compile\(times\)"):
        would_recompile(times, X, 2)


def test_arguments_that_do_not_fit_raise_as_python_says():
    with pytest.raises(TypeError, match="'n'"):
        would_recompile(compiled_once(), X)
