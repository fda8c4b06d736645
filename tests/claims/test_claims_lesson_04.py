"""Lesson 4: what the running torch does about each claim of the source texts that the lesson teaches.

Each test is named after its row of the syllabus, ``test_row_NN_…``; those named ``test_lesson_4_…`` hold the lesson's
own sentences. Where versions differ, the test says from which on.
"""

import re

import pytest
import torch
from torch import nn
from torch._dynamo import mark_dynamic, maybe_mark_dynamic
from torch._dynamo.exc import FailOnRecompileLimitHit

from compilescope import observe, would_recompile

LIMIT = 8
UNITS = {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "km": 1e3}


def calls(fn, *arguments, before=lambda i: None, backend="aot_eager", **options):
    torch.compiler.reset()
    fast = torch.compile(fn, backend=backend, **options)
    with observe() as run, torch.enable_grad():
        for i, one in enumerate(arguments):
            before(i)
            fast(*one) if isinstance(one, tuple) else fast(one)
    return run


def outcomes(run):
    return [call.outcome for call in run.calls]


def compiles(run):
    return sum(bool(one.graphs) for one in run.compiles)


def soften(x, temperature=2.0):
    return (x / temperature).softmax(-1)


def wave(x, k=2.0):
    return torch.sin(x) * k


def rows(n, dtype=torch.float32):
    return torch.ones(n, 6, dtype=dtype)


def marked(n, **limits):
    x = rows(n)
    mark_dynamic(x, 0, **limits)
    return x


SIZES = [5, 7, 9, 1, 0, 11]


def scheduled(kind, rate, backend="aot_eager"):
    weight = nn.Parameter(torch.ones(6))
    weight.grad = torch.ones(6)
    optimizer = kind([weight], lr=rate)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    run = calls(optimizer.step, *[()] * 5, before=lambda i: i and schedule.step(), backend=backend)
    return compiles(run), run


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.RMSprop, torch.optim.Adam, torch.optim.Adagrad])
def test_row_07_the_update_is_one_graph_and_a_tensor_rate_keeps_it(kind):
    assert scheduled(kind, torch.tensor(0.1))[0] == 1


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [(torch.optim.SGD, 5), (torch.optim.RMSprop, 5), (torch.optim.Adam, 2), (torch.optim.Adagrad, 2)],
)
def test_row_07_a_float_rate_costs_two_compiles_where_it_is_computed_with_and_one_a_step_as_alpha(kind, wanted):
    found, run = scheduled(kind, 0.1)
    assert found == wanted
    assert "['lr']" in run.calls[1].refusals[0].subject


def test_row_20_fixed_shapes_need_one_compile_and_three_sizes_two():
    assert outcomes(calls(soften, *[rows(4)] * 4)) == ["first compile", "hit", "hit", "hit"]
    assert outcomes(calls(soften, rows(4), rows(5), rows(6))) == ["first compile", "recompile", "hit"]


