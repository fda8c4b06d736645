"""What a learner meets in a notebook: `check`, `hint`, `predict`."""

import nbformat
import pytest
from nbclient import NotebookClient
from nbgrader.utils import determine_grade

from autograder import check, hint, learner, predict
from autograder.exercise import Check, Exercise, NotYet
from autograder.exercises import everything, find
from autograder.learner import CheckFailed
from autograder.prediction import Prediction


def judge_double(asked, found):
    if (got := found["got"]) != 8:
        raise NotYet("double(4)", f"gave {got}", "this exercise wants 8", "Look at the factor.")


TOY = Exercise(
    name="toy_1",
    lesson="01_toy",
    points=2,
    asks_for=("double",),
    check=Check(lambda draw: {}, lambda answer, asked: {"got": answer.double(4)}, judge_double),
    hints=("Look here.", "This rule.", "This shape. " * 20),
    known_mistakes=(),
)


@pytest.fixture(autouse=True)
def toy(monkeypatch, tmp_path):
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    monkeypatch.setattr(learner, "find", lambda name: TOY)
    monkeypatch.setattr(learner, "RUNNING", tmp_path / "running")
    monkeypatch.setattr(learner, "_rung", {})


def double(x):
    return 2 * x


def test_a_right_answer_prints_one_line_and_returns_nothing(capfd):
    assert check("toy_1", {"double": double}) is None
    out, err = capfd.readouterr()
    assert out == "✓ toy_1 · 2 of 2 points\n"
    assert err == ""


def shown(code):
    """The lines that Jupyter shows for a failed check of the function `double` in `code`."""
    names = {}
    exec(code, names)
    with pytest.raises(CheckFailed) as caught:
        check("toy_1", names)
    return caught.value._render_traceback_()


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("def double(x): return x", "double(4) gave 4; this exercise wants 8. Look at the factor."),
        ("def double(x): raise NotImplementedError('your code here')", "still to be written"),
        ("def twice(x): return 2 * x", "double is not defined"),
        ("import sys\ndef double(x): sys.exit(0)", "SystemExit"),
        ("def double(x): return 1 / 0", "ZeroDivisionError"),
        (f"def double(x): raise ValueError({'long ' * 200!r})", "ValueError"),
    ],
)
def test_an_answer_that_is_not_right_is_told_so_in_two_to_four_lines(code, says):
    lines = shown(code)
    assert 2 <= len(lines) <= 4
    assert lines[0] == "✗ toy_1 · 0 of 2 points"
    assert says in " ".join(lines)
    assert " ".join(lines).endswith('Stuck? hint("toy_1")')
    assert max(map(len, lines)) <= 100


def test_outside_a_notebook_check_says_how_to_call_it():
    with pytest.raises(RuntimeError, match=r"globals\(\)"):
        check("toy_1")


def test_the_note_of_a_running_check_is_there_while_it_runs_and_gone_after():
    seen = []

    def double_and_look(x):
        seen.extend(path.read_text() for path in learner.RUNNING.iterdir())
        return 2 * x

    check("toy_1", {"double": double_and_look})
    with pytest.raises(CheckFailed):
        check("toy_1", {})
    assert seen == ["toy_1"]
    assert list(learner.RUNNING.iterdir()) == []


def test_while_nbgrader_runs_a_students_notebook_no_note_is_left(monkeypatch):
    """An answer that ends its kernel would otherwise greet the instructor in their next notebook."""
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    check("toy_1", {"double": double})
    assert not learner.RUNNING.exists()


def test_a_full_or_locked_disk_stops_no_check(monkeypatch, tmp_path, capfd):
    blocked = tmp_path / "a file"
    blocked.write_text("")
    monkeypatch.setattr(learner, "RUNNING", blocked / "running")
    check("toy_1", {"double": double})
    assert "✓" in capfd.readouterr().out


def test_hints_climb_three_rungs_and_the_last_one_stays(capsys):
    said = []
    for _ in range(4):
        hint("toy_1")
        said.append(capsys.readouterr().out)
    assert said[0] == "Hint 1 of 3: Look here.\n"
    assert said[1].startswith("Hint 2 of 3: This rule.")
    assert said[2].startswith("Hint 3 of 3: This shape.")
    assert said[3] == said[2]
    assert max(len(line) for text in said for line in text.splitlines()) <= 100


def test_an_unknown_exercise_is_answered_with_the_nearest():
    with pytest.raises(LookupError, match='Did you mean "basic_1"'):
        find("baisc_1")


def test_names_of_exercises_are_unique():
    names = [exercise.name for exercise in everything()]
    assert names
    assert len(set(names)) == len(names)


