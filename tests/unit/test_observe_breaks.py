"""Graph breaks with their two sides, and what was not compiled at all."""

import contextlib

import pytest
import torch

from compilescope import observe
from compilescope.reading.stacks import read_stack

X = torch.ones(4)


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def seen(fn, *args, **options):
    return observe(torch.compile(fn, backend="eager", **options), *args)


def halves(x):
    x = torch.sin(x)
    print(end="")
    return torch.cos(x)


def helper(x):
    print(end="")
    return x + 1


def calls_helper(x):
    y = torch.sin(x)
    z = helper(y)
    return z * 2


@contextlib.contextmanager
def nothing():
    yield


def test_a_print_splits_the_function_into_two_graphs():
    run = seen(halves, X)
    (one,) = run.breaks
    assert one.gb == "GB0059"
    assert one.source.code == 'print(end="")'
    assert one.explanation
    assert one.hints
    assert len(run.graphs) == 2
    assert (one.before, one.after) == (run.compiles[0].compile_id, run.compiles[1].compile_id)
    assert [c.is_resume for c in run.compiles] == [False, True]


def test_the_stack_of_a_break_is_the_learners_only():
    run = seen(calls_helper, X)
    functions = [source.function for source in run.breaks[0].stack]
    assert functions[-2:] == ["calls_helper", "helper"]
    assert not any("_dynamo" in source.file or "compilescope/" in source.file for source in run.breaks[0].stack)


def test_a_break_in_a_called_function_splits_both_and_is_marked_once():
    run = seen(calls_helper, X)
    assert [one.in_callee for one in run.breaks] == [True, False]
    assert {one.source.code for one in run.breaks} == {'print(end="")'}
    caller, callee = run.breaks
    functions = {c.compile_id: c.function for c in run.compiles}
    assert functions[caller.before] == "calls_helper"
    assert functions[caller.after].startswith("torch_dynamo_resume_in_calls_helper")
    assert functions[callee.after].startswith("torch_dynamo_resume_in_helper")
    assert callee.before is None


def test_a_branch_on_a_tensor_breaks_with_its_number():
    def branch(x):
        y = x * 2
        if x.sum() > 0:
            return y + 1
        return y - 1

    run = seen(branch, X)
    assert [one.gb for one in run.breaks] == ["GB0170"]
    assert run.breaks[0].source.code == "if x.sum() > 0:"
    assert run.breaks[0].after is not None


def test_with_fullgraph_a_break_is_a_fact_although_it_raises():
    with pytest.raises(torch._dynamo.exc.Unsupported), observe() as run:
        torch.compile(halves, backend="eager", fullgraph=True)(X)
    (one,) = run.breaks
    assert one.gb == "GB0059"
    assert one.source.code == 'print(end="")'
    assert one.reason
    assert run.graphs == ()
    assert [call.outcome for call in run.calls] == ["error"]


def in_a_loop(x):
    for _ in range(2):
        x = torch.sin(x)
        print(end="")
    return x


def in_a_while(x):
    steps = 0
    while steps < 2:
        steps += 1
        print(end="")
    return torch.sin(x)


def in_a_with(x):
    with nothing():
        x = torch.sin(x)
        print(end="")
    return x


def in_a_try(x):
    try:
        x = torch.sin(x)
        print(end="")
    except ValueError:
        pass
    return x


@pytest.mark.parametrize(
    ("fn", "kind"),
    [
        (in_a_loop, "break in loop"),
        (in_a_while, "break in loop"),
        (in_a_with, "break in with"),
        (in_a_try, "break in try"),
    ],
)
def test_a_break_in_a_block_is_reported_as_nothing_compiled(fn, kind):
    run = seen(fn, X)
    assert run.graphs == ()
    assert run.compiles == ()
    assert [(fact.function, fact.kind) for fact in run.not_compiled] == [(fn.__name__, kind)]
    assert run.not_compiled[0].source.code == 'print(end="")'
    assert run.not_compiled[0].remedy
    assert run.notes[0].startswith("0 graphs")
    assert [call.outcome for call in run.calls] == ["never compiled"]
    assert (run.breaks[0].before, run.breaks[0].after) == (None, None)


def test_a_block_on_one_line_is_still_a_block():
    def loop(x):
        for _ in range(2): x = torch.sin(x); print(end="")  # fmt: skip  # noqa: E701, E702
        return x

    assert [fact.kind for fact in seen(loop, X).not_compiled] == ["break in loop"]


