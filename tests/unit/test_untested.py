"""The suite's own skip: it says what stays untested, and where everything is required it fails."""

import pytest
from untested import require

SENTENCE = "no-such-browser is not installed: the picture was not tested."


def test_a_program_that_is_there_is_found():
    assert require("sh", "nothing").endswith("sh")


def test_a_missing_program_skips_with_what_stays_untested(monkeypatch):
    monkeypatch.delenv("COURSE_REQUIRE_ALL", raising=False)
    with pytest.raises(pytest.skip.Exception, match=SENTENCE):
        require("no-such-browser", "the picture")


def test_where_everything_is_required_it_fails(monkeypatch):
    monkeypatch.setenv("COURSE_REQUIRE_ALL", "1")
    with pytest.raises(pytest.fail.Exception, match=SENTENCE):
        require("no-such-browser", "the picture")