def test_a_prediction_without_widgets_prints_question_and_choices_and_runs_nothing(capsys):
    ran = []
    predict("How many graphs?", [1, "none"], lambda: ran.append(1))
    assert capsys.readouterr().out == "Predict: How many graphs?\nChoices: 1 · none\n"
    assert ran == []


def clicked(choice, compute, choices=("1", "2")):
    prediction = Prediction("How many graphs?", choices, compute)
    {button.description: button for button in prediction.buttons}[choice].click()
    return prediction


@pytest.mark.parametrize(("choice", "style", "says"), [("2", "success", "Yes"), ("1", "warning", "Not this time")])
def test_a_click_runs_the_code_and_shows_what_happened(choice, style, says):
    prediction = clicked(choice, lambda: 2)
    said = prediction.box.children[-1].value
    assert prediction.answer == "2"
    assert says in said
    assert "the answer is <b>2</b>" in said
    marks = {button.description: (button.button_style, button.icon != "") for button in prediction.buttons}
    assert marks[choice] == (style, True)
    assert [mark for name, mark in marks.items() if name != choice] == [("", False)]


def test_a_second_click_answers_without_running_again():
    ran = []
    prediction = clicked("1", lambda: ran.append(1) or 2)
    prediction.buttons[1].click()
    assert ran == [1]
    assert "Yes" in prediction.box.children[-1].value
    assert [button.button_style for button in prediction.buttons] == ["", "success"]


def test_a_prediction_whose_code_fails_says_to_run_the_cells_above_and_can_be_tried_again():
    ready = []
    prediction = clicked("2", lambda: ready[0])
    assert "run the cells above" in prediction.box.children[-1].value
    ready.append(2)
    prediction.buttons[1].click()
    assert "Yes" in prediction.box.children[-1].value


def test_a_prediction_escapes_what_it_shows():
    prediction = clicked("1", lambda: "<b>x</b>")
    assert "&lt;b&gt;x&lt;/b&gt;" in prediction.box.children[-1].value


def test_a_prediction_needs_a_choice():
    with pytest.raises(ValueError, match="two different choices"):
        predict("How many?", [1, "1"], lambda: 1)


RIGHT = """
import os, sys, warnings
def load_checkpoint(model, state):
    os.write(2, b"a compiler says so"); print("so do I", file=sys.stderr); warnings.warn("and I")
    clean = {key.replace("_orig_mod.", ""): value for key, value in state.items()}
    model.load_state_dict({key: clean[key.replace("_orig_mod.", "")] for key in model.state_dict()})
"""
STUB = "def load_checkpoint(model, state):\n    raise NotImplementedError('your code here')"


def test_in_a_kernel_checks_print_or_fail_as_two_to_four_lines_and_nbgrader_scores_them(tmp_path, monkeypatch):
    """One notebook: nothing defined, unsolved, solved with noise on stderr, a hint, a prediction."""
    marks = {"grade": True, "points": 2, "solution": False, "locked": True, "grade_id": "x", "schema_version": 3}
    sources = [
        "from autograder import check, hint, predict",
        'check("basic_3")',
        STUB,
        'check("basic_3")',
        RIGHT,
        'check("basic_3")',
        'hint("basic_3")',
        'predict("How many graphs?", [1, 2], lambda: 2)',
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    NotebookClient(notebook, timeout=120, allow_errors=True).execute()
    cells = notebook.cells
    for cell in cells:
        assert not [output for output in cell.outputs if output.output_type == "stream" and output.name == "stderr"]
        cell.metadata.nbgrader = marks
    for index, says in ((1, "load_checkpoint is not defined"), (3, "still to be written")):
        (error,) = cells[index].outputs
        assert (error.output_type, error.ename) == ("error", "CheckFailed")
        assert 2 <= len(error.traceback) <= 4
        assert says in " ".join(error.traceback)
        assert determine_grade(cells[index])[0] == 0
    (passed,) = cells[5].outputs
    assert (passed.name, passed.text) == ("stdout", "✓ basic_3 · 2 of 2 points\n")
    assert determine_grade(cells[5])[0] == 2
    shown, button = cells[6].outputs
    assert shown.data["text/plain"].startswith("Hint 1 of 3: ")
    assert "<b>Hint 1 of 3</b> (where to look)" in shown.data["text/html"]
    assert button.data["text/plain"] == 'The next one, which rule: hint("basic_3")'
    assert "application/vnd.jupyter.widget-view+json" in button.data
    assert cells[7].outputs[0].data["text/plain"] == "Predict: How many graphs?\nChoices: 1 · 2"
    assert "application/vnd.jupyter.widget-view+json" in cells[7].outputs[0].data
