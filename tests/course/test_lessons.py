"""Each lesson, proved three ways: solved passes, unsolved fails kindly, known mistakes get their sentences."""

import pytest

from autograder import budgets, prove
from autograder.build import build, lessons
from autograder.exercises import everything

LESSONS = {lesson.name: lesson for lesson in lessons()}
EXERCISES = {exercise.name: exercise for exercise in everything()}


def test_every_exercise_has_its_lesson():
    assert list(prove.orphan_problems()) == []


def test_the_notebooks_are_those_of_the_sources():
    assert build(write=False) == [], "Run: make build"


@pytest.mark.parametrize("name", LESSONS)
def test_form_budgets_leaks_and_registry(name):
    lesson = LESSONS[name]
    looks = (budgets.source_problems, budgets.leak_problems, prove.registry_problems)
    assert [problem for look in looks for problem in look(lesson)] == []


@pytest.mark.parametrize("name", EXERCISES)
def test_each_known_mistake_gets_its_own_sentence(name):
    exercise = EXERCISES[name]
    assert [p for mistake in exercise.known_mistakes for p in prove.mistake_problems(exercise, mistake)] == []


@pytest.mark.parametrize("name", EXERCISES)
def test_each_other_right_answer_passes(name):
    exercise = EXERCISES[name]
    assert [p for code in exercise.alternatives for p in prove.alternative_problems(exercise, code)] == []


@pytest.mark.parametrize("name", LESSONS)
def test_the_solved_lesson_gives_full_points_within_its_budgets(name):
    assert list(prove.solved_problems(prove.Proof(name), LESSONS[name])) == []


@pytest.mark.parametrize("name", LESSONS)
def test_the_unsolved_lesson_fails_in_its_checks_only_and_kindly(name):
    assert list(prove.unsolved_problems(prove.Proof(name), LESSONS[name])) == []
