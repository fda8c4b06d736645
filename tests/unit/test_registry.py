"""The registry of exercises, and what a mistyped name gets."""

import pytest

from autograder.exercises import UnknownExerciseError, everything, find, of_lesson


def test_names_are_unique_and_each_exercise_belongs_to_one_lesson():
    names = [exercise.name for exercise in everything()]
    assert len(set(names)) == len(names) > 0
    for exercise in everything():
        assert find(exercise.name) is exercise
        assert exercise in of_lesson(exercise.lesson)


def test_points_are_whole_and_positive_so_that_no_total_depends_on_rounding():
    assert all(type(exercise.points) is int and exercise.points > 0 for exercise in everything())


def test_a_mistyped_name_gets_the_nearest_one_and_no_traceback():
    with pytest.raises(UnknownExerciseError) as caught:
        find("basic1")
    assert caught.value._render_traceback_() == ['✗ There is no exercise "basic1". Did you mean "basic_1"?']
