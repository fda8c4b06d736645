"""JupyterLab as a learner starts it, `python -m autograder lab`, for the tests."""

import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/lab\S*token=\w+")
SECONDS = 60


@contextmanager
def started_lab(folder: Path, python: str | Path, environment: dict[str, str], port: int) -> Iterator[str]:
    """The address that it prints, its token included; what it says goes to lab.log in `folder`."""
    command = [python, "-m", "autograder", "lab", "--port", str(port), "--browser", "none"]
    log = folder / "lab.log"
    with log.open("w") as out:
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=out)
    try:
        yield _address_in(log, server)
    finally:
        server.terminate()
        try:
            server.wait(timeout=20)
        except subprocess.TimeoutExpired:
            server.kill()


def _address_in(log: Path, server: subprocess.Popen[bytes]) -> str:
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        if found := ADDRESS.findall(log.read_text()):
            return str(found[-1])
        if server.poll() is not None:
            break
        time.sleep(0.25)
    raise AssertionError(f"`autograder lab` printed no address: {log.read_text()[-2000:]}")


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
