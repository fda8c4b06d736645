"""JupyterLab as a learner starts it, `python -m autograder lab`, for the tests."""

import re
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/lab\S*token=\w+")
SECONDS = 60


@contextmanager
def server(
    command: Sequence[str | Path], folder: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """That process in `folder`, until the block ends; what it says goes to lab.log there."""
    with (folder / "lab.log").open("w") as log:
        running = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        yield running
    finally:
        running.terminate()
        try:
            running.wait(timeout=20)
        except subprocess.TimeoutExpired:
            running.kill()


@contextmanager
def started_lab(folder: Path, python: str | Path, environment: dict[str, str], port: int) -> Iterator[str]:
    """The address that it prints, its token included; what it says goes to lab.log in `folder`."""
    command = [python, "-m", "autograder", "lab", "--port", str(port), "--browser", "none"]
    with server(command, folder, environment) as running:
        yield _address_in(folder / "lab.log", running)


def _address_in(log: Path, running: subprocess.Popen[bytes]) -> str:
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        if found := ADDRESS.findall(log.read_text()):
            return str(found[-1])
        if running.poll() is not None:
            break
        time.sleep(0.25)
    raise AssertionError(f"`autograder lab` printed no address: {log.read_text()[-2000:]}")


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
