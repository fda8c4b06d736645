"""Lesson 4: which sizes and numbers are opened, and what keeps a number a constant. The same on torch 2.11 to 2.15."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the course writes it so
from torch import nn
from torch._dynamo import mark_dynamic
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

from compilescope import observe
from test_claims_lesson_04 import calls, compiles, marked, outcomes, rows, soften

NUMBERS = (2, 3, 4, 5)


def test_lesson_4_equal_open_sizes_share_a_symbol_so_a_square_is_compiled_for_squares_only():
    run = calls(soften, *map(rows, (6, 7, 8)), dynamic=True)
    assert outcomes(run) == ["first compile", "recompile", "hit"]
    assert [compiles(calls(soften, *map(rows, sizes), dynamic=True)) for sizes in ((7, 6, 8), (6, 6))] == [1, 1]


def test_lesson_4_one_marked_dimension_of_a_square_stands_for_itself():
    assert outcomes(calls(soften, marked(6), rows(7), rows(8))) == ["first compile", "hit", "hit"]


def compiles_of(mark, sizes):
    """How many compiles serving these numbers of rows of 5 costs, the single row as two."""
    torch.compiler.reset()
    fast = torch.compile(soften, backend="aot_eager", dynamic=None if mark else True)
    with observe() as run:
        for size in sizes:
            x = torch.ones(size, 5)
            several = torch.cat([x, x]) if size == 1 else x
            if mark:
                mark_dynamic(several, 0)
            assert fast(several)[:size].shape == x.shape
    return compiles(run)


@pytest.mark.parametrize("sizes", [(5, 7, 64, 1), (1, 5, 64), (4, 1, 5, 6)])
def test_lesson_4_with_dimension_0_marked_1_to_64_rows_of_5_cost_one_compile_in_any_order(sizes):
    assert compiles_of(True, sizes) == 1


def test_lesson_4_with_dynamic_true_5_rows_of_5_first_cost_two():
    assert compiles_of(False, (5, 7, 64, 1)) == 2


def longer(x):
    return x + 1 if len(x) < 8 else x


def test_lesson_4_a_comparison_narrows_a_marked_size_and_raises_where_its_range_was_given():
    assert outcomes(calls(longer, marked(5), rows(7))) == ["first compile", "hit"]
    with pytest.raises(ConstraintViolationError):
        calls(longer, marked(5, min=2, max=64))


def counted(x, k):
    for _ in range(k):
        x = x + 1
    return x


USES = {
    "int * ": (lambda x, k: x * k, 1, 2),
    "int + ": (lambda x, k: x + k, 1, 2),
    "float * ": (lambda x, k: x * k, 0.1, 2),
    "float + ": (lambda x, k: x + k, 0.1, 2),
    "float clamp": (lambda x, k: x.clamp(max=k), 0.1, 4),
    "float lerp": (lambda x, k: torch.lerp(x, x, k), 0.1, 4),
    "float leaky_relu": (lambda x, k: F.leaky_relu(x, k), 0.1, 4),
    "float dropout": (lambda x, k: F.dropout(x, k), 0.1, 4),
    "float alpha": (lambda x, k: torch.add(x, x, alpha=k), 0.1, 4),
    "int range": (counted, 1, 4),
}


@pytest.mark.parametrize("use", USES)
def test_lesson_4_a_number_is_opened_where_the_graph_computes_with_it_and_compiled_in_where_a_plain_one_is_wanted(use):
    fn, step, wanted = USES[use]
    assert compiles(calls(fn, *[(rows(4), k * step) for k in NUMBERS])) == wanted


RATE = 0


def rated(x):
    return x * RATE


class Scaled(nn.Module):
    gain = 0

    def forward(self, x):
        return x * self.gain


@pytest.mark.parametrize(("numbers", "wanted"), [(NUMBERS, 4), ((2.5, 3.5, 4.5, 5.5), 2)], ids=["int", "float"])
def test_lesson_4_a_float_global_and_a_float_of_a_module_are_opened_and_an_int_is_not(numbers, wanted):
    model, four = Scaled(), [rows(4)] * 4
    world = calls(rated, *four, before=lambda i: globals().update(RATE=numbers[i]))
    module = calls(model, *four, before=lambda i: setattr(model, "gain", numbers[i]))
    assert (compiles(world), compiles(module)) == (wanted, wanted)


def by_index(keys, row, place):
    keys[:, place] = row
    return keys.sum(1)


def by_slice(keys, row, place):
    keys[:, place : place + 1] = row
    return keys.sum(1)


@pytest.mark.parametrize(("write", "wanted"), [(by_index, 6), (by_slice, 2)])
def test_lesson_4_an_int_place_is_compiled_in_as_an_index_and_opened_as_a_slice(write, wanted):
    keys, row = torch.zeros(1, 12, 6), torch.ones(1, 1, 6)
    assert compiles(calls(write, *[(keys, row if write is by_slice else row[0], n) for n in range(6)])) == wanted
