"""Lesson 6, beyond what holds for every lesson: its predictions, and what its exercises draw."""

import ast

import pytest

import autograder
from autograder.build import lesson_named, solved_notebook
from autograder.exercise import Draw
from autograder.exercises.distributed import bucket, clip, predicting
from autograder.judge import namespace_of
from compilescope.ranks import end_ranks


def definitions_and_predictions():
    """The lesson's code without what only shows something: fewer ranks to start."""
    cells = [cell.source for cell in solved_notebook(lesson_named("06_distributed")).cells if cell.cell_type == "code"]
    tree = ast.parse("\n\n".join(source for source in cells if not source.startswith("check(")))
    kept = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    tree.body = [one for one in tree.body if isinstance(one, kept) or ast.unparse(one).startswith("predict(")]
    return ast.unparse(tree)


def test_the_computed_answer_of_each_prediction_is_one_of_its_choices(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    answers = {}

    def predict(question, choices, compute):
        answers[question] = str(compute()), [str(choice) for choice in choices]

    monkeypatch.setattr(autograder, "predict", predict)
    namespace_of(definitions_and_predictions(), "lesson6")
    end_ranks()
    assert len(answers) == 5
    assert [question for question, (answer, choices) in answers.items() if answer not in choices] == []
    assert sorted(answer for answer, _ in answers.values())[:1] == ["2"], "three blocks share two graphs"


@pytest.mark.parametrize("seed", range(20))
def test_no_wrong_rule_about_buckets_is_right_by_chance(seed):
    tasks = bucket.ask(Draw(seed))["tasks"]
    for guess in bucket._GUESSES:
        right = []
        for task in tasks:
            sizes = [bucket.size_of(task["width"])] * task["layers"]
            right.append(bucket.pieces_for(sizes, guess(sizes, task["wanted"])) == task["wanted"])
        assert not all(right)


@pytest.mark.parametrize("seed", range(20))
def test_predictions_of_one_draw_need_the_rule(seed):
    tasks = predicting.ask(Draw(seed))["tasks"]
    cuts = [predicting.graphs_of("DDP inside", task) for task in tasks]
    assert cuts[0] != cuts[1]
    assert [predicting.graphs_of("FSDP2 blocks", task) for task in tasks] == [2, 1]


@pytest.mark.parametrize("seed", range(20))
def test_the_gradients_of_one_draw_lie_on_both_sides_of_the_limit(seed):
    asked = clip.ask(Draw(seed))
    limit, norms = asked["limit"], [[float(one.norm()) for one in case] for case in asked["cases"]]
    assert norms[0][0] < limit < norms[0][1], "alone the ranks would disagree"
    assert min(norms[1]) > limit
    assert sum(norm**2 for norm in norms[2]) < limit**2
