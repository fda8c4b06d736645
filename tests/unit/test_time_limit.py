"""A check comes to an end although the answer does not, and an ordinary check never notices the limit."""

import dataclasses
import functools
import signal
import threading
import time

import pytest

from autograder import judge
from autograder.exercise import Check, Exercise, NotYet
from autograder.judge import namespace_of
from autograder.time_limit import EndlessAnswerError, time_limit

pytestmark = pytest.mark.timeout(120, method="thread")  # the other method has a timer of its own: no limit then


def never(asked, found):
    raise NotYet("count", "came back", "it should not", "Look.")


ENDLESS = Exercise(
    name="toy_1",
    lesson="01_toy",
    points=2,
    asks_for=("count",),
    check=Check(lambda draw: {}, lambda answer, asked: {"got": answer.count()}, never),
    hints=("a", "b", "c"),
    known_mistakes=(),
)
LOOKS = 0.3, 0.5
ENDS_NEVER = {
    "computes": "def count():\n    n = 0\n    while True:\n        n += 1",
    "waits": "import time\ndef count():\n    while True:\n        time.sleep(0.01)",
    "catches what it can": """
def count():
    while True:
        try:
            sum(range(99))
        except Exception:
            pass
""",
    "compiles": """
@torch.compile(backend="eager")
def once(x):
    while True:
        x = x + 1

def count():
    return once(torch.ones(2))
""",
}


@pytest.fixture
def judged(monkeypatch):
    """What `ENDLESS` says of a program within a second or two; torch is loaded before the limit counts."""
    exercise_that_passes = dataclasses.replace(ENDLESS, check=Check(lambda draw: {}, lambda *_: {}, lambda *_: None))
    assert judge.judge(exercise_that_passes, namespace_of("def count(): pass")).passed
    monkeypatch.setattr(judge, "time_limit", functools.partial(time_limit, 0.5, 2.0, LOOKS))
    return lambda code: judge.judge(ENDLESS, namespace_of(code))


@pytest.mark.parametrize("kind", ENDS_NEVER)
def test_an_answer_without_an_end_is_told_its_line(kind, judged):
    verdict = judged(ENDS_NEVER[kind])
    assert verdict.points == 0
    assert verdict.sentence.startswith("count comes to no end; the check needs a result. Look at line ")
    assert len(verdict.sentence.split()) <= 45


def test_afterwards_no_timer_is_left_and_the_signal_is_as_it_was(judged):
    judged(ENDS_NEVER["computes"])
    with time_limit(0.05, looks=LOOKS):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_a_machine_that_is_busy_with_something_else_does_not_count():
    with time_limit(0.4, 60.0, LOOKS):
        time.sleep(1.0)


def test_a_timer_of_somebody_else_and_another_thread_are_left_alone():
    mine = lambda number, frame: None  # noqa: E731 - compared by identity
    signal.signal(signal.SIGALRM, mine)
    try:
        with time_limit():
            assert signal.getsignal(signal.SIGALRM) is mine
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    ran = []

    def elsewhere():
        with time_limit(0.01, looks=LOOKS):
            ran.append(sum(range(10**6)))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert ran


def test_the_limit_is_no_error_that_an_answer_catches():
    assert not issubclass(EndlessAnswerError, Exception)
