"""The kernel that `nbgrader autograde` starts: a Jupyter kernel in the sandbox, judged from outside it.

``python -m autograder.sandbox.kernel CONNECTION_FILE --lesson NAME [--verdicts FILE] [--seconds S]`` is what the kernel
manager runs. This process stays outside: it carries bytes between the client's ports and the kernel's, answers the
notebook's `check`, and appends each verdict to FILE, one JSON object a line, where no notebook can write. Its last line
is ``{"ended": why}``, a key of `limits.SAID`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager

from autograder.sandbox.limits import Limits

WHOLE_NOTEBOOK = 1800.0
"""Seconds that a kernel may live. How long one cell may take is nbgrader's own setting."""
CHANNELS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")


class SandboxedKernelManager(AsyncKernelManager):
    """Starts kernels in the sandbox, whatever kernel a notebook names."""

    @property
    def kernel_spec(self) -> KernelSpec:
        """This module, interrupted by message: signals would not reach into the sandbox."""
        command = [sys.executable, "-m", "autograder.sandbox.kernel", "{connection_file}"]
        return KernelSpec(argv=command, display_name="sandbox", language="python", interrupt_mode="message")


def main() -> None:
    """Serve one client until its kernel ends."""
    options = argparse.ArgumentParser()
    options.add_argument("connection_file", type=Path)
    options.add_argument("--lesson", required=True)
    options.add_argument("--verdicts", type=Path)
    options.add_argument("--seconds", type=float, default=WHOLE_NOTEBOOK)
    args, _ = options.parse_known_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, args=(os.getppid(),), daemon=True).start()
    serve(json.loads(args.connection_file.read_text()), args.lesson, args.verdicts, args.seconds)


def end_with_parent(parent: int) -> None:
    """A client that was killed shuts no kernel down."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def serve(connection: dict[str, Any], lesson: str, verdicts: Path | None, seconds: float) -> None:
    """Run the kernel of this connection file in a sandbox for `lesson`, for so many seconds at most."""
    from autograder.exercises import of_lesson
    from autograder.sandbox.bubble import Bubble

    exercises = of_lesson(lesson)
    limits = Limits(wall=seconds, cell=2 * seconds, cpu=2 * seconds)
    doors, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with Bubble(exercises, gpu=Path("/dev/nvidiactl").exists()) as bubble:
        job = bubble.start(limits, theirs)
        said = Output(limits.output, lambda: bubble.kill(1, "output"))
        for channel in CHANNELS:
            listen(connection[channel], doors, said)
        inner = {**connection, "transport": "tcp", "ip": "127.0.0.1"}
        job.send({"kernel": {name: value for name, value in inner.items() if isinstance(value, (str, int))}})
        questions: dict[str, Any] = {}
        for frame in job.frames():
            name = frame.get("check") if isinstance(frame, dict) else None
            exercise = next((one for one in exercises if one.name == name), None)
            if exercise is None:
                job.send({"unknown": 1})
                continue
            verdict = answered(job, questions, exercise)
            note(verdicts, {"exercise": name, **verdict})
            job.send(verdict)
        job.end()
        note(verdicts, {"ended": job.why})


def note(verdicts: Path | None, said: dict[str, Any]) -> None:
    """One more line of `verdicts`."""
    if verdicts is not None:
        with verdicts.open("a", encoding="utf-8") as file:
            file.write(json.dumps(said) + "\n")


def answered(job: Any, questions: dict[str, Any], exercise: Any) -> dict[str, Any]:
    """Ask the kernel's probe, and judge what it found; `questions` keeps each exercise's inputs."""
    from autograder.grading.referee import OUTCOMES, Question, decide, heard

    if exercise.name not in questions:
        questions[exercise.name] = Question.of(exercise)
    question = questions[exercise.name]
    job.send({"order": question.order})
    passed, sentence = decide(question, heard(job, OUTCOMES), job)
    points = exercise.points if passed else 0
    return {"passed": passed, "points": points, "out_of": exercise.points, "sentence": sentence}


class Output:
    """Counts what a kernel sends, and calls `stop` when it is more than it may."""

    def __init__(self, most: int, stop: Any) -> None:
        self._left, self._stop, self._lock = most, stop, threading.Lock()

    def count(self, size: int) -> None:
        """`size` bytes more."""
        with self._lock:
            self._left -= size
            over = self._left < 0
        if over:
            self._stop()


def listen(port: int, doors: socket.socket, said: Output) -> None:
    """Accept the client's connections on `port`, each joined to the kernel's own port of that number."""
    from autograder.sandbox.kernel_inside import carry, knock

    listener = socket.create_server(("127.0.0.1", port))

    def accept() -> None:
        while True:
            client, _ = listener.accept()
            try:
                kernel = knock(doors, port)
            except OSError:  # the kernel is gone, and this process goes soon
                client.close()
                return
            threading.Thread(target=carry, args=(kernel, client, said.count), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


if __name__ == "__main__":
    main()
