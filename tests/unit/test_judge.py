"""`judge`: fresh inputs, the first failing fact in four parts, never a traceback of ours."""

import dataclasses
import sys

import pytest

from autograder.exercise import Answer, Check, Draw, Exercise, NotYet
from autograder.judge import judge, namespace_of
from autograder.wire import Opaque


def judge_double(asked, found):
    x, got = asked["x"], found["got"]
    if got != 2 * x:
        raise NotYet(f"double({x})", f"gave {got}", f"this exercise wants {2 * x}", "Look at the factor.")
    return f"{x} doubled"


CHECK = Check(
    lambda draw: {"x": draw.size(3, 99)}, lambda answer, asked: {"got": answer.double(asked["x"])}, judge_double
)


DOUBLE = Exercise(
    name="toy_1",
    lesson="01_toy",
    points=2,
    asks_for=("double",),
    check=CHECK,
    hints=("a", "b", "c"),
    known_mistakes=(),
)


def verdict_on(code, exercise=DOUBLE, **options):
    return judge(exercise, namespace_of(code), **options)


def test_a_right_answer_gets_its_points_and_a_fact():
    verdict = verdict_on("def double(x): return 2 * x", draw=Draw(1))
    assert (verdict.passed, verdict.points, verdict.out_of) == (True, 2, 2)
    assert verdict.sentence.endswith("doubled")


def test_a_wrong_answer_is_told_what_ran_what_came_out_what_was_wanted_and_where_to_look():
    verdict = verdict_on("def double(x): return 7")
    assert (verdict.passed, verdict.points, verdict.out_of) == (False, 0, 2)
    ran, rest = verdict.sentence.split(" gave 7; this exercise wants ")
    assert ran.startswith("double(")
    assert rest.endswith(". Look at the factor.")


def test_a_missing_name_is_told_kindly():
    sentence = verdict_on("def dubble(x): return 2 * x").sentence
    assert sentence.startswith("double is not defined")
    assert "Run the cell above" in sentence


def test_an_unsolved_stub_is_told_kindly_without_running_it():
    code = "ran = []\ndef double(x):\n    ran.append(1)\n    raise NotImplementedError('your code here')"
    names = namespace_of(code)
    verdict = judge(DOUBLE, names)
    assert "still to be written" in verdict.sentence
    assert names["ran"] == []


def test_an_unsolved_method_counts_as_unsolved():
    exercise = dataclasses.replace(DOUBLE, asks_for=("Double",))
    code = "class Double:\n    def forward(self):\n        raise NotImplementedError('your code here')"
    assert "still to be written" in verdict_on(code, exercise).sentence


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("def double(x):\n    y = x\n    return y / 0", ("ZeroDivisionError", "line 3", "return y / 0")),
        ("import sys\ndef double(x):\n    sys.exit(1)", ("SystemExit", "line 3", "sys.exit(1)")),
        ("def double(x):\n    return double(x)", ("RecursionError", "line 2")),
        ("class Odd(BaseException): pass\ndef double(x):\n    raise Odd", ("Odd", "line 3")),
        ("def double():\n    return 1", ("TypeError",)),
        ("double = 3", ("TypeError", "not callable")),
        ("def double(x):\n    raise ValueError('a\\nb' + ' word' * 90)", ("ValueError: a", "line 2")),
    ],
)
def test_what_an_answer_raises_is_said_with_its_line(code, says):
    verdict = verdict_on(code)
    assert not verdict.passed
    assert verdict.points == 0
    for fragment in says:
        assert fragment in verdict.sentence
    assert "\n" not in verdict.sentence
    assert len(verdict.sentence.split()) <= 45


def test_an_interrupt_by_the_learner_is_no_wrong_answer():
    with pytest.raises(KeyboardInterrupt):
        verdict_on("def double(x): raise KeyboardInterrupt")


def test_what_an_answer_prints_is_kept_out_of_the_notebook(capsys):
    verdict = verdict_on("import sys\ndef double(x):\n    print('psst', file=sys.stderr)\n    return 2 * x")
    assert verdict.passed
    assert verdict.output == "psst\n"
    assert capsys.readouterr() == ("", "")


