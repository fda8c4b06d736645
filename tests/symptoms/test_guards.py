"""Symptoms 23 to 35: guards, recompiles, dynamic sizes."""

import pytest
import torch
import torch._dynamo as dynamo
from torch import nn
from torch._dynamo.exc import FailOnRecompileLimitHit

from compilescope import observe
from rows import row

LIMIT = 8


def compiled(fn, **options):
    return torch.compile(fn, backend="eager", **options)


def calls_of(fn, arguments):
    """The run of one call for each of the arguments."""
    with observe() as run:
        for one in arguments:
            fn(*one) if isinstance(one, tuple) else fn(one)
    return run


def outcomes(run):
    return [call.outcome for call in run.calls]


def compiles_until_it_gave_up(run):
    assert outcomes(run)[:LIMIT] == ["first compile"] + ["recompile"] * (LIMIT - 1)
    assert set(outcomes(run)[LIMIT:]) == {"gave up"}
    assert [found.kind for found in run.not_compiled] == ["limit"]
    assert run.not_compiled[0].remedy
    return len(run.compiles)


NAMES = [(torch.ones(2), f"name {number}") for number in range(11)]


@row("23", "29")
def test_a_string_that_changes_recompiles_up_to_the_limit_and_then_runs_as_plain_python():
    def tagged(x, tag):
        return x + 1 if tag == "name 3" else x + 2

    run = calls_of(compiled(tagged), NAMES)
    assert compiles_until_it_gave_up(run) == LIMIT
    last = run.compiles[-1].refusals
    assert len(last) == LIMIT - 1
    assert all("tag" in refusal.subject for refusal in last)
    assert run.calls[1].refusals[0].actual == "'name 1'"


@row("23")
def test_with_fullgraph_the_limit_is_an_error():
    def tagged(x, tag):
        return x + 1 if tag == "name 3" else x + 2

    fn = compiled(tagged, fullgraph=True)
    with observe() as run:
        for one in NAMES[:LIMIT]:
            fn(*one)
        with pytest.raises(FailOnRecompileLimitHit):
            fn(*NAMES[LIMIT])
    assert outcomes(run) == ["first compile"] + ["recompile"] * (LIMIT - 1) + ["error"]


def double(x):
    return torch.sin(x) * 2


SIZES = [torch.ones(size, 3) for size in range(2, 14)]


@row("24")
def test_twelve_batch_sizes_cost_two_compiles():
    run = calls_of(compiled(double), SIZES)
    assert outcomes(run) == ["first compile", "recompile"] + ["hit"] * 10
    (refusal,) = run.compiles[1].refusals
    assert (refusal.expected, refusal.actual) == ("2", "3")
    (symbol,) = run.compiles[1].symbols
    assert symbol.subject == "L['x'].size()[0]"
    assert run.graphs[1].nodes[1].shape[0] == symbol.name or run.graphs[1].nodes[0].shape[0] == symbol.name


@row("24")
def test_dynamic_false_compiles_each_size_until_the_limit():
    assert compiles_until_it_gave_up(calls_of(compiled(double, dynamic=False), SIZES)) == LIMIT


@row("24")
def test_mark_dynamic_costs_one_compile():
    x = torch.ones(2, 3)
    dynamo.mark_dynamic(x, 0)
    run = calls_of(compiled(double), [x, *SIZES[1:]])
    assert outcomes(run) == ["first compile"] + ["hit"] * 11


@row("25")
def test_sizes_one_and_zero_recompile_although_sizes_are_dynamic():
    run = calls_of(compiled(double), [torch.ones(size, 3) for size in (5, 7, 9, 1, 0, 11)])
    assert outcomes(run) == ["first compile", "recompile", "hit", "recompile", "recompile", "hit"]


def five(x):
    return x + 1 if x.shape[0] == 5 else x + 2


@row("26")
def test_a_branch_on_a_size_that_must_be_dynamic_is_an_error():
    x = torch.ones(5, 3)
    dynamo.mark_dynamic(x, 0)
    with observe() as run, pytest.raises(Exception, match="specialize"):
        compiled(five)(x)
    assert outcomes(run) == ["error"]
    assert run.not_compiled or run.compiles[0].error


@row("26")
def test_where_it_may_be_dynamic_the_branch_specializes_it_and_the_line_is_known():
    x = torch.ones(5, 3)
    dynamo.maybe_mark_dynamic(x, 0)
    run = calls_of(compiled(five), [x])
    assert outcomes(run) == ["first compile"]
    symbol = next(one for one in run.compiles[0].symbols if one.specialized_to is not None)
    assert symbol.specialized_to == 5
    assert symbol.specialized_by.code == "return x + 1 if x.shape[0] == 5 else x + 2"


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x):
        self.step += 1
        return x * self.step