TALL, WEIGHT = torch.ones(6, 4), torch.ones(4, 6, requires_grad=True)
OTHERS = {
    "size": (rows(5), "'x' size|size\\(\\)"),
    "dtype": (rows(4, torch.float64), "dtype"),
    "stride": (TALL.mT, "stride"),
    "requires_grad": (WEIGHT, "requires_grad"),
    "number of dimensions": (torch.ones(4), "rank|dim"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_row_26_guards_check_what_a_tensor_is_on_each_call(what):
    other, guard = OTHERS[what]
    run = calls(wave, rows(4), rows(4) * 3, other)
    assert outcomes(run) == ["first compile", "hit", "recompile"]
    assert re.search(guard, run.calls[2].refusals[0].expression)


def test_row_26_guards_can_be_asked_without_a_call():
    torch.compiler.reset()
    fast = torch.compile(soften, backend="aot_eager")
    fast(rows(4)), fast(rows(5))
    with observe() as run:
        said = [would_recompile(fast, x).outcome for x in (rows(400), rows(4, torch.float64))]
    assert said == ["hit", "recompile"]
    assert not run.calls


DYNAMIC = {None: "◆↻●↻↻●", False: "◆↻↻↻↻↻", True: "◆●●↻↻●"}
SIGNS = {"first compile": "◆", "recompile": "↻", "hit": "●", "gave up": "■"}


@pytest.mark.parametrize("dynamic", DYNAMIC)
def test_row_34_dynamic_none_opens_what_changed_false_nothing_true_everything(dynamic):
    run = calls(soften, *map(rows, SIZES), dynamic=dynamic)
    assert "".join(SIGNS[one] for one in outcomes(run)) == DYNAMIC[dynamic]


def test_row_34_a_marked_size_is_open_from_the_first_call_within_its_range():
    run = calls(soften, marked(5), *map(rows, SIZES[1:]))
    assert "".join(SIGNS[one] for one in outcomes(run)) == DYNAMIC[True]
    run = calls(soften, marked(5, min=2, max=8), rows(7), rows(9))
    assert outcomes(run) == ["first compile", "hit", "recompile"]
    assert (run.compiles[0].symbols[0].minimum, run.compiles[0].symbols[0].maximum) == (2, 8)


def tagged(x, name):
    return x * len(name)


TEN = [(torch.ones(2), "n" * length) for length in range(1, 11)]


def test_row_37_frequent_recompiles_hit_a_limit_then_plain_python_and_old_entries_still_answer():
    assert torch._dynamo.config.recompile_limit == LIMIT
    run = calls(tagged, *TEN, TEN[0], TEN[-1])
    assert outcomes(run) == ["first compile", *["recompile"] * 7, "gave up", "gave up", "hit", "gave up"]
    assert [one.kind for one in run.not_compiled] == ["limit"]


def test_row_37_under_fullgraph_the_limit_is_an_error():
    with pytest.raises(FailOnRecompileLimitHit):
        calls(tagged, *TEN, fullgraph=True)


def discounted(x):
    y = x.softmax(-1)
    if len(x) == 5:
        y = y / 2
    return y.sum(0)


def test_lesson_4_an_equality_specializes_and_the_symbol_names_the_line():
    x = rows(5)
    maybe_mark_dynamic(x, 0)
    run = calls(discounted, x, rows(7), rows(9))
    (symbol,) = run.compiles[0].symbols
    assert (symbol.specialized_to, symbol.specialized_by.code) == (5, "if len(x) == 5:")
    assert compiles(run) == 2


def test_lesson_4_mark_dynamic_raises_where_the_code_specializes():
    with pytest.raises(Exception, match="specialize"):
        calls(discounted, marked(5))


def test_lesson_4_a_comparison_narrows_and_a_loop_over_the_size_specializes():
    def longer(x):
        return x + 1 if len(x) > 8 else x

    def unrolled(x):
        return sum(x[i] for i in range(len(x)))

    assert compiles(calls(longer, marked(5), rows(7), rows(3))) == 1
    assert compiles(calls(longer, marked(5), rows(9), rows(11))) == 2
    assert compiles(calls(unrolled, *map(rows, (5, 7, 9)), dynamic=True)) == 3


class Gated(nn.Module):
    def __init__(self, gain, steps):
        super().__init__()
        self.gain, self.steps, self.drop = gain, steps, nn.Dropout()

    def forward(self, x):
        return self.drop(x) * self.gain


class Counting(Gated):
    def forward(self, x):
        self.steps += 1
        return x * self.steps


RATE = 0


def rated(x):
    return x * RATE


X4 = [rows(4)] * 4
VALUES = {
    "int": (lambda: calls(wave, *[(rows(4), k) for k in (2, 3, 4, 5)]), 2),
    "float": (lambda: calls(wave, *[(rows(4), k / 2) for k in (2, 3, 4, 5)]), 2),
    "string": (lambda: calls(lambda x, unit: x * UNITS[unit], *[(rows(4), unit) for unit in UNITS]), 4),
    "list": (lambda: calls(lambda x, parts: sum(parts, x), *[(rows(4), [rows(4)] * k) for k in (2, 3, 4, 5)]), 4),
    "global": (lambda: calls(rated, *X4, before=lambda i: globals().update(RATE=i + 2)), 4),
    "tensor": (lambda: calls(wave, *[(rows(4), torch.tensor(k / 2)) for k in (2, 3, 4, 5)]), 1),
}


@pytest.mark.parametrize("kind", VALUES)
def test_lesson_4_numbers_open_at_the_second_value_strings_lengths_and_globals_never(kind):
    run, wanted = VALUES[kind]
    assert compiles(run()) == wanted


def test_lesson_4_modes_cost_one_entry_each_and_ints_of_a_module_one_a_value():
    model = Gated(1, 0)
    switching = calls(model, *X4, before=lambda i: model.train(i % 2 == 0))
    assert outcomes(switching) == ["first compile", "recompile", "hit", "hit"]
    grad = calls(wave, *X4, before=lambda i: torch.set_grad_enabled(i % 2 == 0))
    assert outcomes(grad) == ["first compile", "recompile", "hit", "hit"]
    assert grad.calls[1].refusals[0].subject == "grad_mode"
    assert compiles(calls(model, *X4, before=lambda i: setattr(model, "gain", i + 2))) == 4
    assert compiles(calls(Counting(1, 0), *X4)) == 4
    assert compiles(calls(Counting(1, torch.tensor(0)), *X4)) == 1


def test_lesson_4_blocks_of_one_class_share_their_code():
    blocks = [Gated(torch.tensor(i), 0) for i in range(12)]
    torch.compiler.reset()
    for block in blocks:
        block.compile(backend="aot_eager")
    with observe() as run, torch.no_grad():
        for block in blocks:
            block(rows(4))
    assert outcomes(run) == ["first compile", *["hit"] * 11]


def test_lesson_4_under_fail_on_recompile_what_is_warm_is_served_and_another_grad_mode_is_refused():
    torch.compiler.reset()
    server = torch.compile(soften, backend="aot_eager", dynamic=True)
    with torch.no_grad():
        server(rows(1)), server(rows(2))
    with torch.compiler.set_stance("fail_on_recompile"):
        with torch.no_grad():
            for n in (1, 2, 64):
                server(rows(n))
        with pytest.raises(RuntimeError):
            server(rows(64))


def attend(q, keys):
    return (keys @ q).softmax(1).mT @ keys


def attend_at(q, keys, place):
    keys[:, place] = q.mT
    return attend(q, keys)


def attend_hiding(q, keys, place):
    keys.index_copy_(1, place, q[None].mT)
    seen = torch.arange(keys.shape[1]) <= place
    return (keys @ q).masked_fill(~seen[:, None], -torch.inf).softmax(1).mT @ keys


def test_lesson_4_a_growing_cache_costs_two_compiles_an_int_place_one_a_token_a_tensor_place_one():
    q, keys = torch.ones(6, 1), torch.zeros(1, 12, 6)
    growing = [(q, torch.ones(1, n, 6)) for n in range(1, 7)]
    assert compiles(calls(attend, *growing)) == 2
    assert compiles(calls(attend, *growing, dynamic=False)) == 6
    assert compiles(calls(attend_at, *[(q, keys, n) for n in range(6)])) == 6
    assert compiles(calls(attend_hiding, *[(q, keys, torch.tensor([n])) for n in range(6)])) == 1
