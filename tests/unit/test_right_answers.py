"""Our right answers are compiled two at a time before a class is graded, and each is heard and ended."""

from types import SimpleNamespace

import pytest

from autograder.grading import warm


@pytest.fixture
def happened(monkeypatch):
    found = []

    def begun(_, question, *__):
        found.append(f"begin {question.name}")
        return SimpleNamespace(end=lambda: found.append(f"end {question.name}"))

    def left_by(question, job):
        found.append(f"hear {question.name}")
        job.end()
        return question, {}, question.name

    monkeypatch.setattr(warm, "_begun", begun)
    monkeypatch.setattr(warm, "_left_by", left_by)
    return found


def asked(*names):
    return [SimpleNamespace(name=name, exercise=SimpleNamespace(alternatives=("pass",))) for name in names]


def answers(*names):
    return [reported for _, _, reported in warm.right_answers(None, asked(*names), None)]


def test_the_next_one_begins_before_one_is_heard(happened, monkeypatch):
    monkeypatch.setattr(warm, "gpus_here", lambda: False)
    assert answers("a", "b", "c") == ["a", "b", "c"]
    assert [one for one in happened if "end" not in one] == [
        "begin a", "begin b", "hear a", "begin c", "hear b", "hear c",
    ]  # fmt: skip


def test_on_a_gpu_one_ends_before_the_next_begins(happened, monkeypatch):
    monkeypatch.setattr(warm, "gpus_here", lambda: True)
    assert answers("a", "b") == ["a", "b"]
    assert happened[:6] == ["begin a", "hear a", "end a", "begin b", "hear b", "end b"]


def test_what_was_begun_ends_where_one_is_refused(happened, monkeypatch):
    monkeypatch.setattr(warm, "gpus_here", lambda: False)
    for _ in warm.right_answers(None, asked("a", "b", "c"), None):
        break
    assert {"end a", "end b"} <= set(happened)
    assert "begin c" not in happened