class CountsOutside(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.step += 1
        return x * self.step


@row("27")
def test_a_step_counter_in_a_module_recompiles_until_the_limit():
    run = calls_of(compiled(Counts()), [torch.ones(2)] * 11)
    assert compiles_until_it_gave_up(run) == LIMIT
    assert all("step" in refusal.expression for refusal in run.compiles[-1].refusals)


@row("27")
def test_a_step_counter_in_a_buffer_costs_one_compile():
    run = calls_of(compiled(CountsOutside()), [torch.ones(2)] * 11)
    assert outcomes(run) == ["first compile"] + ["hit"] * 10


@row("27")
def test_allow_unspec_int_on_nn_module_costs_two():
    with dynamo.config.patch(allow_unspec_int_on_nn_module=True):
        run = calls_of(compiled(Counts()), [torch.ones(2)] * 11)
    assert len(run.compiles) == 2


def steps_with(lr_of_step):
    parameter = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([parameter], lr=lr_of_step(0))

    @torch.compile(backend="eager")
    def step():
        optimizer.step()

    with observe() as run:
        for number in range(6):
            parameter.grad = torch.ones(3)
            for group in optimizer.param_groups:
                if isinstance(group["lr"], torch.Tensor):
                    group["lr"].fill_(0.1 * (number + 1))
                else:
                    group["lr"] = lr_of_step(number)
            step()
    return run


@row("28")
def test_a_learning_rate_that_is_a_float_costs_two_compiles_and_a_tensor_one():
    run = steps_with(lambda number: 0.1 * (number + 1))
    assert outcomes(run).count("recompile") == 1
    torch.compiler.reset()
    run = steps_with(lambda number: torch.tensor(0.1))
    assert outcomes(run) == ["first compile"] + ["hit"] * 5


@row("29")
def test_a_list_that_grows_recompiles_until_the_limit():
    def total(x, parts):
        for part in parts:
            x = x + part
        return x

    run = calls_of(compiled(total), [(torch.ones(2), [torch.ones(2)] * length) for length in range(1, 12)])
    assert compiles_until_it_gave_up(run) == LIMIT
    assert all("len(" in refusal.expression for refusal in run.compiles[-1].refusals)


SCALE = 0


def scaled(x):
    return x * SCALE


@row("29")
def test_a_global_number_that_changes_recompiles_until_the_limit():
    global SCALE
    fn = compiled(scaled)
    with observe() as run:
        for number in range(2, 13):
            SCALE = number
            fn(torch.ones(2))
    assert compiles_until_it_gave_up(run) == LIMIT
    assert all("SCALE" in refusal.expression for refusal in run.compiles[-1].refusals)


class Block(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = number
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x) * self.number


@row("30")
def test_layers_that_differ_in_a_number_of_their_own_share_no_code():
    blocks = [Block(number) for number in range(2, 14)]
    for block in blocks:
        block.compile(backend="eager")
    with observe() as run:
        for block in blocks:
            block(torch.ones(2, 3))
    assert compiles_until_it_gave_up(run) == LIMIT
    assert any("number" in refusal.expression for refusal in run.compiles[-1].refusals)


@row("30")
def test_layers_with_the_same_number_share_their_code():
    blocks = [Block(2) for _ in range(12)]
    for block in blocks:
        block.compile(backend="eager")
    with observe() as run:
        for block in blocks:
            block(torch.ones(2, 3))
    assert outcomes(run) == ["first compile"] + ["hit"] * 11


@row("32")
def test_fail_on_recompile_raises_where_a_recompile_would_come():
    fn = compiled(double)
    fn(torch.ones(2, 3))
    with observe() as run, torch.compiler.set_stance("fail_on_recompile"):
        fn(torch.ones(2, 3))
        with pytest.raises(RuntimeError):
            fn(torch.ones(5, 3))
    assert outcomes(run) == ["hit", "error"]


@row("32")
def test_eager_on_recompile_adds_no_compile():
    fn = compiled(double)
    fn(torch.ones(2, 3))
    with observe() as run, torch.compiler.set_stance("eager_on_recompile"):
        fn(torch.ones(2, 3))
        fn(torch.ones(5, 3))
    assert run.calls[0].outcome == "hit"
    assert run.calls[1].outcome in ("gave up", "never compiled")
    assert not run.compiles


@row("35")
def test_the_first_call_holds_the_compile_and_the_next_ones_do_not():
    run = calls_of(compiled(double), [torch.ones(2, 3)] * 4)
    first, *others = run.calls
    assert first.compile_ids == (run.compiles[0].compile_id,)
    assert first.seconds >= run.compiles[0].seconds
    assert all(not call.compile_ids and call.outcome == "hit" for call in others)
