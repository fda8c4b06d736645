"""What has been done, so that the same command after a crash goes on where it stopped.

``work/grading/<lesson>/`` holds ``journal.jsonl``, one event a line, and ``results/<student>.json``. Events: ``judged``
(the result's file is complete), ``written`` (nbgrader's gradebook has it), ``failed`` (nothing of the student's fault).
A line counts only if it is whole, so that a crash in the middle of one loses that line and nothing else.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from autograder.build import Lesson
from autograder.errors import CourseError

State = Literal["judged", "written", "failed"]


@dataclass(frozen=True)
class Event:
    """The last thing that happened to one student's submission. `at` is in seconds since 1970."""

    state: State
    student: str
    key: str
    at: float
    note: str = ""


class Journal:
    """The journal of one lesson."""

    def __init__(self, lesson: Lesson) -> None:
        self.folder = lesson.root / "work" / "grading" / lesson.name
        self.results = self.folder / "results"
        self._path = self.folder / "journal.jsonl"

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Make the folders and keep other graders out. CourseError if one is at work, or the disk refuses."""
        try:
            self.results.mkdir(parents=True, exist_ok=True)
            lock = (self.folder / "lock").open("w")
        except OSError as error:
            raise CourseError(f"Cannot write {error.filename}: {error.strerror}.") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CourseError(
                    f"Another grader is at work on {self.folder.name}. Wait for it, or look: "
                    f"python -m autograder status {self.folder.name}"
                ) from None
            self._mend()
            yield

    def events(self) -> dict[str, Event]:
        """Student to the last event."""
        return {event.student: event for event in self._all()}

    def _all(self) -> Iterator[Event]:
        """Every whole line, in order."""
        with contextlib.suppress(FileNotFoundError):
            for line in self._path.read_text(encoding="utf-8", errors="replace").splitlines():
                with contextlib.suppress(ValueError, TypeError):
                    yield Event(**json.loads(line))

    def write_seconds(self) -> Iterator[float]:
        """Seconds between ``judged`` and ``written`` of each submission, as far as the journal tells."""
        judged: dict[str, float] = {}
        for event in self._all():
            if event.state == "judged":
                judged[event.student] = event.at
            elif event.student in judged:
                yield event.at - judged.pop(event.student)

    def note(self, state: State, student: str, key: str, note: str = "") -> None:
        """Append an event; it is on the disk when this returns."""
        event = {"state": state, "student": student, "key": key, "at": round(time.time(), 3), "note": note}
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(event) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise _no_room(error, self._path) from error

    def keep(self, result: dict[str, Any]) -> None:
        """Write a result, all or nothing, then note it as judged."""
        path = self.results / f"{result['student']}.json"
        try:
            handle, name = tempfile.mkstemp(dir=self.results, prefix=".")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(result, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except OSError as error:
            raise _no_room(error, path) from error
        self.note("judged", result["student"], result["key"])

    def result(self, student: str) -> dict[str, Any] | None:
        """The last result of a student, or None."""
        try:
            found: dict[str, Any] = json.loads((self.results / f"{student}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found

    def _mend(self) -> None:
        """End a line that a crash cut off, so that the next event begins one of its own."""
        with contextlib.suppress(FileNotFoundError), self._path.open("rb+") as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.write(b"\n")


def _no_room(error: OSError, path: Path) -> CourseError:
    return CourseError(
        f"Cannot write {path}: {error.strerror}. Nothing is lost: make room and run the same command again."
    )