def test_the_second_call_of_a_skipped_function_repeats_the_reason():
    compiled = torch.compile(in_a_loop, backend="eager")
    with observe() as run:
        compiled(X)
        compiled(X)
    assert [call.outcome for call in run.calls] == ["never compiled", "never compiled"]
    assert [fact.kind for fact in run.not_compiled] == ["break in loop"]


def test_a_function_skipped_before_the_block_is_still_named():
    compiled = torch.compile(in_a_loop, backend="eager")
    compiled(X)
    run = observe(compiled, X)
    assert [(fact.function, fact.kind) for fact in run.not_compiled] == [("in_a_loop", "skipped")]
    assert "torch.compiler.reset()" in run.not_compiled[0].remedy


def test_module_compile_on_a_library_module_compiles_nothing_before_2_14():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    model.compile(backend="eager")
    run = observe(model, X)
    if torch.__version__ < "2.14":
        assert run.graphs == ()
        assert [(fact.function, fact.kind) for fact in run.not_compiled] == [("Sequential", "library frame")]
        assert "torch.compile(module)" in run.not_compiled[0].remedy
    else:
        assert len(run.graphs) == 1
        assert run.not_compiled == ()


def test_torch_compile_on_a_library_module_compiles_it():
    run = seen(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), X)
    assert len(run.graphs) == 1
    assert run.not_compiled == ()


def test_a_disabled_function_inside_is_named_with_its_definition():
    @torch.compiler.disable
    def plain(x):
        return x + 1

    run = seen(lambda x: plain(torch.sin(x)) * 2, X)
    assert [(fact.function, fact.kind) for fact in run.not_compiled] == [("plain", "disabled")]
    assert [one.gb for one in run.breaks] == ["GB0098"]


def test_a_function_without_tensors_says_so():
    run = seen(lambda n: n + 1, 3)
    assert [fact.kind for fact in run.not_compiled] == ["no tensor"]


def test_a_generator_says_so():
    def items(x):
        for _ in range(2):
            yield torch.sin(x)

    with observe() as run:
        list(torch.compile(items, backend="eager")(X))
    assert [(fact.function, fact.kind) for fact in run.not_compiled] == [("items", "generator")]


def test_too_deep_a_recursion_is_an_error_with_a_sentence():
    def deep(x, n):
        return x if n == 0 else deep(x + 1, n - 1)

    with pytest.raises(Exception, match="recursion"), observe() as run:
        torch.compile(deep, backend="eager")(X, 2000)
    assert [fact.kind for fact in run.not_compiled] == ["error"]
    assert "recursion" in run.not_compiled[0].reason


def test_recursion_within_reason_is_one_graph():
    def three(x, n):
        return x if n == 0 else three(x + 1, n - 1)

    run = seen(three, X, 3)
    assert [len(graph.calls()) for graph in run.graphs] == [3]


def test_a_break_in_the_resumed_part_leaves_only_the_rest_to_python():
    def late(x):
        x = torch.sin(x)
        print(end="")
        for _ in range(2):
            x = torch.cos(x)
            print(end="")
        return x

    run = seen(late, X)
    assert len(run.graphs) == 1
    assert [(fact.function, fact.kind) for fact in run.not_compiled] == [("late", "break in loop")]
    assert "rest" in run.not_compiled[0].reason


def test_what_goes_on_after_a_break_has_the_name_that_you_wrote():
    def quiet_at_the_end(x):
        y = x.sin()
        print(end="")
        return len(y)

    def talks_twice(x):
        x = x.sin()
        print(end="")
        x = x.cos()
        print(end="")
        return x * 2

    for fn in (quiet_at_the_end, talks_twice):
        torch.compiler.reset()
        run = observe(torch.compile(fn, backend="aot_eager"), torch.ones(3))
        stops = [stop.source.function for stop in (*run.breaks, *run.not_compiled)]
        assert {name.rpartition(".")[2] for name in stops} == {fn.__name__}


def test_a_stack_names_no_function_of_dynamos_own():
    text = 'File "train.py", line 6, in torch_dynamo_resume_in_embed_at_6\n    print(end="")\n'
    assert [one.function for one in read_stack(text)] == ["embed"]
