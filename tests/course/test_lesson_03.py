"""Lesson 3, beyond what holds for every lesson: what its exercises draw."""

import dataclasses

import pytest
import torch

from autograder.exercise import Answer, Draw, NotYet
from autograder.exercises.breaks import eager, log_line, search, until
from autograder.judge import namespace_of
from compilescope import observe
from compilescope.facts import Code


def stops_in(source):
    torch.compiler.reset()
    model = namespace_of(source, "ranker")["Ranker"](search.WIDTH)
    run = observe(torch.compile(model, backend="aot_eager"), torch.randn(4, search.WIDTH))
    return {stop.source.function for stop in (*run.breaks, *run.not_compiled)}


@pytest.mark.parametrize("name", search.CLEAN)
def test_each_call_breaks_in_its_broken_form_alone(name):
    assert stops_in(search.source_of({name})) == {name}


def test_no_call_breaks_in_its_clean_form_however_suspicious_it_looks():
    assert stops_in(search.source_of(set())) == set()


@pytest.mark.parametrize("seed", range(3))
def test_each_draw_of_models_has_one_without_a_break_and_one_with_two(seed):
    sources = search.ask(Draw(seed))["sources"]
    assert sorted(len(search.broken_in(source)) for source in sources) == [0, 2]


@pytest.mark.parametrize("seed", range(20))
def test_the_two_roots_of_a_draw_need_different_numbers_of_steps(seed):
    near, far = (until.reference(a)[1] for a in until.ask(Draw(seed))["calls"])
    assert 0 < near < far


@pytest.mark.parametrize("module", [log_line, eager])
def test_where_aot_eager_is_asked_for_inductor_is_refused(module):
    check = module.EXERCISE.check
    asked = check.ask(Draw(3))
    found = check.probe(Answer(namespace_of(module.EXERCISE.alternatives[0])), asked)
    check.judge(asked, found)
    run = found["calls"][0]["run"]
    first, *others = run.compiles
    by_inductor = dataclasses.replace(first, code=(Code(first.compile_id, "forward", "# a wrapper"),))
    found["calls"][0]["run"] = dataclasses.replace(run, compiles=(by_inductor, *others))
    with pytest.raises(NotYet, match='backend="aot_eager" is wanted'):
        check.judge(asked, found)
