"""Names what judges a lesson: another grader, another lesson or another secret is another grading."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from autograder.build import Lesson
from autograder.sandbox.visible import ours, source_of

_JUDGING = ("cells", "examiner", "picture", "pristine", "referee", "speed", "warm")
"""Modules of `autograder.grading` that a verdict depends on."""


def stamp_of(lesson: Lesson) -> str:
    """Names this grader, this lesson and this secret."""
    digest = hashlib.sha256(lesson.learner.read_bytes())
    digest.update(os.environ.get("COURSE_SECRET", "").encode())
    digest.update(version("torch").encode())
    for path in sorted(_what_judges(lesson)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _what_judges(lesson: Lesson) -> Iterator[Path]:
    """The sources of this grader, of what observes a compile, and of the lesson's exercises."""
    package = Path(__file__).parents[1]
    yield from (
        package / f"{name}.py"
        for name in ("wire", "exercise", "judge", "judging", "quiet", "mending", "grading_steps", "preflight")
    )
    yield from (package.parent / "compilescope").rglob("*.py")
    yield from (package / "grading" / f"{name}.py" for name in _JUDGING)
    yield from (package / "sandbox").glob("*.py")
    listing = package / "exercises" / f"lesson_{lesson.name.split('_')[0]}.py"
    if listing.exists():
        yield from (package.parent.joinpath(*name.split(".")).with_suffix(".py") for name in _exercises(listing.stem))


def _exercises(listing: str) -> set[str]:
    """The modules of exercises that a lesson's listing imports, and those that these import, in other topics too."""
    done, left = set[str](), {f"autograder.exercises.{listing}"}
    while left:
        module = left.pop()
        done.add(module)
        left |= {other for other, _ in ours(source_of(module)) if other.startswith("autograder.exercises.")} - done
    return done
