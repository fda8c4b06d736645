"""Lessons 6 to 8: what a check draws lies on the device that is there."""

from unittest import mock

import pytest
import torch

from autograder.exercise import Draw
from autograder.exercises import find, of_lesson

LESSONS = ("06_distributed", "07_regional", "08_capstone")
NO_TENSORS = {"dist_2", "dist_4", "dist_6", "regional_2"}
READ = {"dist_5", "capstone_1"}
"""Their draw reads its own numbers, and a device without numbers has none."""
DRAWN = [one.name for lesson in LESSONS for one in of_lesson(lesson) if one.name not in NO_TENSORS | READ]


def tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from tensors(one)


@pytest.mark.parametrize("name", DRAWN)
def test_every_tensor_of_a_draw_is_on_its_device(name):
    with mock.patch.object(Draw, "device", "meta"):  # stands for a GPU: not the default, and there on any machine
        found = list(tensors(find(name).check.ask(Draw(7))))
    assert found
    assert {one.device.type for one in found} == {"meta"}


@pytest.mark.parametrize("name", sorted(NO_TENSORS))
def test_the_others_draw_no_tensor_at_all(name):
    assert not list(tensors(find(name).check.ask(Draw(7))))
