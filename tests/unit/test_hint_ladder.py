"""The hint ladder, driven without a front end."""

import nbformat
import pytest
from nbclient import NotebookClient

from autograder.hint_ladder import Ladder

HINTS = ("Look at <line 3>.", "The rule.", "The shape.")


@pytest.fixture
def climbs():
    return []


@pytest.fixture
def ladder(climbs):
    return Ladder("toy_1", HINTS, 0, climbs.append)


def test_one_rung_is_shown_and_the_button_names_the_next(ladder):
    assert ladder.text == "Hint 1 of 3: Look at <line 3>."
    assert ladder.button.description == "Hint 2 of 3: which rule"


def test_each_click_shows_one_hint_more_and_is_noted_once(ladder, climbs):
    ladder.button.click()
    assert ladder.text == "Hint 1 of 3: Look at <line 3>.\nHint 2 of 3: The rule."
    ladder.button.click()
    assert ladder.text.endswith("Hint 3 of 3: The shape.")
    assert climbs == [1, 2]


def test_at_the_last_rung_the_button_is_gone_and_another_click_changes_nothing(ladder, climbs):
    for _ in range(4):
        ladder.button.click()
    assert ladder.button.layout.display == "none"
    assert ladder.text.count("Hint") == 3
    assert climbs == [1, 2]


def test_a_ladder_that_is_asked_for_again_starts_at_the_next_rung_and_the_last_one_stays():
    assert Ladder("toy_1", HINTS, 1, print).text == "Hint 2 of 3: The rule."
    assert Ladder("toy_1", HINTS, 7, print).text == "Hint 3 of 3: The shape."


def test_the_html_twin_says_what_each_rung_is_about_and_takes_names_literally(ladder):
    assert ladder.html == "<p><b>Hint 1 of 3</b> (where to look): Look at &lt;line 3&gt;.</p>"


def test_in_a_kernel_a_click_updates_the_hints_that_are_stored_in_the_notebook(tmp_path, monkeypatch):
    """A saved notebook keeps what was climbed to: the hints are an ordinary output, not the widget's state."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code = f"from autograder.hint_ladder import Ladder\nladder = Ladder('toy_1', {HINTS!r}, 0, lambda rung: None)"
    cells = [code, "ladder.show()", "ladder.button.click()"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    NotebookClient(notebook, timeout=60).execute()
    hints, button = notebook.cells[1].outputs
    assert hints.data["text/plain"].splitlines()[1] == "Hint 2 of 3: The rule."
    assert "Hint 2 of 3" in hints.data["text/html"]
    assert button.data["text/plain"] == 'The next one, which rule: hint("toy_1")'