def test_a_check_starts_with_nothing_compiled_and_leaves_nothing_behind():
    import torch

    def counts_compiles(answer, asked):
        compiled = []

        def backend(graph, inputs):
            compiled.append(graph)
            return graph.forward

        torch.compile(answer.double, backend=backend)(torch.ones(2))
        torch.compiler.set_stance("force_eager")
        return {"compiled": len(compiled)}

    def judges_compiles(asked, found):
        counts_compiles(Answer(names), asked)  # what an answer leaves on must not reach the judge
        if found["compiled"] != 1:
            raise NotYet("double", f"compiled {found['compiled']} times", "1 is wanted", "Look.")

    names = namespace_of("def double(x): return 2 * x")
    exercise = dataclasses.replace(DOUBLE, check=Check(lambda draw: {}, counts_compiles, judges_compiles))
    torch.compiler.set_stance("force_eager")
    for _ in range(2):
        assert judge(exercise, names).sentence == ""
    seen = []
    torch.compile(names["double"], backend=lambda graph, _: seen.append(1) or graph.forward)(torch.ones(2))
    torch.compiler.reset()
    assert seen == [1]


def test_a_missing_name_raises_notyet_and_no_attribute_error():
    with pytest.raises(NotYet, match="price is not defined"):
        _ = Answer({}).price


def drawn(exercise, monkeypatch, secret):
    if secret is None:
        monkeypatch.delenv("COURSE_SECRET", raising=False)
    else:
        monkeypatch.setenv("COURSE_SECRET", secret)
    draw = Draw.fresh(exercise)
    values = draw.tensor(2, 3)
    return (
        draw.seed,
        draw.size(1, 10**9),
        draw.number(0, 1),
        tuple(values.flatten().tolist()),
        draw.choice(range(10**6)),
    )


def test_with_a_secret_the_inputs_of_an_exercise_are_the_same_again_and_differ_from_anothers(monkeypatch):
    first = drawn("basic_1", monkeypatch, "s3cret")
    assert drawn("basic_1", monkeypatch, "s3cret") == first
    others = drawn("basic_2", monkeypatch, "s3cret"), drawn("basic_1", monkeypatch, "another")
    for other in others:
        assert all(a != b for a, b in zip(first, other, strict=True))


def test_without_a_secret_every_check_draws_anew(monkeypatch):
    assert len({drawn("basic_1", monkeypatch, None)[0] for _ in range(20)}) == 20


def test_draws_have_the_size_and_type_that_was_asked_for():
    import torch

    draw = Draw(7)
    assert {draw.size(2, 4) for _ in range(99)} == {2, 3, 4}
    tensor = draw.tensor(4, 5, dtype=torch.float64, requires_grad=True)
    assert (tuple(tensor.shape), tensor.dtype, tensor.requires_grad) == ((4, 5), torch.float64, True)
    assert str(tensor.device.type) == draw.device


def test_lines_of_an_answer_stay_readable_for_tracebacks():
    import linecache

    names = namespace_of("def double(x):\n    return 2 * x", "mine")
    file = names["double"].__code__.co_filename
    assert linecache.getline(file, 2) == "    return 2 * x"
    assert sys.modules["mine"].double is names["double"]


def test_an_answer_gets_a_copy_of_its_inputs_and_the_judge_sees_what_would_cross_to_a_grader():
    seen = {}

    def keep(asked, found):
        seen.update(asked=asked, found=found)

    def probe(answer, asked):
        asked["numbers"].append(9)
        return {"pair": (1, 2), "odd": answer.double}

    exercise = dataclasses.replace(DOUBLE, check=Check(lambda draw: {"numbers": [1]}, probe, keep))
    assert verdict_on("def double(x): return 2 * x", exercise).passed
    assert seen == {"asked": {"numbers": [1]}, "found": {"pair": [1, 2], "odd": Opaque("function")}}
