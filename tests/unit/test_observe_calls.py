"""Each call of a compiled function: what came of it, and why."""

import pytest
import torch

from compilescope import observe
from compilescope.text import describe_refusal


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def times(x, n):
    return torch.sin(x) * n


def labelled(x, label):
    return x + len(label)


def outcomes(run):
    return [call.outcome for call in run.calls]


def test_the_first_call_compiles_and_the_second_is_a_hit():
    compiled = torch.compile(times, backend="eager")
    with observe() as run:
        compiled(torch.ones(4), 2)
        compiled(torch.ones(4), 2)
    assert outcomes(run) == ["first compile", "hit"]
    assert run.calls[0].compile_ids == (run.compiles[0].compile_id,)
    assert run.calls[1].compile_ids == ()
    assert run.calls[0].seconds > run.calls[1].seconds > 0


def test_a_call_knows_the_line_it_was_made_on():
    compiled = torch.compile(times, backend="eager")
    with observe() as run:
        compiled(torch.ones(4), 2)  # the line
    assert run.calls[0].source.code.endswith("# the line")
    assert run.calls[0].source.file == __file__


def test_a_recompile_names_the_guard_and_the_value_then_and_now():
    compiled = torch.compile(labelled, backend="eager")
    with observe() as run:
        compiled(torch.ones(4), "a")
        compiled(torch.ones(4), "bb")
    assert outcomes(run) == ["first compile", "recompile"]
    refusal = run.calls[1].refusals[0]
    assert (refusal.subject, refusal.expected, refusal.actual) == ("label", "'a'", "'bb'")
    assert refusal.compile_id == run.compiles[0].compile_id
    assert refusal.source.code == "return x + len(label)"
    assert run.recompiles == (run.compiles[1],)


def test_a_changed_size_is_refused_with_both_sizes():
    compiled = torch.compile(times, backend="eager", dynamic=False)
    with observe() as run:
        compiled(torch.ones(4), 2)
        compiled(torch.ones(5), 2)
    refusal = run.calls[1].refusals[0]
    assert (refusal.subject, refusal.expected, refusal.actual) == ("x", "4", "5")
    assert refusal.source.code == "return torch.sin(x) * n"
    assert refusal.source.file == __file__


def test_a_changed_module_attribute_is_refused_with_both_values_and_a_hint():
    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.step = 0

        def forward(self, x):
            return x + self.step

    model = Step()
    compiled = torch.compile(model, backend="eager")
    with observe() as run:
        compiled(torch.ones(2))
        model.step = 7
        compiled(torch.ones(2))
    refusal = run.calls[1].refusals[0]
    assert (refusal.subject, refusal.expected, refusal.actual) == ("self.step", "0", "7")
    assert "nn.Module" in refusal.hint


def test_two_sizes_that_were_alike_are_told_as_such_without_an_option_of_torch():
    compiled = torch.compile(times, backend="eager", dynamic=True)
    with observe() as run:
        compiled(torch.ones(5, 5), 2)
        compiled(torch.ones(6, 7), 2)
    refusal = run.calls[1].refusals[0]
    assert (refusal.expression, refusal.actual) == ("x.size()[1] == x.size()[0]", "7")
    told = "x.size()[1] == x.size()[0] was compiled in (both were 5), and they differ now"
    assert describe_refusal(refusal) == told


def test_past_the_limit_a_call_gives_up_and_says_which_guards_refused():
    compiled = torch.compile(labelled, backend="eager")
    with observe() as run, torch._dynamo.config.patch(recompile_limit=2):
        for length in range(4):
            compiled(torch.ones(4), "a" * length)
        compiled(torch.ones(4), "a")
    assert outcomes(run) == ["first compile", "recompile", "gave up", "gave up", "hit"]
    assert run.calls[2].refusals[0].actual == "'aa'"
    assert [r.expected for r in run.calls[3].refusals] == ["'a'", "''"]
    assert {r.actual for r in run.calls[3].refusals} == {"'aaa'"}
    assert [fact.kind for fact in run.not_compiled] == ["limit"]
    assert not run.breaks


def test_a_call_under_force_eager_is_never_compiled_and_says_so():
    compiled = torch.compile(times, backend="eager")
    with torch.compiler.set_stance("force_eager"):
        run = observe(compiled, torch.ones(4), 2)
    assert outcomes(run) == ["never compiled"]
    assert [fact.kind for fact in run.not_compiled] == ["stance"]
    assert 'set_stance("default")' in run.not_compiled[0].remedy


def test_a_plain_function_is_never_compiled_and_the_remedy_is_torch_compile():
    run = observe(times, torch.ones(4), 2)
    assert outcomes(run) == ["never compiled"]
    assert [fact.kind for fact in run.not_compiled] == ["plain"]
    assert "torch.compile" in run.not_compiled[0].remedy
    assert torch.equal(run.result, times(torch.ones(4), 2))


