"""The line that says what a long compile waits for."""

import json
import threading

import pytest
import torch

from compilescope import waiting
from compilescope.waiting import SAID, WaitingLine, waiting_line


class Desk:
    """A clock that is set by hand, and the lines that were said."""

    def __init__(self, **last):
        self.now, self.lines, self.memory = 0.0, [], dict(last)
        self.line = WaitingLine(self.lines.append, self.memory, lambda: self.now)

    def event(self, name, mark, at):
        self.now = at
        self.line.record({"chromium_event": {}}, json.dumps({"name": name, "ph": mark}))


def test_a_short_compile_says_nothing():
    desk = Desk()
    desk.event("inductor_compile", "B", 0.2)
    desk.event("inductor_compile", "E", 0.9)
    desk.line.close()
    assert desk.lines == []


def test_a_long_one_says_its_phase_and_is_taken_away():
    desk = Desk()
    desk.event("bytecode_tracing", "B", 0.1)
    desk.event("bytecode_tracing", "E", 1.2)
    desk.event("inductor_compile", "B", 1.3)
    desk.event("compile_file", "B", 2.0)
    desk.line.close()
    assert [line.split(" …")[0] for line in desk.lines] == [SAID["inductor_compile"], SAID["compile_file"], ""]


def test_what_took_long_last_time_is_said_at_once_with_its_seconds():
    desk = Desk(inductor_compile=9.0)
    desk.event("inductor_compile", "B", 0.1)
    assert desk.lines[0].endswith("9 s")
    desk.event("inductor_compile", "E", 4.1)
    assert desk.memory["inductor_compile"] == 4.0


@pytest.mark.parametrize("payload", ["not json", "[]", "[1]", '{"name": "inductor_compile"}', None])
def test_a_record_of_another_shape_is_left_alone(payload):
    desk = Desk()
    desk.line.record({"chromium_event": {}}, payload)
    desk.line.record({"dynamo_start": {}}, "x")
    assert desk.lines == []


def test_another_threads_compile_is_not_said():
    desk = Desk()
    worker = threading.Thread(target=desk.event, args=("inductor_compile", "B", 5.0))
    worker.start()
    worker.join()
    assert desk.lines == []


def test_torch_still_names_these_phases(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(waiting, "_notebook_line", lambda: seen.append)
    monkeypatch.setattr(waiting, "_MEMORY", tmp_path / "waits.json")
    monkeypatch.setattr(waiting, "PATIENCE", 0.0)
    torch.compiler.reset()
    with waiting_line():
        torch.compile(lambda x: x.sin() + 1, backend="aot_eager")(torch.ones(3))
    said = {line.split(" …")[0] for line in seen}
    assert {SAID["bytecode_tracing"], SAID["create_aot_dispatcher_function"], ""} <= said
    assert "bytecode_tracing" in json.loads((tmp_path / "waits.json").read_text())


def test_outside_a_notebook_nothing_listens_and_nothing_is_printed(capfd):
    import logging

    before = list(logging.getLogger("torch.__trace").handlers)
    with waiting_line():
        assert logging.getLogger("torch.__trace").handlers == before
    assert capfd.readouterr() == ("", "")
