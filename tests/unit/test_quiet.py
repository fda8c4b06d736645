"""`quiet` keeps stderr empty, whoever writes, and puts everything back."""

import io
import logging
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from autograder.quiet import quiet

NOISE = """
import ctypes, logging, os, subprocess, sys, warnings
handler = logging.StreamHandler()
logging.getLogger("noisy").addHandler(handler)
from autograder.quiet import quiet
with quiet() as captured:
    print("NOISE print")
    print("NOISE stderr", file=sys.stderr)
    warnings.warn("NOISE warning")
    logging.getLogger("noisy").warning("NOISE logger")
    logging.getLogger("noisy").handlers[0].flush()
    os.write(2, b"NOISE write\\n")
    ctypes.CDLL(None).write(2, b"NOISE from C\\n", 13)
    subprocess.run([sys.executable, "-c", "import sys; sys.exit('NOISE from a child')"])
missing = [x for x in "print stderr warning logger write C child".split() if x not in captured.text]
assert not missing, missing
print("quiet held")
"""


def test_nothing_reaches_stdout_or_stderr_of_a_python_process():
    done = subprocess.run([sys.executable, "-c", NOISE], capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("quiet held\n", "")


def test_nothing_reaches_a_notebook():
    """Where stderr is an object of ipykernel, and descriptor 2 a pipe that it watches."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(NOISE)])
    NotebookClient(notebook, timeout=60).execute()
    assert [(output.name, output.text) for output in notebook.cells[0].outputs] == [("stdout", "quiet held\n")]


def test_after_the_block_stderr_works_again(capfd):
    with quiet() as captured:
        os.write(2, b"while quiet\n")
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"
    assert captured.text == "while quiet\n"


def test_a_handler_made_before_is_collected_and_gets_its_stream_back():
    class Stream:
        text = ""

        def write(self, text):
            self.text += text

        def flush(self):
            pass

    stream = Stream()
    logger = logging.getLogger("course.test.before")
    handler = logging.StreamHandler(stream)
    logger.addHandler(handler)
    try:
        with quiet() as captured:
            logger.warning("while quiet")
        logger.warning("afterwards")
    finally:
        logger.removeHandler(handler)
    assert "while quiet" in captured.text
    assert stream.text == "afterwards\n"
    assert handler.stream is stream


def test_a_handler_whose_stream_was_closed_stops_no_check():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.root.addHandler(handler)
    stream.close()
    try:
        with quiet() as captured:
            print("fine")
    finally:
        logging.root.removeHandler(handler)
    assert captured.text == "fine\n"
    assert handler.stream is stream


def test_a_file_handler_keeps_its_file(tmp_path):
    logger = logging.getLogger("course.test.file")
    handler = logging.FileHandler(tmp_path / "log")
    logger.addHandler(handler)
    try:
        with quiet():
            logger.warning("for the file")
    finally:
        logger.removeHandler(handler)
        handler.close()
    assert (tmp_path / "log").read_text() == "for the file\n"


def test_torchs_own_loggers_are_silent_at_the_recompile_limit(capfd):
    """It writes about a kilobyte through handlers that torch made at import."""
    import torch

    torch.compiler.reset()
    assert any(type(h) is logging.StreamHandler for h in logging.getLogger("torch._dynamo").handlers)

    @torch.compile(backend="eager", dynamic=False)
    def shifted(x, by):
        return x + by

    with quiet() as captured:
        for by in range(20):
            shifted(torch.ones(2), by)
    torch.compiler.reset()
    assert "shifted" in captured.text
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(1)])
def test_an_exception_passes_and_everything_is_put_back(error):
    stdout, stderr, where = sys.stdout, sys.stderr, os.fstat(2)
    handler = logging.StreamHandler(sys.stderr)
    logging.root.addHandler(handler)
    captured = []
    try:
        with pytest.raises(type(error)):
            _raise_quietly(error, captured)
        assert handler.stream is stderr
    finally:
        logging.root.removeHandler(handler)
    assert captured[0].text == "before it\n"
    assert (sys.stdout, sys.stderr) == (stdout, stderr)
    assert os.path.samestat(os.fstat(2), where)


def _raise_quietly(error, into):
    with quiet() as captured:
        into.append(captured)
        print("before it")
        raise error


def test_it_nests():
    with quiet() as outer:
        print("outer")
        with quiet() as inner:
            print("inner")
        print("outer again")
    assert inner.text == "inner\n"
    assert outer.text == "outer\nouter again\n"


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="No /proc here: open descriptors were not counted.")
def test_it_leaves_no_descriptor_open():
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        with quiet():
            os.write(2, b"x")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