def test_a_plain_function_that_calls_a_compiled_one_is_not_complained_about():
    compiled = torch.compile(times, backend="eager")
    run = observe(lambda x: compiled(x, 2), torch.ones(4))
    assert outcomes(run) == ["first compile"]
    assert run.not_compiled == ()


def test_a_disabled_function_given_to_observe_is_named_disabled():
    run = observe(torch.compiler.disable(times), torch.ones(4), 2)
    assert [fact.kind for fact in run.not_compiled] == ["disabled"]


def test_compiling_turned_off_by_the_environment_is_a_loud_fact(monkeypatch):
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    with observe() as run:
        torch.compile(times, backend="eager")(torch.ones(4), 2)
    assert [fact.kind for fact in run.not_compiled] == ["environment"]
    assert run.graphs == ()


def test_a_call_that_raises_ends_in_an_error_and_the_exception_comes_out_unchanged():
    problem = ValueError("mine")

    @torch.compiler.disable
    def raises(x):
        raise problem

    compiled = torch.compile(lambda x: raises(x + 1), backend="eager")
    with pytest.raises(ValueError, match="mine") as caught, observe() as run:
        compiled(torch.ones(2))
    assert caught.value is problem
    assert outcomes(run) == ["error"]
    assert len(run.graphs) == 1


def test_a_function_that_raises_while_it_is_traced_says_so():
    def raises(x):
        x = x + 1
        raise ValueError("mine")

    compiled = torch.compile(raises, backend="eager")
    with pytest.raises(ValueError, match="mine"), observe() as run:
        compiled(torch.ones(2))
    assert outcomes(run) == ["error"]
    assert [fact.kind for fact in run.not_compiled] == ["raises"]


def test_an_error_of_the_backend_keeps_the_graph_that_was_captured():
    def backend(module, inputs):
        raise RuntimeError("no such backend")

    compiled = torch.compile(times, backend=backend)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed), observe() as run:
        compiled(torch.ones(2), 2)
    assert outcomes(run) == ["error"]
    assert len(run.graphs) == 1
    assert "no such backend" in run.compiles[0].error


def test_calls_inside_the_plain_part_of_a_compiled_function_are_calls_of_their_own():
    inner = torch.compile(times, backend="eager")

    @torch.compiler.disable
    def plain(x):
        return inner(x, 3)

    outer = torch.compile(lambda x: plain(x + 1), backend="eager")
    run = observe(outer, torch.ones(2))
    assert [(call.function, call.outcome) for call in run.calls] == [
        ("<lambda>", "first compile"),
        ("times", "first compile"),
    ]


def test_a_recompile_inside_a_resumed_part_is_a_recompile_of_that_call():
    def halves(x, label):
        x = torch.sin(x)
        print(end="")
        return x + len(label)

    compiled = torch.compile(halves, backend="eager")
    with observe() as run:
        compiled(torch.ones(2), "a")
        compiled(torch.ones(2), "bb")
    assert outcomes(run) == ["first compile", "recompile"]


def test_nothing_compiled_because_it_was_compiled_before_is_said():
    compiled = torch.compile(times, backend="eager")
    compiled(torch.ones(2), 2)
    run = observe(compiled, torch.ones(2), 2)
    assert outcomes(run) == ["hit"]
    assert "torch.compiler.reset()" in run.notes[0]


def test_reset_inside_a_block_keeps_both_compiles_apart():
    compiled = torch.compile(times, backend="eager")
    with observe() as run:
        compiled(torch.ones(2), 2)
        torch.compiler.reset()
        compiled(torch.ones(2), 2)
    assert len(run.compiles) == 2
    assert len({one.compile_id for one in run.compiles}) == 2
    assert outcomes(run) == ["first compile", "first compile"]


def test_the_name_of_a_module_is_its_class():
    run = observe(torch.compile(torch.nn.Linear(2, 2), backend="eager"), torch.ones(2))
    assert run.calls[0].function == "Linear"
    assert run.compiles[0].function == "Linear"


def test_the_compile_of_a_module_is_named_after_class_and_method():
    class Model(torch.nn.Module):
        def forward(self, x):
            return x + 1

    run = observe(torch.compile(Model(), backend="eager"), torch.ones(2))
    assert run.calls[0].function == "Model"
    assert run.compiles[0].function == "Model.forward"
    assert run.compiles[0].backend == "eager"


def test_compiles_with_two_backends_are_told_apart():
    with observe() as run:
        torch.compile(times, backend="eager")(torch.ones(2), 2)
        torch.compile(times, backend="aot_eager")(torch.ones(2), 2)
    assert [one.backend for one in run.compiles] == ["eager", "aot_eager"]
